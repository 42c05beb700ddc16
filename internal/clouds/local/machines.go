package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kops.local/kops/api"
	"kops.local/kops/internal/cloud"
	"kops.local/kops/internal/clouds/local/keeper"
	"kops.local/kops/internal/clouds/local/kinds"
	"kops.local/kops/internal/clouds/local/site"
)

// machines lists the machines of this host by group. What is wished of a group
// is its target, and what keeps the keeper from it its trouble.
func machines(_ context.Context, s *cloud.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]cloud.MachineGroup, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return nil, err
	}
	wished, err := keeper.Groups(h.Site)
	if err != nil {
		return nil, err
	}
	list, err := h.List()
	if err != nil {
		return nil, err
	}
	_, kept := keeper.Alive(h.Site)
	var out []cloud.MachineGroup
	at := map[string]int{}
	for _, g := range wished {
		at[g.Name] = len(out)
		shown := cloud.MachineGroup{Name: g.Name, Target: g.Size}
		if trouble := keeper.Trouble(h.Site, site.Groups, g.Name); !kept {
			shown.Trouble = "nothing keeps its machines, as after a restart of the host; run: kops update cluster " + c.Name + " --yes"
		} else if trouble != nil {
			shown.Trouble = trouble.Error()
		}
		out = append(out, shown)
	}
	for _, m := range list {
		i, ok := at[m.Group]
		if !ok { // it stands by itself, or its group is gone
			i = len(out)
			at[m.Group] = i
			out = append(out, cloud.MachineGroup{Name: m.Group})
		}
		state := "dead" // nobody starts it again: the keeper makes another
		if m.Running {
			state = "running"
		}
		out[i].Machines = append(out[i].Machines, cloud.Machine{Name: m.Name, Group: m.Group, Node: m.Name, Addresses: []string{m.Address},
			State: state, Running: m.Running, Created: m.Created})
	}
	return out, nil
}

// bootRecord reads a machine's boot report and its console, from its folder.
func bootRecord(ctx context.Context, s *cloud.Session, c *api.Cluster, m cloud.Machine) (cloud.BootRecord, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return cloud.BootRecord{}, err
	}
	report, err := h.BootReport(ctx, m.Name)
	if err != nil {
		return cloud.BootRecord{}, err
	}
	console, err := h.Log(m.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cloud.BootRecord{}, fmt.Errorf("read the console of the machine %s: %w", m.Name, err)
	}
	return cloud.BootRecord{Report: report, Console: console}, nil
}
