package fakecloud

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/provider"
)

// Power starts or stops a machine, which is named by its group, a dash and its
// number from 0. Machines run when they are made.
func (w *World) Power(machine string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped[machine] = !on
}

// Tell sets what a machine tells of its start.
func (w *World) Tell(machine string, r provider.BootRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[machine] = r
}

// server is one machine of a group, which an update has made.
type server struct {
	name   string
	born   int // how many there were with its number, with it
	ended  bool
	made   Machines // as it was wished when the machine was made
	labels map[string]string
}

// number names the place of a machine in its group.
func number(m *Machines, i int) string { return fmt.Sprintf("%s/%s/%d", m.Cluster, m.Group, i) }

// staff makes the machines that a group lacks, and marks those that would be made
// otherwise now. The lock is held.
func (w *World) staff(m *Machines) {
	digest := provider.Digest(m.Type, start(m))
	for i := range m.Count {
		s := w.servers[number(m, i)]
		switch {
		case s == nil:
			w.servers[number(m, i)] = &server{name: fmt.Sprintf("%s-%d", m.Group, i), born: 1, made: *m, labels: provider.Labels(m.Group, digest)}
		case s.ended:
			w.servers[number(m, i)] = &server{name: fmt.Sprintf("%s-%d-%d", m.Group, i, s.born+1), born: s.born + 1, made: *m, labels: provider.Labels(m.Group, digest)}
		default:
			s.labels = provider.Mark(s.labels, digest)
		}
	}
	for i := m.Count; w.servers[number(m, i)] != nil; i++ {
		delete(w.servers, number(m, i))
	}
}

// start is what machines run when they start.
func start(m *Machines) string {
	text, _ := m.Start.Value().Known() // it is when they are made
	return text
}

// alive counts the machines of a group.
func (w *World) alive(m *Machines) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; w.servers[number(m, i)] != nil; i++ {
		if !w.servers[number(m, i)].ended {
			n++
		}
	}
	return n
}

func (w *World) dismiss(m *Machines) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; w.servers[number(m, i)] != nil; i++ {
		delete(w.servers, number(m, i))
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
			s := w.servers[number(m, i)]
			if s == nil || s.ended {
				continue
			}
			one := provider.Machine{Name: s.name, Group: m.Group, Node: s.name, Type: s.made.Type, State: "running", Running: true, Outdated: provider.Outdated(s.labels)}
			if w.stopped[s.name] {
				one.State, one.Running = "stopped", false
			}
			g.Machines = append(g.Machines, one)
		}
		out = append(out, g)
	}
	return out, nil
}

// groups are those of a cluster as they are wished, in order. The lock is held.
func (w *World) groups(c *api.Cluster) []*Machines {
	var out []*Machines
	for _, address := range slices.Sorted(maps.Keys(w.objects)) {
		if m, ok := w.objects[address].got.(*Machines); ok && w.objects[address].cluster == c.Name {
			out = append(out, m)
		}
	}
	return out
}

// find returns a machine, and its group as it is wished; nil: there is none. The lock is held.
func (w *World) find(c *api.Cluster, name string) (*server, *Machines) {
	for _, m := range w.groups(c) {
		for i := range m.Count {
			if s := w.servers[number(m, i)]; s != nil && s.name == name && !s.ended {
				return s, m
			}
		}
	}
	return nil, nil
}

// made compares machines with what their groups are wished to be.
func (w *World) made(_ context.Context, c *api.Cluster, list []provider.Machine) (map[string]provider.Made, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]provider.Made{}
	for _, asked := range list {
		if s, m := w.find(c, asked.Name); s != nil {
			made := provider.Started(start(&s.made), start(m))
			made.Note("spec.machineType", s.made.Type, m.Type)
			out[asked.Name] = made
		}
	}
	return out, nil
}

// terminate ends a machine; the next update makes another.
func (w *World) terminate(_ context.Context, c *api.Cluster, asked provider.Machine) error {
	return w.call("terminate", asked.Name, func() {
		if s, _ := w.find(c, asked.Name); s != nil {
			s.ended = true
		}
	})
}

func (w *World) bootRecord(_ context.Context, _ *api.Cluster, m provider.Machine) (provider.BootRecord, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[m.Name], nil
}
