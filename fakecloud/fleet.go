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

// fleet lists as many machines of each group as are wished.
func (w *World) fleet(_ context.Context, c *api.Cluster) ([]provider.MachineGroup, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []provider.MachineGroup
	for _, address := range slices.Sorted(maps.Keys(w.objects)) {
		o := w.objects[address]
		m, ok := o.got.(*Machines)
		if !ok || o.cluster != c.Name {
			continue
		}
		g := provider.MachineGroup{Name: m.Group, Target: m.Count}
		for i := range m.Count {
			name := fmt.Sprintf("%s-%d", m.Group, i)
			one := provider.Machine{Name: name, Group: m.Group, Node: name, State: "running", Running: true}
			if w.stopped[name] {
				one.State, one.Running = "stopped", false
			}
			g.Machines = append(g.Machines, one)
		}
		out = append(out, g)
	}
	return out, nil
}

func (w *World) bootRecord(_ context.Context, _ *api.Cluster, m provider.Machine) (provider.BootRecord, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[m.Name], nil
}
