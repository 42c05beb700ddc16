// Package kinds declares the resources of the local cloud: networks, images, volumes, load
// balancers, and machines, alone or in groups.
//
// A change writes desired state into the cluster's folder, and the cluster's keeper carries it
// out; lists show the state of the folder and the kernel.
//
// It must not know what a cluster needs, nor how plans are created.
package kinds

import (
	"context"
	"fmt"
	"io"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// Client is the kinds' access to the host.
type Client struct {
	// Root is the folder of all clusters, Cache the folder of images, and Run a folder that all
	// roots share, for state that is valid until the host is restarted.
	Root, Cache, Run string
	// Keeper is the command of the process that keeps a cluster, to which
	// --root=DIR and --cluster=NAME are added.
	Keeper []string
	// Log receives the progress of long operations; may be nil.
	Log io.Writer
	Now func() time.Time
}

// logf writes a line for the user.
func (c *Client) logf(format string, args ...any) {
	if c.Log != nil {
		fmt.Fprintf(c.Log, format, args...) //nolint:errcheck // nothing is left to do
	}
}

// api is the name under which calls are limited.
const api = "local"

// All lists the kinds, each after the kinds it may refer to.
func All() []resource.Any {
	return []resource.Any{Images.Erase(), Networks.Erase(), Mirrors.Erase(), Volumes.Erase(), MachineGroups.Erase(), Machines.Erase(), LoadBalancers.Erase()}
}

func (c *Client) site(cluster string) (site.Site, error) {
	if err := site.CheckName(cluster); err != nil {
		return site.Site{}, err
	}
	return site.Site{Root: c.Root, Cluster: cluster}, nil
}

// memory returns the record of the host's settings from before the first cluster,
// which all roots share.
func (c *Client) memory() ground.HostState {
	return ground.HostState{Run: c.Run, Now: c.Now, IsAlive: keeper.IsWanted}
}

// withLock calls f while holding the cluster's lock.
func (c *Client) withLock(ctx context.Context, cluster string, f func(site.Site) error) error {
	s, err := c.site(cluster)
	if err != nil {
		return err
	}
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return f(s)
}

// changeDesired calls f and then makes the keeper check the desired state.
func (c *Client) changeDesired(ctx context.Context, cluster string, f func(site.Site) error) error {
	err := c.withLock(ctx, cluster, f)
	if err == nil {
		keeper.Wake(site.Site{Root: c.Root, Cluster: cluster})
	}
	return err
}

// writeDesired writes a desired object, whose state is unknown until the keeper has checked it.
func writeDesired(s site.Site, part, name string, wish any) error {
	if err := site.WriteJSON(keeper.File(s, part, name), wish); err != nil {
		return err
	}
	return site.Write(keeper.TroubleFile(s, part, name), nil, 0o600)
}

// removeDesired removes a desired object and the keeper's report on it.
func removeDesired(s site.Site, part, name string) error {
	if err := keeper.Remove(keeper.TroubleFile(s, part, name)); err != nil {
		return err
	}
	return keeper.Remove(keeper.File(s, part, name))
}

// listDesired converts the desired state of a part of a cluster into objects. If the network is
// gone, objects do not have the fields derived from it; they are then listed only if s.All is set.
func listDesired[W, T any](c *Client, s resource.Scope, read func(site.Site) ([]W, error), object func(site.Site, W) (*T, error)) ([]*T, error) {
	here, err := c.site(s.Cluster)
	if err != nil {
		return nil, err
	}
	list, err := read(here)
	if err != nil {
		return nil, err
	}
	var out []*T
	for _, w := range list {
		o, err := object(here, w)
		if err != nil && !s.All {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// trouble returns the keeper's report on a desired object.
func (c *Client) trouble(cluster, part, name string) error {
	s, err := c.site(cluster)
	if err != nil {
		return err
	}
	return keeper.Trouble(s, part, name)
}

// machinesIn lists the machines of a cluster, running or not.
func machinesIn(c *Client, cluster string) ([]machine.Machine, error) {
	s, err := c.site(cluster)
	if err != nil {
		return nil, err
	}
	_, all, err := machinesOf(s)
	return all, err
}

func machinesOf(s site.Site) (machine.Host, []machine.Machine, error) {
	h, err := machine.NewHost(s)
	if err != nil {
		return h, nil, err
	}
	all, err := h.List()
	return h, all, err
}

// Host returns access to a cluster's machines, to read their logs or run commands.
func (c *Client) Host(cluster string) (machine.Host, error) {
	s, err := c.site(cluster)
	if err != nil {
		return machine.Host{}, err
	}
	return machine.NewHost(s)
}

// network reads the cluster's network, which new objects need.
func network(s site.Site) (keeper.Network, error) {
	var n keeper.Network
	ok, err := site.ReadJSON(keeper.NetworkFile(s), &n)
	if err == nil && !ok {
		err = fault.New(fault.Gone, "the cluster %s has no network on this host", s.Cluster)
	}
	return n, err
}

// hostAddress returns the host's address in the cluster's network.
func hostAddress(s site.Site) (string, error) {
	n, err := network(s)
	if err != nil {
		return "", err
	}
	cidr, err := bridges.Check(n.CIDR)
	if err != nil {
		return "", err
	}
	return bridges.Gateway(cidr).Addr().String(), nil
}

// Folder is a folder of the host that a machine sees.
type Folder struct {
	// Host is its path on the host: the path of a volume, or any other.
	Host resource.Value
	// Path is its path in the machine.
	Path     string
	ReadOnly bool
}

// folders resolves the folders that a machine is to see.
func folders(list []Folder) []machine.Folder {
	var out []machine.Folder
	for _, f := range list {
		out = append(out, machine.Folder{Host: f.Host.String(), Path: f.Path, ReadOnly: f.ReadOnly})
	}
	return out
}

func observedFolders(list []machine.Folder) []Folder {
	var out []Folder
	for _, f := range list {
		out = append(out, Folder{resource.Lit(f.Host), f.Path, f.ReadOnly})
	}
	return out
}

// text returns a content's text, which must be known.
func text(c resource.Content, what string) (string, error) {
	s, known := c.Value().Known()
	if !known {
		return "", fmt.Errorf("the %s is not known", what)
	}
	return s, nil
}
