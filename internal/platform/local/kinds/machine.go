package kinds

import (
	"context"
	"net/netip"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// Machine is a standalone machine, which is not replaced when it dies.
type Machine struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`
	// Network is the id of the cluster's network.
	Network resource.Value `res:"forbid"`
	// Image is the path of an image.
	Image resource.Value `res:"replace"`
	// MemoryMiB, CPUs and DiskGiB are its size; 0 lets the host choose.
	MemoryMiB int `res:"replace"`
	CPUs      int `res:"replace"`
	DiskGiB   int `res:"replace"`
	// UserData is a script, or several in a multipart MIME message.
	UserData resource.Content  `res:"replace"`
	Folders  []Folder          `res:"replace"`
	Labels   map[string]string `res:"replace"`

	ID      string `res:"out,id" out:"id"` // the cluster's name, a slash and the machine's name
	Address string `res:"out" out:"address"`
}

// Machines is the kind of Machine.
var Machines = resource.Kind[Machine, *Client]{
	Name: "local_machine", Direct: true, API: api, Tasks: []string{"Machine"},
	Key:    func(m *Machine) string { return m.Name },
	List:   listMachines,
	Create: createMachine,
	Delete: func(ctx context.Context, c *Client, m *Machine) error {
		return TerminateMachine(ctx, c, m.Cluster, m.Name)
	},
}

// TerminateMachine kills a machine and removes it. If it belongs to a group, the
// keeper creates a replacement.
func TerminateMachine(ctx context.Context, c *Client, cluster, name string) error {
	return c.changeDesired(ctx, cluster, func(s site.Site) error {
		h, err := machine.NewHost(s)
		if err != nil {
			return err
		}
		return h.Delete(ctx, name)
	})
}

// listMachines lists the running machines outside groups. If s.All is set, it also lists dead
// ones, and those left of deleted groups; a group's machines are removed with the group.
func listMachines(_ context.Context, c *Client, s resource.Scope) ([]*Machine, error) {
	h, err := c.Host(s.Cluster)
	if err != nil {
		return nil, err
	}
	list, err := h.List()
	if err != nil {
		return nil, err
	}
	gs, err := keeper.Groups(h.Site)
	if err != nil {
		return nil, err
	}
	inUse := map[string]bool{}
	for _, g := range gs {
		inUse[g.Name] = true
	}
	var out []*Machine
	for _, m := range list {
		single := m.Group == "" && !m.Created.IsZero()
		if !s.All && !(single && m.Running) || inUse[m.Group] {
			continue
		}
		data, err := h.UserData(m.Name)
		if err != nil && !s.All {
			return nil, err
		}
		out = append(out, &Machine{Cluster: s.Cluster, Name: m.Name, Network: resource.Lit(h.Bridge()), Image: resource.Lit(m.Image),
			MemoryMiB: m.MemoryMiB, CPUs: m.CPUs, DiskGiB: m.DiskGiB, UserData: resource.Text(resource.Lit(data)),
			Folders: observedFolders(m.Folders), Labels: m.Labels, ID: s.Cluster + "/" + m.Name, Address: m.Address})
	}
	return out, nil
}

func createMachine(ctx context.Context, c *Client, m *Machine) error {
	data, err := text(m.UserData, "user data of the machine "+m.Name)
	if err != nil {
		return err
	}
	return c.withLock(ctx, m.Cluster, func(s site.Site) error {
		n, err := network(s)
		if err != nil {
			return err
		}
		cidr, err := bridges.Check(n.CIDR)
		if err != nil {
			return err
		}
		h, all, err := machinesOf(s)
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, x := range all {
			if x.Name == m.Name && !x.Running {
				if err := h.Delete(ctx, x.Name); err != nil {
					return err
				}
				continue
			}
			if x.Name == m.Name {
				return fault.New(fault.Conflict, "a machine named %s already exists", m.Name)
			}
			taken[x.Address] = true
		}
		address, err := bridges.FreeAddress(cidr, func(a netip.Addr) bool { return taken[a.String()] })
		if err != nil {
			return err
		}
		m.ID, m.Address = m.Cluster+"/"+m.Name, address.Addr().String()
		return h.Create(ctx, machine.Spec{Name: m.Name, Image: m.Image.String(), Address: address, Gateway: bridges.Gateway(cidr).Addr(),
			MemoryMiB: m.MemoryMiB, CPUs: m.CPUs, DiskGiB: m.DiskGiB, UserData: data, Folders: folders(m.Folders), Labels: m.Labels}, c.Now())
	})
}
