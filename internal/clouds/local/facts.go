package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"kops.local/kops/api"
	"kops.local/kops/internal/bundle"
	"kops.local/kops/internal/cloud"
	"kops.local/kops/internal/clouds/local/keeper"
	bridges "kops.local/kops/internal/clouds/local/network"
	"kops.local/kops/internal/clouds/local/site"
	"kops.local/kops/internal/facts"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/newcluster"
)

// lookUp reads the bundle: what it holds is what machines can fetch.
func (o Options) lookUp(context.Context, *cloud.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
	b, err := bundle.Open(o.Bundle)
	if err != nil {
		return nil, err
	}
	f := b.Facts()
	f.Local = &facts.Local{Arch: runtime.GOARCH, Bundle: o.Bundle}
	return f, nil
}

// offers finds a network that the host does not use.
func (o Options) offers(context.Context, *cloud.Session, newcluster.Options, newcluster.World) (*facts.Facts, error) {
	network, err := freeNetwork(o.Root)
	if err != nil {
		return nil, err
	}
	return &facts.Facts{Local: &facts.Local{Arch: runtime.GOARCH, Bundle: o.Bundle, Network: network.String()}}, nil
}

// freeNetwork returns the first of the ranges from 10.77.0.0/24 on that neither
// an interface of the host nor another cluster has.
func freeNetwork(root string) (netip.Prefix, error) {
	sites, err := site.Sites(root)
	if err != nil {
		return netip.Prefix{}, err
	}
	var taken []netip.Prefix
	for _, s := range sites {
		var n keeper.Network
		ok, err := site.ReadJSON(keeper.NetworkFile(s), &n)
		if err != nil {
			return netip.Prefix{}, err
		}
		if cidr, err := bridges.Check(n.CIDR); ok && err == nil {
			taken = append(taken, cidr)
		}
	}
	const first = 77
	for second := byte(first); second < 255; second++ {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 24)
		other, err := bridges.Overlap(p, "")
		if err != nil {
			return p, fmt.Errorf("find a free network: %w", err)
		}
		free := other == ""
		for _, t := range taken {
			free = free && !t.Overlaps(p)
		}
		if free {
			return p, nil
		}
	}
	return netip.Prefix{}, fault.Wrap(fault.Quota, errors.New("the host uses all networks from 10.77.0.0/24 to 10.254.0.0/24"), "name one with --network-cidr")
}

// endpoint is where users reach the API: the host's address in the cluster's network.
func endpoint(_ context.Context, _ *cloud.Session, c *api.Cluster) (string, error) {
	cidr, err := bridges.Check(c.Spec.Networking.NetworkCIDR)
	if err != nil {
		return "", err
	}
	return bridges.Gateway(cidr).Addr().String(), nil
}
