// Package fakecloud is a platform in memory, for tests and examples: a cluster
// has a network, a load balancer of its API, and machines for each instance group.
// It takes the place of one of the real platforms in a cluster's spec.
//
// It must not know how plans are made or carried out, so that it can show
// whether they are right.
package fakecloud

import (
	"context"
	"maps"
	"slices"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// Name is the platform's name in a cluster's spec. It is that of a real one,
// which needs nothing looked up, as a spec holds no others.
const Name = "hetzner"

// World is what exists. It is safe for concurrent use.
type World struct {
	mu      sync.Mutex
	objects map[string]object // by kind/name
	refuse  func(verb, address string) error
	stopped map[string]bool                // machines, by name
	told    map[string]platform.BootRecord // by name of a machine
}

// object is one thing that exists, and the cluster that it belongs to.
type object struct {
	cluster string
	got     any
}

// New returns an empty world.
func New() *World {
	return &World{objects: map[string]object{}, stopped: map[string]bool{}, told: map[string]platform.BootRecord{}}
}

// Refuse makes calls fail with what f returns: verb is list, create, update or
// delete, address is kind/name, or the kind for a list.
func (w *World) Refuse(f func(verb, address string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = f
}

// Objects lists what exists, as kind/name, in order.
func (w *World) Objects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.objects))
}

// Lose removes an object behind everybody's back. It reports whether it was there.
func (w *World) Lose(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there := w.objects[address]
	delete(w.objects, address)
	return there
}

// AddNetwork makes a network that no cluster owns, and returns its identifier.
func (w *World) AddNetwork(name, cidr string) (id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &Network{Name: name, CIDR: cidr, ID: "network-" + name}
	w.objects["fake_network/"+name] = object{got: n}
	return n.ID
}

// Provider returns the platform whose resources live in w.
func (w *World) Provider() platform.Provider {
	return platform.Provider{
		Platform: about(),
		Kinds:    []resource.Any{networks.Erase(), balancers.Erase(), machines.Erase()},
		Limits:   map[string]int{"fake": 4},
		Phases:   map[string]string{networks.Name: "network"},
		Tasks:    map[string]string{"Network": networks.Name, "LoadBalancer": balancers.Name, "Machines": machines.Name},
		GroupOf:  groupOf,
		Connect: func(context.Context, platform.Config) (*platform.Session, error) {
			return &platform.Session{Client: w}, nil
		},
		LookUp: func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
			return known(), nil
		},
		Offers: func(context.Context, *platform.Session, newcluster.Options, newcluster.World) (*facts.Facts, error) {
			return known(), nil
		},
		Shared:   shared,
		Model:    model,
		Endpoint: w.endpoint,
		Machines: w.fleet, BootRecord: w.bootRecord,
	}
}

// about is what the platform is, to specs.
func about() platform.Platform {
	size := []traits.Type{{Name: "cx23"}}
	return platform.Platform{
		Traits: traits.Traits{
			Name: Name, Title: "the fake cloud",
			Network: traits.Network{NeedsNonMasquerade: true, OneRegion: true},
			Machines: traits.Machines{
				Types: map[api.InstanceGroupRole][]traits.Type{api.RoleControlPlane: size, api.RoleAPIServer: size, api.RoleNode: size, api.RoleBastion: size},
				Image: "ubuntu-24.04",
			},
		},
		Stub: func(c *api.Cluster, _ string) { c.Spec.CloudProvider.Hetzner = &api.HetznerSpec{} },
		New:  newcluster.Rules{Describe: func(b *newcluster.Builder) { b.Spec.CloudProvider.Hetzner = &api.HetznerSpec{} }},
	}
}

// known are the facts: whatever a machine downloads has a digest of zeros.
func known() *facts.Facts {
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	return &facts.Facts{FileHashes: map[string]string{"*": zeros}}
}

// groupOf is the instance group of machines.
func groupOf(n resource.Node) string {
	if m, ok := n.Want.(*Machines); ok {
		return m.Group
	}
	return ""
}

// shared is the network that the spec names, when it names one.
func shared(c *api.Cluster) ([]resource.Node, error) {
	if id := c.Spec.Networking.NetworkID; id != "" {
		return []resource.Node{resource.Adopted(&networks, id, id, Network{})}, nil
	}
	return nil, nil
}

// model declares a cluster's resources.
func model(m platform.Model, g *graph.Graph) error {
	c := m.Cluster
	network := resource.New(&networks, c.Name, Network{Cluster: c.Name, Name: c.Name, CIDR: c.Spec.Networking.NonMasqueradeCIDR})
	if id := c.Spec.Networking.NetworkID; id != "" {
		network = resource.Adopted(&networks, id, id, Network{})
	}
	api := resource.New(&balancers, "api."+c.Name, Balancer{Cluster: c.Name, Name: "api." + c.Name, Network: network.Out("id")})
	if err := g.Add(network, api); err != nil {
		return err
	}
	for _, group := range m.Groups {
		start, err := m.UserData(group, api.Out("host"))
		if err != nil {
			return err
		}
		want := Machines{Cluster: c.Name, Group: group.Name, Name: group.Name + "." + c.Name, Network: network.Out("id"), Type: group.Spec.MachineType, Start: start}
		if group.Spec.MinSize != nil {
			want.Count = int(*group.Spec.MinSize)
		}
		n := resource.New(&machines, want.Name, want)
		n.After = m.Keysets
		if err := g.Add(n); err != nil {
			return err
		}
	}
	return nil
}

// endpoint is the host of the cluster's load balancer.
func (w *World) endpoint(_ context.Context, _ *platform.Session, c *api.Cluster) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok := w.objects[balancers.Name+"/api."+c.Name]; ok {
		return o.got.(*Balancer).Host, nil
	}
	return "", nil
}
