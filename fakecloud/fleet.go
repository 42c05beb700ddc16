package fakecloud

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/provider"
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

// server is one machine of a group, created by an update.
type server struct {
	name       string
	generation int // how many machines have had its number, including this one
	terminated bool
	spec       Machines // its group as specified when the machine was created
	labels     map[string]string
}

// machineKey returns the key of machine i of a group: cluster/group/number.
func machineKey(m *Machines, i int) string { return fmt.Sprintf("%s/%s/%d", m.Cluster, m.Group, i) }

// reconcile creates the missing machines of a group and marks those that would be
// created differently now. The caller holds the lock.
func (w *World) reconcile(m *Machines) {
	digest := provider.Digest(m.Type, startScript(m))
	for i := range m.Count {
		s := w.servers[machineKey(m, i)]
		switch {
		case s == nil:
			w.servers[machineKey(m, i)] = &server{name: fmt.Sprintf("%s-%d", m.Group, i), generation: 1, spec: *m, labels: provider.Labels(m.Group, digest)}
		case s.terminated:
			w.servers[machineKey(m, i)] = &server{name: fmt.Sprintf("%s-%d-%d", m.Group, i, s.generation+1), generation: s.generation + 1, spec: *m, labels: provider.Labels(m.Group, digest)}
		default:
			s.labels = provider.Mark(s.labels, digest)
		}
	}
	for i := m.Count; w.servers[machineKey(m, i)] != nil; i++ {
		delete(w.servers, machineKey(m, i))
	}
}

// startScript returns the script that machines of a group run when they boot.
func startScript(m *Machines) string {
	text, _ := m.Start.Value().Known() // always known when machines are created
	return text
}

// alive counts the machines of a group that are not terminated.
func (w *World) alive(m *Machines) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; w.servers[machineKey(m, i)] != nil; i++ {
		if !w.servers[machineKey(m, i)].terminated {
			n++
		}
	}
	return n
}

func (w *World) deleteMachines(m *Machines) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; w.servers[machineKey(m, i)] != nil; i++ {
		delete(w.servers, machineKey(m, i))
	}
}

// fleet lists the machines of each group.
func (w *World) fleet(_ context.Context, c *api.Cluster) ([]provider.MachineGroup, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []provider.MachineGroup
	for _, m := range w.groups(c) {
		g := provider.MachineGroup{Name: m.Group, Target: m.Count}
		for i := range m.Count {
			s := w.servers[machineKey(m, i)]
			if s == nil || s.terminated {
				continue
			}
			one := provider.Machine{Name: s.name, Group: m.Group, Node: s.name, Type: s.spec.Type, State: "running", Running: true, Outdated: provider.Outdated(s.labels)}
			if w.stopped[s.name] {
				one.State, one.Running = "stopped", false
			}
			g.Machines = append(g.Machines, one)
		}
		out = append(out, g)
	}
	return out, nil
}

// groups returns the groups of a cluster as last specified, sorted by name. The caller
// holds the lock.
func (w *World) groups(c *api.Cluster) []*Machines {
	var out []*Machines
	for _, address := range slices.Sorted(maps.Keys(w.objects)) {
		if m, ok := w.objects[address].got.(*Machines); ok && w.objects[address].cluster == c.Name {
			out = append(out, m)
		}
	}
	return out
}

// find returns a machine and its group as last specified, or nil if there is no such
// machine. The caller holds the lock.
func (w *World) find(c *api.Cluster, name string) (*server, *Machines) {
	for _, m := range w.groups(c) {
		for i := range m.Count {
			if s := w.servers[machineKey(m, i)]; s != nil && s.name == name && !s.terminated {
				return s, m
			}
		}
	}
	return nil, nil
}

// drift compares machines with the current specification of their groups.
func (w *World) drift(_ context.Context, c *api.Cluster, list []provider.Machine) (map[string]provider.Drift, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]provider.Drift{}
	for _, asked := range list {
		if s, m := w.find(c, asked.Name); s != nil {
			made := provider.CompareUserData(startScript(&s.spec), startScript(m))
			made.Add("spec.machineType", s.spec.Type, m.Type)
			out[asked.Name] = made
		}
	}
	return out, nil
}

// terminate terminates a machine; the next update creates its replacement.
func (w *World) terminate(_ context.Context, c *api.Cluster, asked provider.Machine) error {
	return w.call("terminate", asked.Name, func() {
		if s, _ := w.find(c, asked.Name); s != nil {
			s.terminated = true
		}
	})
}

func (w *World) bootRecord(_ context.Context, _ *api.Cluster, m provider.Machine) (provider.BootRecord, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bootRecords[m.Name], nil
}
