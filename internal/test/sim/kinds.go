package sim

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Network has a field that cannot be set on creation.
type Network struct {
	Name string            `res:"replace"`
	CIDR string            `res:"replace" tf:"cidr"`
	DNS  bool              `res:",post"`
	Tags map[string]string `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// Subnet must not overlap another one of its network, so it cannot be created before
// the one that it replaces is deleted.
type Subnet struct {
	Name    string         `res:"replace"`
	Network resource.Value `res:"replace"`
	CIDR    string         `res:"replace"`
	Zone    string         `res:"forbid"`
	Public  bool           `res:",post"`
	Tags    map[string]string

	ID string `res:"out,id" out:"id"`
}

// Gateway takes a while to become ready.
type Gateway struct {
	Name    string         `res:"replace"`
	Network resource.Value `res:"replace"`

	ID string `res:"out,id" out:"id"`
}

// Route refers to a gateway that must be ready.
type Route struct {
	Name    string         `res:"replace"`
	Network resource.Value `res:"replace"`
	Target  resource.Value

	ID string `res:"out,id" out:"id"`
}

// Rule has no name: its key is its subnet's identifier and its port. A rule with an odd
// port grants access.
type Rule struct {
	Subnet resource.Value `res:"replace"`
	Port   int            `res:"replace"`
	Note   string

	ID string `res:"out,id" out:"id"`
}

// Template is created before the one that it replaces is deleted. An update of its script
// creates a new version.
type Template struct {
	Name   string `res:"replace"`
	Image  string `res:"replace"`
	Script resource.Content

	ID      string `res:"out,id" out:"id"`
	Version int    `res:"out,volatile" out:"version"`
}

// Group refers to a version of its template, and follows it.
type Group struct {
	Name     string `res:"replace"`
	Template resource.Value
	Version  resource.Value
	Subnets  []resource.Value
	Size     int

	ID string `res:"out,id" out:"id"`
}

// Volume has a type that the cloud chooses if it is not set.
type Volume struct {
	Name      string `res:"replace"`
	Zone      string `res:"replace"`
	Size      int
	Type      string `res:"default"`
	Encrypted bool   `res:",post"`
	Tags      map[string]string

	ID string `res:"out,id" out:"id"`
}

// Image is named by its content, so that different content is a different image. An unused
// image is deleted.
type Image struct {
	Content string `res:"replace"`

	ID   string `res:"out,id" out:"id"`
	Idle bool   `res:"out,volatile"`
}

// isClash reports whether two objects of one kind cannot exist at the same time.
func isClash(a, b any) bool {
	switch x := a.(type) {
	case *Subnet:
		y := b.(*Subnet)
		return x.Network.String() == y.Network.String() && x.CIDR == y.CIDR
	case *Route:
		y := b.(*Route)
		return x.Network.String() == y.Network.String() && x.Name == y.Name
	case *Rule:
		return ruleKey(x) == ruleKey(b.(*Rule))
	case *Group:
		return x.Name == b.(*Group).Name
	}
	return false
}

func ruleKey(r *Rule) string { return fmt.Sprintf("%s:%d", r.Subnet, r.Port) }

// spec defines the differences between the toy kinds.
type spec[T any] struct {
	key         func(*T) string
	id          func(*T) *string
	choose      func(*T) // sets the fields that the cloud chooses
	changed     func(stored, have *T)
	initial     func(*T)
	createFirst bool
	grants      func(*T) bool
	idle        func(*T) bool
	holds       func(*T) string
	slow        bool
}

// kind returns a kind whose objects are in a World.
func kind[T any](name string, s spec[T]) *resource.Kind[T, *World] {
	schema, err := resource.SchemaOf(reflect.TypeFor[T]())
	if err != nil {
		panic(err)
	}
	var settable []string
	for _, f := range schema.Fields {
		if f.Mode == resource.Update || f.Mode == resource.Default {
			settable = append(settable, f.Name)
		}
	}
	k := &resource.Kind[T, *World]{
		Name: name, API: "toy", Key: s.key, Initial: s.initial, CreateFirst: s.createFirst, Grants: s.grants, Idle: s.idle, Holds: s.holds,
		List: func(_ context.Context, w *World, scope resource.Scope) ([]*T, error) { return list[T](w, name, scope) },
		Create: func(_ context.Context, w *World, want *T) error {
			return create(w, name, schema, s, want)
		},
		Delete: func(_ context.Context, w *World, have *T) error {
			return w.call("delete", name, s.key(have), func() error {
				if t := w.things[*s.id(have)]; t != nil {
					return w.release(t)
				}
				return fault.New(fault.Gone, "%s does not exist", *s.id(have))
			})
		},
	}
	if len(settable) > 0 {
		k.Update = []resource.Setter[T, *World]{{Fields: settable, Set: func(_ context.Context, w *World, have, want *T) error {
			return update(w, name, schema, s, settable, have, want)
		}}}
	}
	if s.slow {
		k.Ready = func(_ context.Context, w *World, o *T) error { return ready(w, name, s.key(o), *s.id(o)) }
	}
	return k
}

func list[T any](w *World, name string, scope resource.Scope) (out []*T, err error) {
	err = w.call("list", name, "", func() error {
		things := w.things
		if w.Stale != nil {
			if old := w.Stale(name); old > 0 && len(w.past) > 0 {
				things = w.past[max(0, len(w.past)-old)]
			}
		}
		for _, t := range things {
			if t.kind == name && (t.owner == scope.Cluster || slices.Contains(scope.Adopted, t.id)) {
				out = append(out, t.schema.Clone(t.got).(*T))
			}
		}
		return nil
	})
	return out, err
}

func create[T any](w *World, name string, schema *resource.Schema, s spec[T], want *T) error {
	return w.call("create", name, s.key(want), func() error {
		w.seq++
		id := fmt.Sprintf("%s-%d", name, w.seq)
		got := schema.Clone(want).(*T)
		for _, f := range schema.Fields { // a creation ignores what it cannot set
			if f.Post {
				reflect.ValueOf(got).Elem().Field(f.Index).SetZero()
			}
		}
		if s.initial != nil {
			s.initial(got)
		}
		if s.choose != nil {
			s.choose(got)
		}
		*s.id(got) = id
		t := &storedObject{kind: name, name: s.key(got), id: id, owner: Cluster, schema: schema, got: got}
		if s.slow {
			t.pollsLeft = pollsUntilReady
		}
		if err := w.check(t); err != nil {
			return err
		}
		w.things[id] = t
		*want = *schema.Clone(got).(*T)
		return nil
	})
}

func update[T any](w *World, name string, schema *resource.Schema, s spec[T], fields []string, have, want *T) error {
	return w.call("update", name, s.key(have), func() error {
		old := w.things[*s.id(have)]
		if old == nil {
			return fault.New(fault.Gone, "%s does not exist", *s.id(have))
		}
		next := *old
		got := schema.Clone(old.got).(*T)
		copyFields(schema, got, want, fields)
		if s.changed != nil {
			s.changed(got, have)
		}
		next.got = got
		if err := w.check(&next); err != nil {
			return err
		}
		w.things[next.id] = &next
		return nil
	})
}

func ready(w *World, kind, name, id string) error {
	return w.call("ready", kind, name, func() error {
		t := w.things[id]
		if t == nil {
			return fault.New(fault.Gone, "%s does not exist", id)
		}
		if t.pollsLeft > 0 {
			next := *t
			next.pollsLeft--
			w.things[id] = &next
			return fault.New(fault.NotYet, "%s is pending", id)
		}
		return nil
	})
}
