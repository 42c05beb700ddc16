// Package fakecloud is a platform in memory, for tests and examples: a cluster
// has a network, a load balancer of its API, and machines for each instance group.
// It is written as a platform of any program is, with package provider.
//
// It must not know how plans are made or carried out, so that it can show
// whether they are right.
package fakecloud

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/provider"
)

// Name is the platform's name, which is a label of its clusters.
const Name = "fake"

// World is what exists. It is safe for concurrent use.
type World struct {
	mu      sync.Mutex
	objects map[string]object // by kind/name
	refuse  func(verb, address string) error
	servers map[string]*server             // by cluster/group/number
	stopped map[string]bool                // by name of a machine
	told    map[string]provider.BootRecord // by name of a machine
}

// object is one thing that exists, and the cluster that it belongs to.
type object struct {
	cluster string
	got     any
}

// New returns an empty world.
func New() *World {
	return &World{objects: map[string]object{}, servers: map[string]*server{}, stopped: map[string]bool{}, told: map[string]provider.BootRecord{}}
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

// Provider returns the platform whose resources live in w. Whatever its machines
// download has a digest of zeros.
func (w *World) Provider() *provider.Platform {
	return &provider.Platform{
		Name: Name, Title: "the fake cloud", Calls: 4,
		Kinds:       []provider.AnyKind{w.networks(), w.balancers(), w.machines()},
		MachineType: "small", Image: "fake-1",
		FileHashes: map[string]string{"*": strings.Repeat("0", 64)},
		Shared:     w.shared, Model: w.model, Endpoint: w.endpoint, Machines: w.fleet, BootRecord: w.bootRecord,
		Roll: provider.Roll{Made: w.made, Terminate: w.terminate},
	}
}

// shared is the network that the spec names, when it names one.
func (w *World) shared(c *api.Cluster) ([]provider.Resource, error) {
	if id := c.Spec.Networking.NetworkID; id != "" {
		return []provider.Resource{w.networks().Shared(id, id, Network{})}, nil
	}
	return nil, nil
}

// model declares a cluster's resources.
func (w *World) model(in *provider.Cluster) ([]provider.Resource, error) {
	c := in.Spec
	network := w.networks().Want(c.Name, Network{Cluster: c.Name, Name: c.Name, CIDR: c.Spec.Networking.NonMasqueradeCIDR})
	if id := c.Spec.Networking.NetworkID; id != "" {
		network = w.networks().Shared(id, id, Network{})
	}
	api := w.balancers().Want("api."+c.Name, Balancer{Cluster: c.Name, Name: "api." + c.Name, Network: network.Out("id")})
	out := []provider.Resource{network, api}
	for _, group := range in.Groups {
		start, err := in.Start(group, api.Out("host"))
		if err != nil {
			return nil, err
		}
		want := Machines{Cluster: c.Name, Group: group.Name, Name: group.Name + "." + c.Name, Network: network.Out("id"), Type: group.Spec.MachineType, Start: start}
		if group.Spec.MinSize != nil {
			want.Count = int(*group.Spec.MinSize)
		}
		out = append(out, w.machines().Want(want.Name, want))
	}
	return out, nil
}

// endpoint is the host of the cluster's load balancer.
func (w *World) endpoint(_ context.Context, c *api.Cluster) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok := w.objects[balancerKind+"/api."+c.Name]; ok {
		return o.got.(*Balancer).Host, nil
	}
	return "", nil
}
