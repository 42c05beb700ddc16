// Package fakecloud is a platform in memory, for tests and examples: a cluster has
// a network, a load balancer for its API, and machines for each instance group. It
// uses package provider, as a platform outside of this module does.
//
// It must not know how plans are computed or applied, so that tests can use it to
// check them.
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

// Name is the name of the platform, which clusters carry as a label.
const Name = "fake"

// World holds the objects that exist. It is safe for concurrent use.
type World struct {
	mu          sync.Mutex
	objects     map[string]object // by kind/name
	refuse      func(verb, address string) error
	servers     []provider.Server              // those of all clusters
	ended       map[slot]int                   // how many servers have ended
	stopped     map[string]bool                // by machine name
	bootRecords map[string]provider.BootRecord // by machine name
}

// object is an object that exists, and the cluster that it belongs to.
type object struct {
	cluster string
	got     any
}

// New returns an empty world.
func New() *World {
	return &World{objects: map[string]object{}, ended: map[slot]int{}, stopped: map[string]bool{}, bootRecords: map[string]provider.BootRecord{}}
}

// Refuse makes calls fail with the error that f returns. verb is list, create, update or
// delete; address is kind/name, the kind for list, and for a machine its group's.
func (w *World) Refuse(f func(verb, address string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = f
}

// Objects returns the existing objects as kind/name, sorted.
func (w *World) Objects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Collect(maps.Keys(w.objects))
	for _, s := range w.servers {
		out = append(out, groupAddress(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Lose removes an object, or all machines of a group, without any request to the platform. It
// reports whether the object existed.
func (w *World) Lose(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there := w.objects[address]
	delete(w.objects, address)
	return w.remove(func(s provider.Server) bool { return groupAddress(s) == address }) || there
}

// AddNetwork creates a network that no cluster owns, and returns its identifier.
func (w *World) AddNetwork(name, cidr string) (id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &Network{Name: name, CIDR: cidr, ID: "network-" + name}
	w.objects["fake_network/"+name] = object{got: n}
	return n.ID
}

// Provider returns the platform whose resources live in w. Every file that its machines
// download has a digest of zeros.
func (w *World) Provider() *provider.Platform {
	fleet := w.fleet()
	return &provider.Platform{
		Name: Name, Title: "the fake cloud", Calls: 4,
		Kinds:       []provider.AnyKind{w.networks(), w.balancers(), w.machines()},
		MachineType: "small", Image: "fake-1",
		FileHashes: map[string]string{"*": strings.Repeat("0", 64)},
		Shared:     w.shared, Model: w.model, Endpoint: w.endpoint, Machines: fleet.Machines, BootRecord: w.bootRecord, Roll: fleet.Roll(),
	}
}

// shared returns the existing network that the spec names, if it names one.
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
		if group.Spec.MaxSize != nil {
			want.Most = int(*group.Spec.MaxSize)
		}
		out = append(out, w.machines().Want(want.Name, want))
	}
	return out, nil
}

// endpoint returns the host of the cluster's load balancer, or "" if it does not exist.
func (w *World) endpoint(_ context.Context, c *api.Cluster) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok := w.objects[balancerKind+"/api."+c.Name]; ok {
		return o.got.(*Balancer).Host, nil
	}
	return "", nil
}
