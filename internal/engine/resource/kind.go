package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Scope specifies which objects List returns: one cluster's objects that kops itself created, and
// the shared ones that the cluster uses.
type Scope struct {
	Cluster string
	// All requests everything that belongs to the cluster, no matter who created it: everything
	// that a deletion must remove.
	All bool
	// Adopted are the identifiers of shared objects of this kind.
	Adopted []string
	// Names are the keys of the desired objects of this kind, for APIs that
	// cannot be filtered by cluster.
	Names []string
}

// The phases of an update: the parts that can be applied one by one, in this order.
const (
	Network  = "network"
	Security = "security"
	Cluster  = "cluster"
)

// Kind declares a type of resource: T is its struct, C the client it needs. A Kind is a value; it
// holds no state and is safe for concurrent use.
type Kind[T, C any] struct {
	// Name is unique in the program, and the Terraform type if there is one.
	Name string
	// Direct kinds have no Terraform type: they are applied directly, even if the target is
	// Terraform.
	Direct bool
	// API names the service whose limits the kind's calls count against.
	API string
	// Phase is the phase of an update in which the kind is applied; empty means Cluster.
	Phase string
	// Tasks are the kind's names when a user specifies how resources are treated; kOps' own, if it
	// has any.
	Tasks []string
	// Early means that most objects can be found by the cluster's name, so that List may be called
	// before the desired objects are known.
	Early bool
	// Group returns the instance group whose machines an object serves, desired or observed; nil,
	// or "", means the whole cluster.
	Group func(*T) string
	// MadeOf are the paths of the fields that determine how the machines of Group are created:
	// running machines are outdated when one of them changes, or a field below it. A change of any
	// other field does not affect them. nil means that machines depend on no field.
	MadeOf []string
	// Spared are paths of fields of which machines are known not to be made. A test checks that a
	// field is here, in MadeOf, or in its own list.
	Spared []string
	// Key identifies an object among the objects of its kind in a cluster. It is
	// called with observed objects and with desired ones, whose references are
	// resolved as far as they are known; equal keys mean the same object.
	Key func(*T) string
	// Tidy converts a desired object to the form in which it is observed; nil if there is only one
	// form.
	Tidy func(*T)
	// Vacant reports whether nothing exists of a desired object, such as of a group without machines:
	// it is not created, and is equal to none; nil means that all objects exist.
	Vacant func(*T) bool
	// List observes every object in scope, in as few calls as the API allows.
	List func(context.Context, C, Scope) ([]*T, error)
	// Create creates the object with one call and sets its outputs. What needs further calls is a
	// field of mode post, with a setter.
	Create func(context.Context, C, *T) error
	// Initial sets the post fields to their values in a new object; nil if they are zero.
	Initial func(*T)
	// Ready returns an error of class fault.NotYet while a created object cannot be used, and may
	// set outputs; nil means that it can be used immediately.
	Ready func(context.Context, C, *T) error
	// CreateFirst means that a replacement is created before the old object is deleted, which is
	// only possible if names need not be unique. Then users of the old object can be moved to the
	// new one.
	CreateFirst bool
	// Grants reports whether an object only grants access, so that deleting it removes nothing
	// else. Such an object is deleted without pruning when it is no longer wanted; nil means that
	// the kind has no such objects.
	Grants func(*T) bool
	// Idle reports whether an unwanted object is no longer in use. Such an object is deleted even
	// without pruning; while it is in use it is kept silently. If nil, unwanted objects are only
	// deleted when pruning.
	Idle func(*T) bool
	// Holds describes what is lost with an observed object and is not shown otherwise: whose data
	// it holds, how many machines it runs; nil, or "", means nothing.
	Holds func(*T) string
	// Foreign reports whether an unwanted object was created by others among the cluster's own
	// objects: plans report it, and leave it alone; nil means that the kind has no such objects.
	Foreign func(*T) bool
	// Terraform has, by field, the tf tags of fields for which the kind differs from the struct,
	// which is used by kinds of several platforms; nil if there are none.
	Terraform map[string]string
	// Companions returns nodes that only Terraform needs: separate resources for what the API creates
	// with the object, of kinds that nothing observes or applies; nil if there are none.
	Companions func(Address, *T) []Node
	// Update changes the named fields in place; one entry may serve several.
	Update []Setter[T, C]
	// Delete removes the object. An object already gone is not an error.
	Delete func(context.Context, C, *T) error
}

// Setter changes some fields of an existing object. It may set volatile
// outputs of have.
type Setter[T, C any] struct {
	Fields []string
	Set    func(ctx context.Context, c C, have, want *T) error
}

// Any is a Kind with its type parameters erased. Only this package implements it.
type Any interface {
	KindName() string
	KindAPI() string
	KindDirect() bool
	Schema() *Schema
	CreatesFirst() bool
	// Phase returns the phase of an update in which the kind is applied.
	Phase() string
	// Tasks returns the kind's names when a user specifies how resources are treated.
	Tasks() []string
	// Early reports whether most objects can be listed before the desired objects are known.
	Early() bool
	// Grouped reports whether objects may serve the machines of one instance group.
	Grouped() bool
	// Group returns the instance group whose machines an object serves, or "".
	Group(obj any) string
	// MakesMachines reports whether machines of the group are created from the field at a path.
	MakesMachines(path string) bool
	// SparesMachines reports whether a path is one of Spared.
	SparesMachines(path string) bool
	// Grants reports whether an observed object only grants access.
	Grants(obj any) bool
	// Foreign reports whether others created an observed object, which is left alone.
	Foreign(obj any) bool
	// Idle reports whether an unwanted observed object can be deleted in any case; known is false
	// if pruning decides.
	Idle(obj any) (idle, known bool)
	// Holds says what is lost with an observed object, or "".
	Holds(obj any) string
	// Vacant reports whether nothing exists of a desired object.
	Vacant(want any) bool
	// KeyOf returns the key of a desired or observed object.
	KeyOf(obj any) string
	Observe(ctx context.Context, client any, s Scope) ([]Object, error)
	// Create creates the object, and returns it with its outputs and the initial values of its post
	// fields.
	Create(ctx context.Context, client, want any) (any, error)
	// Set runs every setter that serves one of the changes and returns the changed object.
	Set(ctx context.Context, client, have, want any, changes []Change) (any, error)
	// Ready reports whether the object may be used.
	Ready(ctx context.Context, client, obj any) error
	Delete(ctx context.Context, client, have any) error
	// Companions returns the nodes that only Terraform needs next to a desired object's own node.
	Companions(Address, any) []Node
	// Check reports mistakes in the declaration.
	Check() error
	erased()
}

// Object is one observed object and its key. Two objects may have one key,
// after a crash or during a replacement; the planner decides.
type Object struct {
	Key string `json:"key"`
	Got any    `json:"got"`
}

type erased[T, C any] struct {
	k *Kind[T, C]
	s *Schema
}

// Erase returns the kind for a registry. It panics if the struct is invalid, because the program
// could not work with it.
func (k *Kind[T, C]) Erase() Any {
	s, err := SchemaOf(reflect.TypeFor[T]())
	if err == nil {
		err = s.respell(k.Terraform)
	}
	if err != nil {
		panic(err)
	}
	return &erased[T, C]{k, s}
}

func (e *erased[T, C]) erased()              {}
func (e *erased[T, C]) KindName() string     { return e.k.Name }
func (e *erased[T, C]) KindAPI() string      { return e.k.API }
func (e *erased[T, C]) KindDirect() bool     { return e.k.Direct }
func (e *erased[T, C]) Schema() *Schema      { return e.s }
func (e *erased[T, C]) CreatesFirst() bool   { return e.k.CreateFirst }
func (e *erased[T, C]) Grants(obj any) bool  { return e.k.Grants != nil && e.k.Grants(obj.(*T)) }
func (e *erased[T, C]) Phase() string        { return cmp.Or(e.k.Phase, Cluster) }
func (e *erased[T, C]) Tasks() []string      { return e.k.Tasks }
func (e *erased[T, C]) Early() bool          { return e.k.Early }
func (e *erased[T, C]) Grouped() bool        { return e.k.Group != nil }
func (e *erased[T, C]) KeyOf(obj any) string { return e.k.Key(obj.(*T)) }
func (e *erased[T, C]) Vacant(want any) bool { return e.k.Vacant != nil && e.k.Vacant(want.(*T)) }

// Group calls the kind's Group.
func (e *erased[T, C]) Group(obj any) string {
	if e.k.Group == nil {
		return ""
	}
	return e.k.Group(obj.(*T))
}

// MakesMachines reports whether a path is one of MadeOf, or below one.
func (e *erased[T, C]) MakesMachines(path string) bool {
	return slices.ContainsFunc(e.k.MadeOf, func(of string) bool {
		below, ok := strings.CutPrefix(path, of)
		return ok && (below == "" || below[0] == '.' || below[0] == '[')
	})
}

// SparesMachines reports whether a path is one of Spared.
func (e *erased[T, C]) SparesMachines(path string) bool { return slices.Contains(e.k.Spared, path) }

// Foreign calls the kind's Foreign.
func (e *erased[T, C]) Foreign(obj any) bool {
	return e.k.Foreign != nil && e.k.Foreign(obj.(*T))
}

// Idle calls the kind's Idle.
func (e *erased[T, C]) Idle(obj any) (idle, known bool) {
	if e.k.Idle == nil {
		return false, false
	}
	return e.k.Idle(obj.(*T)), true
}

// Holds calls the kind's Holds.
func (e *erased[T, C]) Holds(obj any) string {
	if e.k.Holds == nil {
		return ""
	}
	return e.k.Holds(obj.(*T))
}

// Companions calls the kind's Companions.
func (e *erased[T, C]) Companions(a Address, want any) []Node {
	if e.k.Companions == nil {
		return nil
	}
	return e.k.Companions(a, want.(*T))
}

func (e *erased[T, C]) setter(field string) bool {
	return slices.ContainsFunc(e.k.Update, func(s Setter[T, C]) bool { return slices.Contains(s.Fields, field) })
}

// Check reports fields that may change but have no setter. With it, a forgotten field is a failed
// test rather than a silent no-op.
func (e *erased[T, C]) Check() error {
	var errs []error
	for _, f := range e.s.Fields {
		changeable := f.Mode == Update || f.Mode == Default || f.Post
		if changeable && !e.setter(f.Name) {
			errs = append(errs, fmt.Errorf("%s.%s: no setter, and not replace, forbid, writeonly or out", e.k.Name, f.Name))
		}
		if (f.Identity || f.Volatile) && f.Mode != Output {
			errs = append(errs, fmt.Errorf("%s.%s: only outputs can be id or volatile", e.k.Name, f.Name))
		}
		if f.Identity && e.s.Type.Field(f.Index).Type.Kind() != reflect.String {
			errs = append(errs, fmt.Errorf("%s.%s: an identity must be a string", e.k.Name, f.Name))
		}
	}
	for _, s := range e.k.Update {
		for _, n := range s.Fields {
			if !slices.ContainsFunc(e.s.Fields, func(f Field) bool { return f.Name == n }) {
				errs = append(errs, fmt.Errorf("%s: setter for unknown field %s", e.k.Name, n))
			}
		}
	}
	for _, of := range e.k.MadeOf {
		if !hasPath(e.s.Type, of) {
			errs = append(errs, fmt.Errorf("%s: MadeOf names the unknown field %s", e.k.Name, of))
		}
	}
	if len(e.k.MadeOf) > 0 && e.k.Group == nil {
		errs = append(errs, fmt.Errorf("%s: MadeOf requires Group, which returns the instance group of the machines", e.k.Name))
	}
	if e.k.Name == "" || e.k.API == "" || e.k.Key == nil || e.k.List == nil || e.k.Create == nil || e.k.Delete == nil {
		errs = append(errs, fmt.Errorf("%s: Name, API, Key, List, Create and Delete are needed", e.k.Name))
	}
	if !slices.Contains([]string{Network, Security, Cluster}, e.Phase()) {
		errs = append(errs, fmt.Errorf("%s: unknown phase %q", e.k.Name, e.k.Phase))
	}
	return errors.Join(errs...)
}

// hasPath reports whether a struct has a field at a path of names.
func hasPath(t reflect.Type, path string) bool {
	name, below, deeper := strings.Cut(path, ".")
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	f, ok := t.FieldByName(name)
	return ok && (!deeper || hasPath(f.Type, below))
}

func (e *erased[T, C]) Observe(ctx context.Context, client any, s Scope) ([]Object, error) {
	list, err := e.k.List(ctx, client.(C), s)
	if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", words(e.k.Name), err)
	}
	out := make([]Object, len(list))
	for i, o := range list {
		out[i] = Object{e.k.Key(o), o}
	}
	return out, nil
}

func (e *erased[T, C]) Create(ctx context.Context, client, want any) (any, error) {
	got := e.s.withoutPost(want).(*T)
	if e.k.Initial != nil {
		e.k.Initial(got)
	}
	made := e.s.Clone(want).(*T)
	if err := e.k.Create(ctx, client.(C), made); err != nil {
		return nil, err
	}
	return e.s.withOutputs(got, made), nil
}

func (e *erased[T, C]) Set(ctx context.Context, client, have, want any, changes []Change) (any, error) {
	h, w := e.s.Clone(have).(*T), want.(*T)
	for _, s := range e.k.Update {
		if slices.ContainsFunc(changes, func(c Change) bool { return slices.Contains(s.Fields, c.Field) }) {
			if err := s.Set(ctx, client.(C), h, w); err != nil {
				return nil, err
			}
		}
	}
	return e.s.withOutputs(w, h), nil
}

func (e *erased[T, C]) Ready(ctx context.Context, client, obj any) error {
	if e.k.Ready == nil {
		return nil
	}
	return e.k.Ready(ctx, client.(C), obj.(*T))
}

func (e *erased[T, C]) Delete(ctx context.Context, client, have any) error {
	return e.k.Delete(ctx, client.(C), have.(*T))
}

// Node is a desired object with its address.
type Node struct {
	Address
	Kind Any
	Want any // a pointer to the kind's struct
	// Adopt is the identifier of a shared object: it is used, never changed or deleted. Want then
	// only has what others refer to.
	Adopt string
	// Expect means that the object must already exist, under the key of Want, and is left
	// unchanged: differences are only reported.
	Expect bool
	// Exact means that a difference of an expected object is an error.
	Exact bool
	// Lenient means that the permissions may not suffice for a change of the object, which is then
	// only reported.
	Lenient bool
	// After lists resources that must be applied before this one, although it
	// does not refer to them.
	After []Address
	// Needs lists companions of other nodes, which only Terraform creates separately, that must exist
	// before this one.
	Needs []Address
	// Remedy is what to do if an immutable field has changed: which part of the spec to undo, and
	// why the object must stay. If empty, the object may be recreated.
	Remedy string
}

// words returns a kind's name as people say it: without its platform.
func words(kind string) string {
	if _, name, ok := strings.Cut(kind, "_"); ok {
		kind = name
	}
	return strings.ReplaceAll(kind, "_", " ")
}

// New declares a desired object.
func (k *Kind[T, C]) New(name string, want T) Node {
	if k.Tidy != nil {
		k.Tidy(&want)
	}
	return Node{Address: k.At(name), Kind: k.Erase(), Want: &want}
}

// Adopt declares a shared object, whose identifier is id.
func (k *Kind[T, C]) Adopt(name, id string, want T) Node {
	n := k.New(name, want)
	n.Adopt = id
	return n
}

// At returns the address of the object with a name.
func (k *Kind[T, C]) At(name string) Address { return Address{Kind: k.Name, Name: name} }

// Out returns an output of the object with a name.
func (k *Kind[T, C]) Out(name, output string) Value { return Out(k.At(name), output) }

// Out returns an output of the node.
func (n Node) Out(attr string) Value { return Out(n.Address, attr) }

// Refs lists what the node depends on: its references, then After.
func (n Node) Refs() []Address {
	out := n.Kind.Schema().Refs(n.Want)
	for _, a := range n.After {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
