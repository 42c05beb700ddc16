package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/local/spec"
)

// listMachines lists the machines of this host by group. A group's target is its desired size, and its
// trouble is the obstacle reported by the keeper.
func listMachines(_ context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return nil, err
	}
	desired, err := keeper.Groups(h.Site)
	if err != nil {
		return nil, err
	}
	list, err := h.List()
	if err != nil {
		return nil, err
	}
	_, kept := keeper.Alive(h.Site)
	var out []platform.MachineGroup
	at, template := map[string]int{}, map[string]string{}
	for _, g := range desired {
		at[g.Name], template[g.Name] = len(out), g.Template()
		group := platform.MachineGroup{Name: g.Name, Target: g.Size}
		if trouble := keeper.Trouble(h.Site, site.Groups, g.Name); !kept {
			group.Trouble = "the process that runs its machines has stopped, for example because the host was restarted; run: kops update cluster " + c.Name + " --yes"
		} else if trouble != nil {
			group.Trouble = trouble.Error()
		}
		out = append(out, group)
	}
	for _, m := range list {
		i, ok := at[m.Group]
		if !ok { // a standalone machine, or its group was deleted
			i = len(out)
			at[m.Group] = i
			out = append(out, platform.MachineGroup{Name: m.Group})
		}
		out[i].Machines = append(out[i].Machines, platform.Machine{Name: m.Name, Group: m.Group, Node: m.Name, Addresses: []string{m.Address}, Type: spec.MachineType(m.CPUs, m.MemoryMiB),
			State: machineState(m), Running: m.Running, Detached: m.Marks.Contains(machine.MarkDetached), Outdated: template[m.Group] != "" && m.Template != template[m.Group], Created: m.Created})
	}
	return out, nil
}

// machineState returns the state of a machine. A dead machine is not started again: the keeper
// replaces it.
func machineState(m machine.Machine) string {
	switch {
	case !m.Running:
		return "dead"
	case m.Marks.Contains(machine.MarkEnding):
		return "ending"
	}
	return "running"
}

// bootRecord reads a machine's boot report and its console, from its folder.
func bootRecord(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) (platform.BootRecord, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return platform.BootRecord{}, err
	}
	report, err := h.BootReport(ctx, m.Name)
	if err != nil {
		return platform.BootRecord{}, err
	}
	console, err := h.Log(m.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return platform.BootRecord{}, fmt.Errorf("read the console of the machine %s: %w", m.Name, err)
	}
	return platform.BootRecord{Report: report, Console: console}, nil
}
