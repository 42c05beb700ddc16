package fakecloud

import (
	"context"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Network is what all machines of a cluster share.
type Network struct {
	Cluster string `res:"replace"`
	Name    string `res:"replace"`
	CIDR    string `res:"replace"`

	ID string `res:"out,id" tf:"id"`
}

// Balancer is the address of the API.
type Balancer struct {
	Cluster string         `res:"replace"`
	Name    string         `res:"replace"`
	Network resource.Value `res:"replace"`

	ID   string `res:"out,id" tf:"id"`
	Host string `res:"out" tf:"host"`
}

// Machines are those of an instance group.
type Machines struct {
	Cluster string         `res:"replace"`
	Group   string         `res:"replace"`
	Name    string         `res:"replace"`
	Network resource.Value `res:"replace"`
	Type    string
	Count   int
	// Start is what they run when they are started.
	Start resource.Content

	ID string `res:"out,id" tf:"id"`
}

var (
	networks = kind("fake_network",
		func(n *Network) (string, string, *string) { return n.Cluster, n.Name, &n.ID },
		func(*Network) {})
	balancers = kind("fake_balancer",
		func(b *Balancer) (string, string, *string) { return b.Cluster, b.Name, &b.ID },
		func(b *Balancer) { b.Host = b.Name + ".fake" })
	machines = kind("fake_machines",
		func(m *Machines) (string, string, *string) { return m.Cluster, m.Name, &m.ID },
		func(*Machines) {}, "Type", "Count", "Start")
)

// kind makes a kind whose objects live in a World. label tells the cluster and
// the name of an object, and where its identifier is; fill sets its other
// outputs; changeable are the fields that an update sets.
func kind[T any](name string, label func(*T) (cluster, name string, id *string), fill func(*T), changeable ...string) resource.Kind[T, *World] {
	address := func(o *T) string {
		_, n, _ := label(o)
		return name + "/" + n
	}
	k := resource.Kind[T, *World]{
		Name: name, API: "fake",
		Key: func(o *T) string { _, n, _ := label(o); return n },
		List: func(_ context.Context, w *World, s resource.Scope) (out []*T, err error) {
			err = w.call("list", name, func() { out = list(w, name, s, label) })
			return out, err
		},
		Create: func(_ context.Context, w *World, o *T) error {
			cluster, n, id := label(o)
			_, taken := w.get(address(o))
			if taken {
				return fault.New(fault.Permanent, "%s exists already", address(o))
			}
			return w.call("create", address(o), func() {
				*id = strings.TrimPrefix(name, "fake_") + "-" + n
				fill(o)
				made := *o
				w.objects[address(o)] = object{cluster, &made}
			})
		},
		Delete: func(_ context.Context, w *World, o *T) error {
			return w.call("delete", address(o), func() { delete(w.objects, address(o)) })
		},
	}
	if len(changeable) > 0 {
		k.Update = []resource.Setter[T, *World]{{Fields: changeable, Set: func(_ context.Context, w *World, have, want *T) error {
			return w.call("update", address(have), func() {
				next := *want
				_, _, had := label(have)
				_, _, id := label(&next)
				*id = *had
				fill(&next)
				w.objects[address(have)] = object{w.objects[address(have)].cluster, &next}
			})
		}}}
	}
	return k
}

// list returns copies of the objects of a kind in a scope, in order. The lock is held.
func list[T any](w *World, kind string, s resource.Scope, label func(*T) (cluster, name string, id *string)) []*T {
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

// call does something to the world, unless it is refused.
func (w *World) call(verb, address string, do func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(verb, address); err != nil {
			return err
		}
	}
	do()
	return nil
}

func (w *World) get(address string) (object, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.objects[address]
	return o, ok
}
