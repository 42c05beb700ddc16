package kinds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// Network connects a cluster's machines and this host: a bridge with the host's
// address, and the process that keeps the cluster. It is the first object of a
// cluster to be created and the last to be deleted.
type Network struct {
	Cluster string `res:"forbid"`
	// CIDR is an IPv4 range of 16 to 28 bits; the host has its first address.
	CIDR string `res:"forbid"`
	// Routes are ranges that lie behind machines, each with the machine's address.
	Routes map[string]string
	// Refused are ranges whose addresses exist inside machines only, such as those of pods:
	// the host rejects packets to them unless another route matches, and none leaves it.
	Refused []string
	// NAT lets machines reach the world under the host's address. It needs the program
	// iptables and enables the host's packet forwarding.
	NAT bool
	// Up reports whether the bridge and the keeper exist, which is false after a
	// restart of the host. Always true in the desired state.
	Up bool

	ID string `res:"out,id" out:"id"` // the bridge's name
	// Gateway is the host's address.
	Gateway string `res:"out" out:"gateway"`
	// Registry is a folder of the host with one JSON file for each machine: its
	// name, group, address and public key.
	Registry string `res:"out" out:"registry"`
	// Requests is the folder in which the cluster requests that machines be replaced.
	Requests string `res:"out" out:"requests"`
}

// Networks is the kind of Network.
var Networks = resource.Kind[Network, *Client]{
	Name: "local_network", Direct: true, API: api, Phase: resource.Network, Tasks: []string{"Network"},
	Key:    func(n *Network) string { return n.Cluster },
	List:   listNetworks,
	Create: createNetwork,
	Update: []resource.Setter[Network, *Client]{
		{Fields: []string{"Routes", "Refused", "NAT", "Up"}, Set: func(ctx context.Context, c *Client, _, want *Network) error {
			return createNetwork(ctx, c, want)
		}},
	},
	Delete: deleteNetwork,
}

func listNetworks(_ context.Context, c *Client, s resource.Scope) ([]*Network, error) {
	here, err := c.site(s.Cluster)
	if err != nil {
		return nil, err
	}
	var w keeper.Network
	if ok, err := site.ReadJSON(keeper.NetworkFile(here), &w); err != nil || !ok {
		return nil, err
	}
	n := &Network{Cluster: s.Cluster, CIDR: w.CIDR}
	if err := n.outputs(here); err != nil {
		return nil, err
	}
	b, there, err := bridges.Find(here.Bridge())
	if err != nil {
		return nil, err
	}
	if len(b.Routes) > 0 {
		n.Routes = b.Routes
	}
	_, kept := keeper.Alive(here)
	_, err = os.Stat(n.Requests)
	n.Up = there && kept && err == nil
	cidr, err := bridges.Check(w.CIDR)
	if err != nil {
		return nil, err
	}
	n.NAT = w.NAT && bridges.Masquerades(here.Bridge(), cidr)
	if n.Refused, err = bridges.RejectedRanges(cidr, w.Refused); err != nil {
		return nil, err
	}
	return []*Network{n}, nil
}

func (n *Network) outputs(s site.Site) error {
	cidr, err := bridges.Check(n.CIDR)
	if err != nil {
		return err
	}
	n.ID, n.Gateway = s.Bridge(), bridges.Gateway(cidr).Addr().String()
	n.Registry, n.Requests = s.Path(site.Registry), s.Path(site.Requests)
	return nil
}

// createNetwork creates the network, or completes or changes an existing one.
func createNetwork(ctx context.Context, c *Client, n *Network) error {
	err := c.withLock(ctx, n.Cluster, func(s site.Site) error {
		if err := n.outputs(s); err != nil {
			return fault.Wrap(fault.Permanent, err, "")
		}
		return n.setUp(ctx, c, s)
	})
	if err != nil {
		return err
	}
	return keeper.Start(ctx, site.Site{Root: c.Root, Cluster: n.Cluster}, c.Keeper)
}

func (n *Network) setUp(ctx context.Context, c *Client, s site.Site) error {
	cidr, err := bridges.Check(n.CIDR)
	if err != nil {
		return err
	}
	other, err := bridges.Overlap(cidr, s.Bridge())
	if err != nil {
		return err
	}
	if other != "" {
		remedy := "choose another range for the cluster's network, such as 10.78.0.0/24"
		if strings.HasPrefix(other, site.BridgePrefix) {
			remedy += "; if no cluster of this host uses that interface, remove it: ip link delete " + other
		}
		return fault.Wrap(fault.Permanent, fmt.Errorf("the network %s overlaps the network of this host's interface %s", cidr, other), remedy)
	}
	// kops-controller has an account of its own; as root it may not have the right to write other
	// users' files.
	err = errors.Join(os.MkdirAll(n.Registry, 0o755), os.MkdirAll(n.Requests, 0o770), os.Chown(n.Requests, users.Controller, 0), os.Chmod(n.Requests, 0o770))
	if err != nil {
		return err
	}
	if err := site.WriteJSON(keeper.NetworkFile(s), keeper.Network{CIDR: n.CIDR, NAT: n.NAT, Routes: n.Routes, Refused: n.Refused}); err != nil {
		return err
	}
	if err := c.memory().Remember(ctx, s); err != nil { // after the network's file, from which others see that this cluster exists
		return err
	}
	if err := ground.RaiseSysctls(ground.Sysctls); err != nil {
		return err
	}
	if err := bridges.Ensure(s.Bridge(), bridges.Gateway(cidr)); err != nil {
		return err
	}
	if err := bridges.Route(s.Bridge(), n.Routes); err != nil {
		return err
	}
	if err := n.rejectRanges(c, cidr); err != nil {
		return err
	}
	if err := bridges.Masquerade(s.Bridge(), cidr, n.NAT); err != nil || !n.NAT {
		return err
	}
	return ground.SetSysctl(ground.Sysctls, ground.Forwarding, "1")
}

// rejectRanges makes the host reject packets to the ranges inside machines, except to those
// that its user has routed elsewhere, which it reports.
func (n *Network) rejectRanges(c *Client, cidr netip.Prefix) error {
	routed, err := bridges.RejectRanges(cidr, n.Refused)
	if err != nil {
		return err
	}
	for _, r := range routed {
		c.logf("this host already has a route to %s, which contains the range %s of cluster %s; kops keeps that route, so packets to unused addresses follow it\n", r.Route, r.Range, n.Cluster)
	}
	return nil
}

// deleteNetwork removes the keeper and the bridge. With the last cluster of this host
// it also restores the host's settings.
func deleteNetwork(ctx context.Context, c *Client, n *Network) error {
	s, err := c.site(n.Cluster)
	if err != nil {
		return err
	}
	if err := keeper.Stop(ctx, s); err != nil {
		return err
	}
	return c.withLock(ctx, n.Cluster, func(s site.Site) error {
		left, err := site.List(s.Path(site.Machines))
		if err == nil && len(left) > 0 {
			err = fault.New(fault.Conflict, "the network is still used by the machines %v", left)
		}
		if err != nil {
			return err
		}
		cidr, err := bridges.Check(n.CIDR)
		if err == nil {
			err = bridges.Masquerade(s.Bridge(), cidr, false)
		}
		if err == nil {
			_, err = bridges.RejectRanges(cidr, nil)
		}
		if err == nil {
			err = bridges.Remove(s.Bridge())
		}
		if err == nil {
			err = retireSlice(ctx, s)
		}
		if err == nil {
			err = c.memory().Restore(ctx, s)
		}
		if err == nil { // last, so that an interrupted deletion is found and completed
			err = keeper.Remove(keeper.NetworkFile(s))
		}
		return err
	})
}

func retireSlice(ctx context.Context, s site.Site) error {
	h, err := machine.NewHost(s)
	if err != nil {
		return err
	}
	return h.RetireSlice(ctx)
}
