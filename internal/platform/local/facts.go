package local

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"runtime"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/keeper"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// lookUp reads the bundle: machines can fetch exactly what it contains.
func (o Options) lookUp(_ context.Context, _ *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) (*facts.Facts, error) {
	if err := checkNetwork(o.Root, c); err != nil {
		return nil, err
	}
	b, err := bundle.Open(o.Bundle)
	if err != nil {
		return nil, err
	}
	f := b.Facts()
	f.Clouds, err = o.cloudFacts("")
	return f, err
}

// cloudFacts returns the facts about this host.
func (o Options) cloudFacts(freeNetwork string) (map[string]*facts.Cloud, error) {
	missing, err := missingFeatures()
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(spec.Facts{Missing: missing})
	return map[string]*facts.Cloud{string(api.CloudLocal): {Architecture: runtime.GOARCH, Bundle: o.Bundle, FreeNetwork: freeNetwork, Own: own}}, err
}

// missingFeatures returns the features that the host's kernel does not have.
func missingFeatures() (missing []string, err error) {
	for _, f := range spec.Features() {
		has := bridges.HasESP
		if f != spec.ESP {
			has = func() (bool, error) { return bridges.HasLinkKind(f) }
		}
		there, err := has()
		if err != nil {
			return nil, fmt.Errorf("find out what the kernel of this host has: %s: %w", f, err)
		}
		if !there {
			missing = append(missing, f)
		}
	}
	return missing, nil
}

// newClusterFacts finds a network that the host does not use for a new cluster.
func (o Options) newClusterFacts(_ context.Context, _ *platform.Session, n newcluster.Options, _ newcluster.World) (*facts.Facts, error) {
	network, err := freeNetwork(o.Root, n.ClusterName)
	if err != nil {
		return nil, err
	}
	clouds, err := o.cloudFacts(network.String())
	return &facts.Facts{Clouds: clouds}, err
}

// firstNetwork and lastNetwork bound the networks offered: 10.77.0.0/24 to 10.254.0.0/24.
const firstNetwork, lastNetwork = 77, 254

// candidates returns the networks that may be offered to a cluster. The order depends
// on its name, so that clusters that were described but not created yet, and that the
// host does not know about, are unlikely to get the same network.
func candidates(cluster string) []netip.Prefix {
	const count = lastNetwork - firstNetwork + 1
	h := fnv.New32a()
	h.Write([]byte(cluster)) //nolint:errcheck // a hash does not fail
	out := make([]netip.Prefix, count)
	for i := range out {
		second := firstNetwork + (h.Sum32()%count+uint32(i))%count
		out[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second), 0, 0}), 24)
	}
	return out
}

// freeNetwork returns the first candidate that overlaps no interface of the host, no other cluster
// and, unless the host has routes to all candidates, no route of the host.
func freeNetwork(root, cluster string) (netip.Prefix, error) {
	taken, err := clusterNetworks(root)
	if err != nil {
		return netip.Prefix{}, err
	}
	routed, err := bridges.RoutedNetworks()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("find a free network: %w", err)
	}
	var second netip.Prefix
	for _, p := range candidates(cluster) {
		other, err := bridges.Overlap(p, "")
		if err != nil {
			return p, fmt.Errorf("find a free network: %w", err)
		}
		overlaps := func(t netip.Prefix) bool { return t.Overlaps(p) }
		switch {
		case other != "" || slices.ContainsFunc(taken, overlaps):
		case !slices.ContainsFunc(routed, overlaps):
			return p, nil
		case !second.IsValid():
			second = p
		}
	}
	if second.IsValid() {
		return second, nil
	}
	return second, fault.Wrap(fault.Quota, fmt.Errorf("this host already uses all networks from 10.%d.0.0/24 to 10.%d.0.0/24", firstNetwork, lastNetwork),
		"choose one with option:NetworkCIDRs")
}

// checkNetwork rejects a network that differs from the one that the cluster, or an
// earlier cluster of the same name, already has on this host.
func checkNetwork(root string, c *api.Cluster) error {
	var have keeper.Network
	ok, err := site.ReadJSON(keeper.NetworkFile(site.Site{Root: root, Cluster: c.Name}), &have)
	if err != nil || !ok || have.CIDR == c.Spec.Networking.NetworkCIDR {
		return err
	}
	return fault.Wrap(fault.Permanent,
		fmt.Errorf("a cluster %s already exists on this host, in the network %s, but the spec says %s", c.Name, have.CIDR, c.Spec.Networking.NetworkCIDR),
		fmt.Sprintf("if the network was edited, undo that; if an earlier cluster left it behind, delete that cluster first: kops delete cluster %s --external --cloud local --yes", c.Name))
}

// clusterNetworks returns the networks of all clusters below a root, up or not.
func clusterNetworks(root string) ([]netip.Prefix, error) {
	sites, err := site.Sites(root)
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, s := range sites {
		var n keeper.Network
		ok, err := site.ReadJSON(keeper.NetworkFile(s), &n)
		if err != nil {
			return nil, err
		}
		if cidr, err := bridges.Check(n.CIDR); ok && err == nil {
			out = append(out, cidr)
		}
	}
	return out, nil
}

// apiEndpoint returns the address at which users reach the API: the host's address in the
// cluster's network.
func apiEndpoint(_ context.Context, _ *platform.Session, c *api.Cluster) (string, error) {
	cidr, err := bridges.Check(c.Spec.Networking.NetworkCIDR)
	if err != nil {
		return "", err
	}
	return bridges.Gateway(cidr).Addr().String(), nil
}
