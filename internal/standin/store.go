package standin

import (
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// Store holds objects that have IDs, by kind and in the order in which they were created. No ID is ever
// used again. It may be used by calls and events only.
type Store struct {
	s     *Server
	kinds []*kind
	last  int64 // the last ID
	lag   time.Duration
	past  []moment // the oldest first
}

type kind struct {
	Kind
	entries []*Entry
}

// Kind is a kind of objects.
type Kind struct {
	// Name is its name, such as servers.
	Name string
	// Refs are the fields that hold the IDs of other objects.
	Refs []Ref
	// Most is the maximum number of objects; 0: there is none.
	Most int
}

// Ref is a field that refers to an object of a kind by its ID: a path as for tree.Visit.
type Ref struct{ Field, Kind string }

// Entry is an existing object.
type Entry struct {
	Kind   string
	Object tree.Object // its field id is never changed
	// Busy is the number of operations in progress on the object.
	Busy int
	// More is state of the object that no response contains.
	More any
}

// ID returns the object's ID.
func (e *Entry) ID() any { return e.Object["id"] }

// moment is what all reads returned at a time.
type moment struct {
	at      time.Time
	objects map[string][]tree.Object
}

// NewStore returns an empty store for the calls of a server.
func NewStore(s *Server, kinds ...Kind) *Store {
	out := &Store{s: s}
	for _, k := range kinds {
		out.kinds = append(out.kinds, &kind{Kind: k})
	}
	s.onStep = append(s.onStep, out.remember)
	return out
}

func (s *Store) kind(name string) *kind {
	return s.kinds[slices.IndexFunc(s.kinds, func(k *kind) bool { return k.Name == name })]
}

// NextID returns a new number.
func (s *Store) NextID() int64 {
	s.last++
	return s.last
}

// MissingError is the error of a reference to an object that does not exist.
type MissingError struct {
	// Field is the location of the reference.
	Field, Kind string
	ID          any
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: there is no %v in %s", e.Field, e.ID, e.Kind)
}

// FullError is the error of an object beyond the maximum number of its kind.
type FullError struct {
	Kind string
	Most int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("there are %d %s, the maximum", e.Most, e.Kind)
}

// Add adds an object, whose field id must be set. An error is a *FullError.
func (s *Store) Add(name string, o tree.Object) (*Entry, error) {
	k := s.kind(name)
	if k.Most > 0 && len(k.entries) >= k.Most {
		return nil, &FullError{name, k.Most}
	}
	e := &Entry{Kind: name, Object: o}
	k.entries = append(k.entries, e)
	return e, nil
}

// SetMost sets the maximum number of objects of a kind, of which there may be more already.
func (s *Store) SetMost(name string, most int) { s.kind(name).Most = most }

// Remove removes an object.
func (s *Store) Remove(e *Entry) {
	k := s.kind(e.Kind)
	k.entries = slices.DeleteFunc(k.entries, func(x *Entry) bool { return x == e })
}

// All returns the objects of a kind.
func (s *Store) All(name string) []*Entry { return slices.Clone(s.kind(name).entries) }

// Get returns the object with that ID, or nil.
func (s *Store) Get(name string, id any) *Entry { return s.Find(name, "id", id) }

// Find returns the first object of which a field has that value, or nil.
func (s *Store) Find(name, field string, value any) *Entry {
	for _, e := range s.kind(name).entries {
		if tree.Equal(e.Object[field], value) {
			return e
		}
	}
	return nil
}

// Check returns a *MissingError if an object refers to another one that does not exist. A field that is
// null refers to none.
func (s *Store) Check(o tree.Object, refs ...Ref) error {
	for _, r := range refs {
		err := tree.Visit(o, r.Field, "", func(parent tree.Object, field, at string) error {
			if id := parent[field]; id != nil && s.Get(r.Kind, id) == nil {
				return &MissingError{at[1:], r.Kind, id}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Users returns the objects that refer to an object, in the order of their kinds.
func (s *Store) Users(e *Entry) []*Entry {
	var out []*Entry
	for _, k := range s.kinds {
		for _, x := range k.entries {
			if slices.ContainsFunc(k.Refs, func(r Ref) bool { return r.Kind == e.Kind && tree.Has(x.Object, r.Field, e.ID()) }) {
				out = append(out, x)
			}
		}
	}
	return out
}

// SetLag makes reads return objects as they were some time ago, from now on.
func (s *Store) SetLag(d time.Duration) {
	s.lag, s.past = d, nil
	s.remember()
}

// Read returns a copy of each object of a kind, as reads see it.
func (s *Store) Read(name string) []tree.Object {
	if s.lag == 0 {
		return s.kind(name).copies()
	}
	s.forget()
	return cloneAll(s.past[0].objects[name])
}

func (k *kind) copies() []tree.Object {
	var out []tree.Object
	for _, e := range k.entries {
		out = append(out, e.Object)
	}
	return cloneAll(out)
}

func cloneAll(all []tree.Object) []tree.Object {
	var out []tree.Object
	for _, o := range all {
		out = append(out, tree.Clone(o))
	}
	return out
}

// forget drops what no read will see.
func (s *Store) forget() {
	for len(s.past) > 1 && !s.past[1].at.After(s.s.now.Add(-s.lag)) {
		s.past = s.past[1:]
	}
}

// remember keeps what exists now, while reads lag behind.
func (s *Store) remember() {
	if s.lag == 0 {
		return
	}
	now := moment{s.s.now, map[string][]tree.Object{}}
	for _, k := range s.kinds {
		now.objects[k.Name] = k.copies()
	}
	s.past = append(s.past, now)
	s.forget()
}
