package provider

import (
	"context"
	"reflect"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/provider/value"
)

// Kind declares a kind of resource. T is a struct whose fields say what is wanted; a tag
// says what a change of one means:
//
//	Name string `res:"replace"`        // a new resource has to be made
//	Size int                           // the resource is changed by Update; it is among Updates
//	Zone string `res:"default"`        // as Size, and the platform may choose where it is empty
//	Key  string `res:"writeonly"`      // nobody can see it: it goes with every Create and Update
//	ID   string `res:"out,id" out:"id"` // the platform sets it: an output, here with the name id
//
// A field that needs an output of another resource is a value.Value, and a long or secret
// text a value.Content.
type Kind[T any] struct {
	// Name is the kind's, such as acme_network: no other platform has it.
	Name string
	// Title is its name for people who ask for one kind only.
	Title string
	// Phase is the part of an update that it belongs to: network, security, or cluster,
	// which it is when nothing is said.
	Phase string
	// Key tells which resource of a cluster is which: what is wanted, and what is observed.
	Key func(*T) string
	// Group is the instance group whose machines the resource makes; nil, or "": none.
	Group func(*T) string
	// MadeOf are the names of the fields that those machines are created from: running machines
	// become stale when one of them changes, but not when another field does, such as their
	// number. nil means all fields, if Group is set.
	MadeOf []string
	// List observes every resource in scope.
	List func(context.Context, Scope) ([]*T, error)
	// Create makes a resource with one call, and sets its outputs. One that exists is an error.
	Create func(context.Context, *T) error
	// Ready is an error of the class kops.NotYet while a new resource cannot be used; nil:
	// it can be used at once.
	Ready func(context.Context, *T) error
	// Update makes what there is as it is wanted, as far as the fields Updates go.
	Update  func(ctx context.Context, have, want *T) error
	Updates []string
	// Delete removes a resource. It is not an error if the resource is already gone.
	Delete func(context.Context, *T) error
}

// Scope says which resources List returns: those of one cluster, and the shared ones that
// it uses.
type Scope struct {
	Cluster string
	// All asks for everything that belongs to the cluster, regardless of who created it:
	// everything that a deletion must remove.
	All bool
	// Adopted are the identifiers of shared resources of this kind.
	Adopted []string
	// Names are the keys of the wanted resources, for platforms that cannot list those of a cluster.
	Names []string
}

// AnyKind is a *Kind of any struct.
type AnyKind interface{ erase() resource.Any }

// Resource is a resource that a cluster needs.
type Resource struct{ node resource.Node }

// Want declares a resource. Its name is for people, and unique in its kind and cluster.
func (k *Kind[T]) Want(name string, want T) Resource {
	return Resource{k.inside().New(name, want)}
}

// Shared declares a resource with an identifier that the cluster uses and does not own.
func (k *Kind[T]) Shared(name, id string, want T) Resource {
	return Resource{k.inside().Adopt(name, id, want)}
}

// As sets what target points to, where that is of the type that serves inside.
func (k *Kind[T]) As(target any) bool {
	t, ok := target.(*resource.Any)
	if ok {
		*t = k.erase()
	}
	return ok
}

// Out is what an output of the resource will be.
func (r Resource) Out(name string) value.Value { return r.node.Out(name) }

// client is what kinds need to be reached: nothing, as they know it themselves.
type client = struct{}

// inside is the kind as it serves inside.
func (k *Kind[T]) inside() *resource.Kind[T, client] {
	out := &resource.Kind[T, client]{
		Name: k.Name, API: apiName, Phase: k.Phase, Key: k.Key, Group: k.Group,
		List:   func(ctx context.Context, _ client, s resource.Scope) ([]*T, error) { return k.List(ctx, Scope(s)) },
		Create: func(ctx context.Context, _ client, want *T) error { return k.Create(ctx, want) },
		Delete: func(ctx context.Context, _ client, have *T) error { return k.Delete(ctx, have) },
	}
	if k.Group != nil {
		out.MadeOf = k.MadeOf
		if k.MadeOf == nil {
			out.MadeOf = fieldNames[T]()
		}
	}
	if k.Title != "" {
		out.Tasks = []string{k.Title}
	}
	if k.Ready != nil {
		out.Ready = func(ctx context.Context, _ client, made *T) error { return k.Ready(ctx, made) }
	}
	if len(k.Updates) > 0 {
		out.Update = []resource.Setter[T, client]{{Fields: k.Updates, Set: func(ctx context.Context, _ client, have, want *T) error {
			return k.Update(ctx, have, want)
		}}}
	}
	return out
}

// fieldNames are the names of a struct's fields.
func fieldNames[T any]() []string {
	var out []string
	for f := range reflect.TypeFor[T]().Fields() {
		out = append(out, f.Name)
	}
	return out
}

func (k *Kind[T]) erase() resource.Any { return k.inside().Erase() }
