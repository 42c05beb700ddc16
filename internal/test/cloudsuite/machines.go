package cloudsuite

import (
	"slices"
	"strings"

	"kops.local/kops"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/world"
)

// fleet is a cluster's machines, as its platform reports and replaces them.
type fleet struct {
	*World
	platform.Provider
	session *platform.Session
	cluster *kops.Cluster
}

// fleet connects to the machines of the cluster.
func (w *World) fleet() *fleet {
	w.Helper()
	env := func(name string) string { return w.Env[name] }
	client, err := kops.New(w.Context(), world.Config(env("KOPS_STATE_STORE"), world.Options{Env: env, Cache: w.TempDir(), Version: "1.37.0"}))
	if err != nil {
		w.Fatal(err)
	}
	f := &fleet{World: w}
	if f.cluster, err = client.Clusters().Get(w.Context(), Name); err != nil {
		w.Fatal(err)
	}
	all := providers.All(platform.World{Env: env})
	f.Provider = all[slices.IndexFunc(all, func(p platform.Provider) bool { return p.Name == w.Cloud.Platform.Name })]
	config := platform.Config{Cluster: f.cluster.Spec}
	if of := f.Lookup.Region; of != nil {
		config.Region, err = of(f.cluster.Spec)
	}
	if err == nil {
		f.session, err = f.Connect(w.Context(), config)
	}
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// Machine returns the only machine of a group.
func (w *World) Machine(group string) platform.Machine {
	w.Helper()
	return w.fleet().only(group)
}

// checkMachines checks how machines are listed, what they were made of, how they are replaced, and for
// how many more there is room.
func (w *World) checkMachines() {
	w.Small()
	w.Apply()
	f := w.fleet()
	m := f.only(w.Nodes())
	if m.Group != w.Nodes() || m.Zone != w.Cloud.Zones[0] || !m.Running || m.Outdated || m.Detached || m.Created.IsZero() {
		w.Errorf("the machine is %+v", m)
	}
	if d := f.drift(m); len(d) > 0 {
		w.Errorf("a new machine was made of something else: %+v", d)
	}
	f.checkRoom()
	control := f.only(w.ControlPlane())
	f.replace(control, "delete", "instance", control.Name, "--name", Name)
	w.CheckUnchanged()
	f.detach(m)
	w.Set(w.Nodes(), "spec.machineType="+w.Cloud.Type)
	w.Apply()
	if w.Cloud.Outdate != nil {
		w.Cloud.Outdate(w)
	}
	m = f.only(w.Nodes())
	d := f.drift(m)
	if !m.Outdated || !slices.ContainsFunc(d, func(c platform.Change) bool { return c.Field == "spec.machineType" && c.Want == w.Cloud.Type }) {
		w.Errorf("the machine %+v was made of something else than %s: %+v", m, w.Cloud.Type, d)
	}
	if w.Cloud.Cannot[roll] == "" {
		f.replace(m, "rolling-update", "cluster", Name, "--instance-group", w.Nodes(), "--node-interval", "0s")
		if text := w.previewRoll(); !strings.Contains(text, "No rolling-update required") {
			w.Errorf("after the roll some are outdated:\n%s", text)
		}
		w.checkChanged(roll)
	}
	if w.Cloud.Release != nil {
		w.Cloud.Release(w, f.only(w.Nodes()))
	}
	w.Delete()
}

// replace runs a command that replaces a machine and no other.
func (f *fleet) replace(m platform.Machine, args ...string) {
	f.Helper()
	f.Must(slices.Concat(args, []string{"--cloudonly", "--yes", "--post-drain-delay", "0s", "--validate-count", "0"})...)
	f.refill()
	if next := f.only(m.Group); next.Name == m.Name {
		f.Errorf("kops %s does not replace %+v", strings.Join(args, " "), m)
	}
}

// refill creates machines that are missing, where groups do not do so themselves.
func (f *fleet) refill() {
	f.Helper()
	if !f.Fleet.Roll.Refills {
		f.Must("update", "cluster", Name, "--yes")
	}
}

// detach takes a machine out of its group, as a roll does.
func (f *fleet) detach(m platform.Machine) {
	f.Helper()
	if f.Fleet.Roll.Detach == nil {
		return
	}
	if err := f.Fleet.Roll.Detach(f.Context(), f.session, f.cluster.Spec, m); err != nil {
		f.Fatal(err)
	}
	f.refill()
	if next := f.only(m.Group); next.Name == m.Name {
		f.Errorf("the group still counts the detached machine %+v", next)
	}
}

// list returns a group of the cluster.
func (f *fleet) list(group string) platform.MachineGroup {
	f.Helper()
	groups, err := f.Fleet.Machines(f.Context(), f.session, f.cluster.Spec, f.cluster.Groups)
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range groups {
		if g.Name == group {
			return g
		}
	}
	f.Fatalf("there is no group %s in %+v", group, groups)
	return platform.MachineGroup{}
}

// only returns the only machine that a group counts.
func (f *fleet) only(group string) platform.Machine {
	f.Helper()
	g := f.list(group)
	g.Machines = slices.DeleteFunc(g.Machines, func(m platform.Machine) bool { return m.Detached })
	if g.Target != 1 || len(g.Machines) != 1 || g.Trouble != "" {
		f.Fatalf("the group is %+v", g)
	}
	return g.Machines[0]
}

// drift returns what a machine was made of, where that differs from what its group has now.
func (f *fleet) drift(m platform.Machine) []platform.Change {
	f.Helper()
	all, err := f.Fleet.Roll.Drift(f.Context(), f.session, f.cluster.Spec, f.cluster.Groups, []platform.Machine{m})
	if err != nil {
		f.Fatal(err)
	}
	return all[m.Name].Changes
}

// checkRoom checks that the platform says for how many more machines there is room, and why.
func (f *fleet) checkRoom() {
	f.Helper()
	if f.Provider.Fleet.Room == nil {
		return
	}
	rooms, err := f.Provider.Fleet.Room(f.Context(), f.session, f.cluster.Spec, f.cluster.Groups)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range rooms {
		if r.Machines < 1 || r.Why == "" || r.Remedy == "" {
			f.Errorf("there is room %+v", r)
		}
	}
	if !slices.ContainsFunc(rooms, func(r platform.Room) bool { return r.Group == f.Nodes() }) {
		f.Errorf("nothing is known of the room for %s: %+v", f.Nodes(), rooms)
	}
}
