package kinds

import (
	"context"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// MachineGroup is a number of identical machines. The cluster's keeper creates missing machines
// and replaces dead ones. A change of the machines' properties applies to new machines only.
type MachineGroup struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`
	// Network is the id of the cluster's network.
	Network resource.Value `res:"forbid"`
	// Image is the path of an image.
	Image resource.Value
	Size  int
	// MemoryMiB, CPUs and DiskGiB are each machine's size; 0 lets the host choose.
	MemoryMiB, CPUs, DiskGiB int
	// MinDiskGiB is the least size of a disk that the host chooses; 0 means the host's own minimum.
	MinDiskGiB int
	// UserData is a script, or several in a multipart MIME message.
	UserData resource.Content
	Folders  []Folder
	// Labels are passed to the machines, in their metadata.
	Labels map[string]string

	ID string `res:"out,id" out:"id"` // the cluster's name, a slash and the group's name
}

// MachineGroups is the kind of MachineGroup.
var MachineGroups = resource.Kind[MachineGroup, *Client]{
	Name: "local_machine_group", Direct: true, API: api, Tasks: []string{"MachineGroup"},
	Group:  func(g *MachineGroup) string { return g.Name },
	MadeOf: []string{"Image", "MemoryMiB", "CPUs", "DiskGiB", "MinDiskGiB", "UserData", "Folders", "Labels"},
	Key:    func(g *MachineGroup) string { return g.Name },
	List:   listGroups,
	Create: applyGroup,
	Update: []resource.Setter[MachineGroup, *Client]{{
		Fields: []string{"Image", "Size", "MemoryMiB", "CPUs", "DiskGiB", "MinDiskGiB", "UserData", "Folders", "Labels"},
		Set:    func(ctx context.Context, c *Client, _, want *MachineGroup) error { return applyGroup(ctx, c, want) },
	}},
	Ready:  waitForGroup,
	Delete: deleteGroup,
}

func listGroups(_ context.Context, c *Client, s resource.Scope) ([]*MachineGroup, error) {
	return listDesired(c, s, keeper.Groups, func(here site.Site, g keeper.Group) (*MachineGroup, error) {
		return &MachineGroup{Cluster: s.Cluster, Name: g.Name, Network: resource.Lit(here.Bridge()), Image: resource.Lit(g.Image),
			Size: g.Size, MemoryMiB: g.MemoryMiB, CPUs: g.CPUs, DiskGiB: g.DiskGiB, MinDiskGiB: g.MinDiskGiB, UserData: resource.Text(resource.Lit(g.UserData)),
			Folders: observedFolders(g.Folders), Labels: g.Labels, ID: s.Cluster + "/" + g.Name}, nil
	})
}

func applyGroup(ctx context.Context, c *Client, g *MachineGroup) error {
	if err := site.CheckName(g.Name); err != nil {
		return err
	}
	data, err := text(g.UserData, "user data of the group "+g.Name)
	if err != nil {
		return err
	}
	if _, err := machine.Scripts(data); err != nil {
		return fault.Wrap(fault.Permanent, err, "")
	}
	g.ID = g.Cluster + "/" + g.Name
	return c.changeDesired(ctx, g.Cluster, func(s site.Site) error {
		if _, err := network(s); err != nil {
			return err
		}
		if err := keeper.Remove(keeper.TroubleFile(s, site.Groups, g.Name)); err != nil { // the keeper reports it again
			return err
		}
		return site.WriteJSON(keeper.File(s, site.Groups, g.Name), keeper.Group{Name: g.Name, Size: g.Size, Image: g.Image.String(),
			MemoryMiB: g.MemoryMiB, CPUs: g.CPUs, DiskGiB: g.DiskGiB, MinDiskGiB: g.MinDiskGiB, UserData: data, Folders: folders(g.Folders), Labels: g.Labels})
	})
}

// waitForGroup returns nil if the desired number of machines run, or what is in the way.
func waitForGroup(_ context.Context, c *Client, g *MachineGroup) error {
	all, err := machinesIn(c, g.Cluster)
	if err != nil {
		return err
	}
	runs := 0
	for _, m := range all {
		if m.Group == g.Name && m.Running && !m.Marks.Contains(machine.MarkDetached) {
			runs++
		}
	}
	if runs >= g.Size {
		return nil
	}
	s, err := c.site(g.Cluster)
	if err != nil {
		return err
	}
	if err := keeper.Trouble(s, site.Groups, g.Name); err != nil {
		return err
	}
	return fault.New(fault.NotYet, "%d of %d machines of the group %s are running; see %s", runs, g.Size, g.Name, keeper.LogFile(s))
}

// deleteGroup removes the desired state and then the machines.
func deleteGroup(ctx context.Context, c *Client, g *MachineGroup) error {
	return c.withLock(ctx, g.Cluster, func(s site.Site) error {
		for _, f := range []string{keeper.File(s, site.Groups, g.Name), keeper.TroubleFile(s, site.Groups, g.Name), keeper.LastLog(s, g.Name)} {
			if err := keeper.Remove(f); err != nil {
				return err
			}
		}
		h, all, err := machinesOf(s)
		if err != nil {
			return err
		}
		var work errgroup.Group
		for _, m := range all {
			if m.Group == g.Name {
				work.Go(func() error { return h.Delete(ctx, m.Name) })
			}
		}
		return work.Wait()
	})
}
