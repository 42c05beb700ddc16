// Package sim is a toy cloud for tests of the engine: an inventory in memory
// that refuses what real clouds refuse, and fails at any call on request. Its
// tests drive random desired graphs through plan and exec against it.
//
// It is for tests only. It must not know how plans are made or applied, so
// that it can judge whether they are correct.
package sim

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Call is one call that a client makes.
type Call struct {
	Verb string // list, create, update, ready or delete
	Kind string
	Name string // of the object; empty for a list
	Nth  int    // distinguishes otherwise equal calls, counted from 1
}

// Outcome is the result of a call.
type Outcome int

const (
	OK         Outcome = iota
	Throttle           // refused, without effect
	LoseBefore         // the response is lost; the call had no effect
	LoseAfter          // the response is lost; the call took effect
	DieBefore          // the client dies before the call: it and all later ones fail
	DieAfter           // the client dies after the call took effect
)

// ErrDead is the error of every call of a client that died. Retrying does not help.
var ErrDead = fault.New(fault.Permanent, "the client is dead")

// World is the inventory of a toy cloud. Its fields may be changed between calls.
type World struct {
	// Fault decides the outcome of a call; nil means that all succeed.
	Fault func(Call) Outcome
	// Stale returns by how many writes a listing is out of date; nil means that listings are current.
	Stale func(kind string) int
	// Wanted are names, as kind/name, of kinds that create before they delete: the last
	// object of such a name is never deleted.
	Wanted map[string]bool

	mu      sync.Mutex
	seq     int
	dead    bool
	things  map[string]*storedObject
	past    []map[string]*storedObject
	counted map[Call]int
	writes  int
}

// storedObject is one object of the inventory. It is replaced, never changed.
type storedObject struct {
	kind, name, id, owner string
	schema                *resource.Schema
	got                   any
	pollsLeft             int
}

// quotas limit how many objects of a kind exist, over all owners.
var quotas = map[string]int{"network": 2, "subnet": 7, "group": 3}

// pollsUntilReady is how often a new object must be polled before it can be used.
const pollsUntilReady = 2

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{things: map[string]*storedObject{}, counted: map[Call]int{}}
}

// Revive lets calls succeed again after a death, like a new process.
func (w *World) Revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

// Writes counts the writes that took effect.
func (w *World) Writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// call runs f as one call, or fails as Fault decides.
func (w *World) call(verb, kind, name string, f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := Call{Verb: verb, Kind: kind, Name: name}
	w.counted[c]++
	c.Nth = w.counted[c]
	outcome := OK
	if w.Fault != nil && !w.dead {
		outcome = w.Fault(c)
	}
	w.dead = w.dead || outcome == DieBefore
	switch {
	case w.dead:
		return ErrDead
	case outcome == Throttle:
		return fault.New(fault.Throttled, "slow down")
	case outcome == LoseBefore:
		return fault.New(fault.Lost, "the connection broke")
	}
	before := w.things
	if verb != "list" && verb != "ready" {
		w.things = clone(before)
	}
	if err := f(); err != nil {
		w.things = before
		return err
	}
	if verb != "list" && verb != "ready" {
		w.past, w.writes = append(w.past, before), w.writes+1
	}
	switch outcome {
	case DieAfter:
		w.dead = true
		return ErrDead
	case LoseAfter:
		return fault.New(fault.Lost, "the connection broke")
	}
	return nil
}

func clone(m map[string]*storedObject) map[string]*storedObject {
	out := make(map[string]*storedObject, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}

func refusal(format string, args ...any) error { return fault.New(fault.Permanent, format, args...) }

// reference matches identifiers of objects.
var reference = regexp.MustCompile(`^[a-z]+-\d+$`)

// check refuses an object that refers to one that does not exist, or breaks a rule of its kind.
func (w *World) check(t *storedObject) error {
	var err error
	t.schema.Texts(t.got, func(s string) {
		if reference.MatchString(s) && w.things[s] == nil {
			err = refusal("%s %s: there is no %s", t.kind, t.name, s)
		}
	})
	if missing := t.schema.Unresolved(t.got); len(missing) > 0 {
		err = refusal("%s %s: unresolved %s", t.kind, t.name, strings.Join(missing, ", "))
	}
	if err != nil {
		return err
	}
	count := 0
	for _, o := range w.things {
		if o.kind != t.kind {
			continue
		}
		count++
		if o.id == t.id || !isClash(o.got, t.got) {
			continue
		}
		if o.name == t.name { // the caller had to delete the other one first
			return refusal("%s %s: it collides with %s", t.kind, t.name, o.id)
		}
		return fault.New(fault.Conflict, "%s %s: it collides with %s", t.kind, t.name, o.id)
	}
	if most, ok := quotas[t.kind]; ok && w.things[t.id] == nil && count >= most {
		return fault.New(fault.Quota, "%s %s: %d is the most", t.kind, t.name, most)
	}
	return w.checkUse(t)
}

// checkUse refuses the use of objects that are not ready, and of versions that do not exist.
func (w *World) checkUse(t *storedObject) error {
	switch x := t.got.(type) {
	case *Route:
		if g := w.things[x.Target.String()]; g == nil || g.pollsLeft > 0 {
			return refusal("route %s: %s is not ready", t.name, x.Target)
		}
	case *Group:
		wanted, err := strconv.Atoi(x.Version.String())
		if v := w.things[x.Template.String()].got.(*Template); err != nil || wanted < 1 || wanted > v.Version {
			return refusal("group %s: template %s has no version %s", t.name, x.Template, x.Version)
		}
	}
	return nil
}

// usersOf lists the objects that refer to id.
func (w *World) usersOf(id string) []string {
	var out []string
	for _, o := range w.things {
		o.schema.Texts(o.got, func(s string) {
			if s == id && o.id != id {
				out = append(out, o.id)
			}
		})
	}
	slices.Sort(out)
	return out
}

// release removes an object, unless something uses it or it is the last of a wanted name.
func (w *World) release(t *storedObject) error {
	if users := w.usersOf(t.id); len(users) > 0 {
		return refusal("%s is in use by %s", t.id, strings.Join(users, ", "))
	}
	others := 0
	for _, o := range w.things {
		if o.kind == t.kind && o.name == t.name && o.id != t.id {
			others++
		}
	}
	if w.Wanted[t.kind+"/"+t.name] && others == 0 {
		return refusal("%s is wanted, and its replacement was to be made first", t.id)
	}
	delete(w.things, t.id)
	return nil
}

// Object is one object of the inventory, for assertions.
type Object struct {
	Kind, Name, ID, Owner string
	Got                   any // a pointer to the kind's struct
}

// Objects returns the objects of an owner sorted by identifier, or the objects of all other
// owners if others is set.
func (w *World) Objects(owner string, others bool) []Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Object
	for _, t := range w.things {
		if (t.owner == owner) != others {
			out = append(out, Object{t.kind, t.name, t.id, t.owner, t.schema.Clone(t.got)})
		}
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// copyFields copies the named fields between two structs of one type. A default
// field that is zero in from is left unchanged.
func copyFields(schema *resource.Schema, to, from any, fields []string) {
	t, f := reflect.ValueOf(to).Elem(), reflect.ValueOf(schema.Clone(from)).Elem()
	for _, fd := range schema.Fields {
		if slices.Contains(fields, fd.Name) && !(fd.Mode == resource.Default && f.Field(fd.Index).IsZero()) {
			t.Field(fd.Index).Set(f.Field(fd.Index))
		}
	}
}
