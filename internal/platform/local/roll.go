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

// roll defines how machines of this host are replaced. A group has one extra machine
// during a roll: all machines share the host's memory, so that one more is rarely too
// many, and no pod waits for a place.
func roll() platform.Roll {
	return platform.Roll{
		Surge: 1, Refills: true, Drift: drift,
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

// room returns for how many more machine disks there is space. Memory is shared and is not a limit.
func room(_ context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
	var out []platform.Room
	for _, g := range groups {
		n, why, remedy, err := machine.Disks(s.Client.(*kinds.Client).Root, spec.Disk(g), spec.MinDisk(c))
		if err != nil {
			return nil, err
		}
		out = append(out, platform.Room{Group: g.Name, Machines: n, Why: why, Remedy: remedy})
	}
	return out, nil
}

// drift reads from the machines' folders what they were created from.
func drift(_ context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
	h, err := s.Client.(*kinds.Client).Host(c.Name)
	if err != nil {
		return nil, err
	}
	list, err := h.List()
	if err != nil {
		return nil, err
	}
	desired, err := keeper.Groups(h.Site)
	if err != nil {
		return nil, err
	}
	groups, there := map[string]keeper.Group{}, map[string]machine.Machine{}
	for _, g := range desired {
		groups[g.Name] = g
	}
	for _, m := range list {
		there[m.Name] = m
	}
	out := map[string]platform.Drift{}
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

// compare reports how a machine differs from what its group specifies.
func compare(m machine.Machine, userData string, g keeper.Group) platform.Drift {
	out := platform.CompareUserData(userData, g.UserData)
	out.Add("spec.image", m.Image, g.Image)
	out.Add("spec.machineType", spec.MachineType(m.CPUs, m.MemoryMiB), spec.MachineType(g.CPUs, g.MemoryMiB))
	out.Add("spec.rootVolume.size", m.DiskGiB, g.DiskGiB)
	out.Add("labels of the machine", encodeJSON(m.Labels), encodeJSON(g.Labels))
	out.Add("folders of the host", encodeJSON(m.Folders), encodeJSON(g.Folders))
	return out
}

// encodeJSON encodes a value so that equal values give equal text, and empty values "".
func encodeJSON[T map[string]string | []machine.Folder](v T) string {
	if len(v) == 0 {
		return ""
	}
	data, _ := json.Marshal(v) // plain text only: cannot fail
	return string(data)
}
