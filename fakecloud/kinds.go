package fakecloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops"
	"kops.local/kops/provider"
	"kops.local/kops/provider/value"
)

// Network is the network that all machines of a cluster share.
type Network struct {
	Cluster string `res:"replace"`
	Name    string `res:"replace"`
	CIDR    string `res:"replace"`

	ID string `res:"out,id" out:"id"`
}

// Balancer is the load balancer of the API.
type Balancer struct {
	Cluster string      `res:"replace"`
	Name    string      `res:"replace"`
	Network value.Value `res:"replace"`

	ID   string `res:"out,id" out:"id"`
	Host string `res:"out" out:"host"`
}

// Machines are the machines of an instance group.
type Machines struct {
	Cluster string `res:"replace"`
	Group   string `res:"replace"`
	Name    string `res:"replace"`
	Network value.Value
	Type    string
	// Count and Most are the limits of their number.
	Count int `res:",least"`
	Most  int `res:",most"`
	// Start is the script that the machines run when they boot.
	Start value.Content

	ID string `res:"out,id" out:"id"`
}

// Kinds of resources.
const (
	networkKind  = "fake_network"
	balancerKind = "fake_balancer"
	machinesKind = "fake_machines"
)

func (w *World) networks() *provider.Kind[Network] {
	k := kind(w, networkKind, func(n *Network) (string, string, *string) { return n.Cluster, n.Name, &n.ID }, func(*Network) {})
	k.Title, k.Phase = "Network", "network"
	return k
}

func (w *World) balancers() *provider.Kind[Balancer] {
	k := kind(w, balancerKind, func(b *Balancer) (string, string, *string) { return b.Cluster, b.Name, &b.ID },
		func(b *Balancer) { b.Host = b.Name + ".fake" })
	k.Title = "LoadBalancer"
	return k
}

// kind returns a kind whose objects live in a World and never change. label returns an
// object's cluster and name, and a pointer to its identifier; fill sets its other outputs.
func kind[T any](w *World, name string, label func(*T) (cluster, name string, id *string), fill func(*T)) *provider.Kind[T] {
	address := func(o *T) string {
		_, n, _ := label(o)
		return name + "/" + n
	}
	return &provider.Kind[T]{
		Name: name,
		Key:  func(o *T) string { _, n, _ := label(o); return n },
		List: func(_ context.Context, s provider.Scope) (out []*T, err error) {
			err = w.call("list", name, func() error { out = list(w, name, s, label); return nil })
			return out, err
		},
		Create: func(_ context.Context, o *T) error {
			return w.call("create", address(o), func() error {
				if _, taken := w.objects[address(o)]; taken {
					return kops.WithClass(kops.Taken, fmt.Errorf("%s already exists", address(o)), "")
				}
				cluster, n, id := label(o)
				*id = strings.TrimPrefix(name, "fake_") + "-" + n
				fill(o)
				made := *o
				w.objects[address(o)] = object{cluster, &made}
				return nil
			})
		},
		Delete: func(_ context.Context, o *T) error {
			return w.call("delete", address(o), func() error { delete(w.objects, address(o)); return nil })
		},
	}
}

// list returns copies of the objects of a kind in a scope, sorted by name. The caller
// holds the lock.
func list[T any](w *World, kind string, s provider.Scope, label func(*T) (cluster, name string, id *string)) []*T {
	var out []*T
	for _, address := range slices.Sorted(maps.Keys(w.objects)) {
		o, ok := w.objects[address].got.(*T)
		if !ok || !strings.HasPrefix(address, kind+"/") {
			continue
		}
		_, _, id := label(o)
		if w.objects[address].cluster == s.Cluster || slices.Contains(s.Adopted, *id) {
			c := *o
			out = append(out, &c)
		}
	}
	return out
}

// call runs do with the lock held, unless Refuse made the call fail.
func (w *World) call(verb, address string, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(verb, address); err != nil {
			return err
		}
	}
	return do()
}
