package fakecloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/provider"
	"kops.local/kops/provider/value"
)

// Fields of the spec from which machines are made.
const (
	typeField    = "spec.machineType"
	networkField = "spec.networking.networkID"
)

// Power starts or stops a machine, named GROUP-NUMBER with numbers from 0. New
// machines are running.
func (w *World) Power(machine string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped[machine] = !on
}

// SetBootRecord sets the boot record of a machine.
func (w *World) SetBootRecord(machine string, r provider.BootRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bootRecords[machine] = r
}

func (w *World) bootRecord(_ context.Context, _ *api.Cluster, m provider.Machine) (provider.BootRecord, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bootRecords[m.Name], nil
}

// machines returns the kind of the machines of a group. The world stores no groups, only their
// machines.
func (w *World) machines() *provider.Kind[Machines] {
	k := w.fleet().Kind(provider.Kind[Machines]{Name: machinesKind, Title: "Machines", Key: func(m *Machines) string { return m.Name }},
		[]string{"Type", "Network", "Start"}, []string{"Count", "Most"})
	create := k.Create
	k.Create = func(ctx context.Context, m *Machines) error {
		m.ID = groupID(m.Cluster, m.Group)
		return create(ctx, m)
	}
	return k
}

// fleet returns the operations on machines. They belong to the group that their labels name.
func (w *World) fleet() *provider.Fleet[Machines] {
	return &provider.Fleet[Machines]{
		List: w.list, Start: w.start, Label: w.label, End: w.end, Name: w.name,
		Group: func(m *Machines) provider.ServerGroup {
			return provider.ServerGroup{Cluster: m.Cluster, Name: m.Group, Least: m.Count, Most: m.Most, UserData: m.Start,
				Labels: map[string]string{api.LabelCluster: m.Cluster, api.LabelInstanceGroup: m.Group},
				Made:   map[string]string{typeField: m.Type, networkField: m.Network.Text()}}
		},
		Observed: func(g provider.ServerGroup) *Machines {
			return &Machines{Cluster: g.Cluster, Group: g.Name, Name: groupName(g.Cluster, g.Name), Count: g.Least, Most: g.Most, Start: g.UserData,
				Type: g.Made[typeField], Network: value.Lit(g.Made[networkField]), ID: groupID(g.Cluster, g.Name)}
		},
	}
}

func groupName(cluster, group string) string { return group + "." + cluster }

func groupID(cluster, group string) string { return "machines-" + groupName(cluster, group) }

func groupAddress(s provider.Server) string {
	return machinesKind + "/" + groupName(s.Labels[api.LabelCluster], s.Group)
}

func (w *World) list(_ context.Context, cluster, group string) (out []provider.Server, err error) {
	err = w.call("list", machinesKind, func() error {
		for _, s := range w.servers {
			if s.Labels[api.LabelCluster] != cluster || group != "" && s.Group != group {
				continue
			}
			s.State, s.Running = "running", !w.stopped[s.Name]
			if !s.Running {
				s.State = "stopped"
			}
			out = append(out, s)
		}
		return nil
	})
	return out, err
}

// start starts a machine, which needs a name of its own in its cluster.
func (w *World) start(_ context.Context, of *Machines, l provider.Launch) error {
	return w.call("create", machinesKind+"/"+of.Name, func() error {
		s := provider.Server{ID: "machine-" + l.Name + "." + of.Cluster, Name: l.Name, Group: l.Labels[api.LabelInstanceGroup], Labels: maps.Clone(l.Labels),
			Made: map[string]string{typeField: of.Type, networkField: of.Network.Text()}}
		if slices.ContainsFunc(w.servers, func(other provider.Server) bool { return other.ID == s.ID }) {
			return kops.WithClass(kops.Taken, fmt.Errorf("the machine %s already exists", s.Name), "")
		}
		w.servers = append(w.servers, s)
		return nil
	})
}

func (w *World) label(_ context.Context, s provider.Server, labels map[string]string) error {
	return w.call("update", groupAddress(s), func() error {
		i := slices.IndexFunc(w.servers, func(other provider.Server) bool { return other.ID == s.ID })
		if i < 0 {
			return kops.WithClass(kops.Gone, fmt.Errorf("the machine %s does not exist", s.Name), "")
		}
		w.servers[i].Labels = maps.Clone(labels)
		return nil
	})
}

func (w *World) end(_ context.Context, s provider.Server) error {
	return w.call("delete", groupAddress(s), func() error {
		w.remove(func(other provider.Server) bool { return other.ID == s.ID })
		return nil
	})
}

// remove ends machines, and reports whether there were any. The caller holds the lock.
func (w *World) remove(is func(provider.Server) bool) bool {
	n := len(w.servers)
	w.servers = slices.DeleteFunc(w.servers, func(s provider.Server) bool {
		if is(s) {
			w.ended[slotOf(s)]++
		}
		return is(s)
	})
	return len(w.servers) < n
}

// slot is what a machine and its successors share: one is named GROUP-NUMBER, and the others
// GROUP-NUMBER-GENERATION.
type slot struct{ cluster, name string }

func slotOf(s provider.Server) slot {
	number, _, _ := strings.Cut(strings.TrimPrefix(s.Name, s.Group+"-"), "-")
	return slot{s.Labels[api.LabelCluster], s.Group + "-" + number}
}

// name returns the name of a new machine, with the least number that no other machine of the group has.
func (w *World) name(g provider.ServerGroup, taken []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := 0; ; n++ {
		s := slot{g.Cluster, fmt.Sprintf("%s-%d", g.Name, n)}
		if slices.ContainsFunc(taken, func(name string) bool { return name == s.name || strings.HasPrefix(name, s.name+"-") }) {
			continue
		}
		if ended := w.ended[s]; ended > 0 {
			return fmt.Sprintf("%s-%d", s.name, ended+1)
		}
		return s.name
	}
}
