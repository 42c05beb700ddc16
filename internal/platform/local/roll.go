package local

import (
	"context"
	"encoding/json"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/spec"
)

// roll is how machines of this host are replaced. A group has one machine more during a
// roll: the host's memory is shared by all, so that one more than there were is
// rarely too many, and no pod waits for a place.
func roll() platform.Roll {
	return platform.Roll{
		Surge: 1, Refills: true, Made: made,
		Detach: func(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
			return s.Client.(*kinds.Client).Detach(ctx, c.Name, m.Name)
		},
		Deregister: func(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
			return s.Client.(*kinds.Client).Deregister(ctx, c.Name, m.Name)
		},
		Terminate: func(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
			return s.Client.(*kinds.Client).Terminate(ctx, c.Name, m.Name)
		},
	}
}

// room tells for how many more disks of machines there is space. Memory is shared, and
// bounds none of them.
func room(_ context.Context, s *platform.Session, _ *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
	var out []platform.Room
	for _, g := range groups {
		size := 0
		if v := g.Spec.RootVolume; v != nil && v.Size != nil {
			size = int(*v.Size)
		}
		n, why, remedy, err := machine.Disks(s.Client.(*kinds.Client).Root, size)
		if err != nil {
			return nil, err
		}
		out = append(out, platform.Room{Group: g.Name, Machines: n, Why: why, Remedy: remedy})
	}
	return out, nil
}

// made reads from the folders of machines what they were made of.
func made(_ context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Made, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return nil, err
	}
	list, err := h.List()
	if err != nil {
		return nil, err
	}
	wished, err := keeper.Groups(h.Site)
	if err != nil {
		return nil, err
	}
	groups, there := map[string]keeper.Group{}, map[string]machine.Machine{}
	for _, g := range wished {
		groups[g.Name] = g
	}
	for _, m := range list {
		there[m.Name] = m
	}
	out := map[string]platform.Made{}
	for _, a := range asked {
		m, ok := there[a.Name]
		g, known := groups[m.Group]
		if !ok || !known {
			continue
		}
		data, err := h.UserData(m.Name)
		if err != nil {
			return nil, fmt.Errorf("read the user data of the machine %s: %w", m.Name, err)
		}
		out[m.Name] = compare(m, data, g)
	}
	return out, nil
}

// compare tells in what a machine is not what its group wishes.
func compare(m machine.Machine, userData string, g keeper.Group) platform.Made {
	out := platform.Started(userData, g.UserData)
	out.Note("spec.image", m.Image, g.Image)
	out.Note("spec.machineType", spec.MachineType(m.CPUs, m.MemoryMiB), spec.MachineType(g.CPUs, g.MemoryMiB))
	out.Note("spec.rootVolume.size", m.DiskGiB, g.DiskGiB)
	out.Note("labels of the machine", text(m.Labels), text(g.Labels))
	out.Note("folders of the host", text(m.Folders), text(g.Folders))
	return out
}

// text writes a value such that equal ones are equal, and empty ones empty.
func text[T map[string]string | []machine.Folder](v T) string {
	if len(v) == 0 {
		return ""
	}
	data, _ := json.Marshal(v) // plain text only: cannot fail
	return string(data)
}
