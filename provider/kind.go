package provider

import (
	"context"
	"reflect"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/provider/value"
)

// Kind declares a kind of resource. T is a struct whose fields are the desired state; a tag
// defines how a change of its field is applied:
//
//	Name string `res:"replace"`        // a new resource must be created
//	Size int                           // the resource is changed by Update; the field is in Updates
//	Zone string `res:"default"`        // like Size, and the platform may choose it if it is empty
//	Least int `res:",least"`           // like Size, but others may exceed it; with most, they may fall below it
//	Key  string `res:"writeonly"`      // cannot be read back: part of every Create and Update
//	ID   string `res:"out,id" out:"id"` // set by the platform: an output, here with the name id
//
// A field that needs an output of another resource is a value.Value, and a long or secret
// text a value.Content.
type Kind[T any] struct {
	// Name is the kind's name, such as acme_network; it must be unique among all platforms.
	Name string
	// Title is its name for people, by which they select one kind.
	Title string
	// Phase is the part of an update that it belongs to: network, security, or cluster, the
	// default.
	Phase string
	// Key identifies a resource in a cluster, both the desired and the observed one.
	Key func(*T) string
	// Group is the instance group whose machines the resource creates; nil, or a result of "", means none.
	Group func(*T) string
	// MadeOf are the names of the fields that those machines are created from: running machines
	// become stale when one of them changes, but not when another field does, such as their
	// number. nil means all fields, if Group is set.
	MadeOf []string
	// Vacant reports whether nothing exists of a desired resource, such as of a group without machines:
	// it is not created. nil means that all resources exist.
	Vacant func(*T) bool
	// Holds describes what is lost with an observed resource and is not shown otherwise, such as its
	// number of machines; nil, or "", means nothing.
	Holds func(*T) string
	// List observes every resource in scope.
	List func(context.Context, Scope) ([]*T, error)
	// Create creates a resource with one call, and sets its outputs. If it already exists, that is an
	// error of the class kops.Taken.
	Create func(context.Context, *T) error
	// Ready returns an error of the class kops.NotYet while a new resource cannot be used yet; nil means
	// that it can be used at once.
	Ready func(context.Context, *T) error
	// Update changes the resource to the desired state, as far as the fields in Updates are concerned.
	Update  func(ctx context.Context, have, want *T) error
	Updates []string
	// Delete removes a resource. It is not an error if the resource is already gone.
	Delete func(context.Context, *T) error
}

// Scope selects the resources that List returns: those of one cluster, and the shared ones that
// it uses.
type Scope struct {
	Cluster string
	// All requests everything that belongs to the cluster, regardless of its creator:
	// everything that a deletion must remove.
	All bool
	// Adopted are the identifiers of shared resources of this kind.
	Adopted []string
	// Names are the keys of the desired resources, for platforms that cannot list the resources of a cluster.
	Names []string
}

// AnyKind is a *Kind of any struct.
type AnyKind interface{ erase() resource.Any }

// Resource is a resource that a cluster needs.
type Resource struct{ node resource.Node }

// Want declares a resource. Its name is for people, and unique within its kind and cluster.
func (k *Kind[T]) Want(name string, want T) Resource {
	return Resource{k.inside().New(name, want)}
}

// Shared declares a resource, with its identifier, that the cluster uses but does not own.
func (k *Kind[T]) Shared(name, id string, want T) Resource {
	return Resource{k.inside().Adopt(name, id, want)}
}

// As sets the value that target points to, if that has the internal type.
func (k *Kind[T]) As(target any) bool {
	t, ok := target.(*resource.Any)
	if ok {
		*t = k.erase()
	}
	return ok
}

// Out returns the future value of an output of the resource.
func (r Resource) Out(name string) value.Value { return r.node.Out(name) }

// client is the API client of the kinds: empty, because they have their own.
type client = struct{}

// inside converts the kind to the internal type.
func (k *Kind[T]) inside() *resource.Kind[T, client] {
	out := &resource.Kind[T, client]{
		Name: k.Name, API: apiName, Phase: k.Phase, Key: k.Key, Group: k.Group, Vacant: k.Vacant, Holds: k.Holds,
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

// fieldNames returns the names of a struct's fields.
func fieldNames[T any]() []string {
	var out []string
	for f := range reflect.TypeFor[T]().Fields() {
		out = append(out, f.Name)
	}
	return out
}

func (k *Kind[T]) erase() resource.Any { return k.inside().Erase() }
