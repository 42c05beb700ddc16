package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/gce/emulator/description"
)

// collection is a kind of object of Compute Engine: what all its objects have in common.
type collection struct {
	// name is the resource's name in the ids of methods, such as regionHealthChecks; segment its
	// name in paths; empty: the same. word is the variable of the path that names an object.
	name, segment, word string
	// verbs are the methods that need no handler of their own.
	verbs []string
	// quota is the metric that counts the objects; may be empty.
	quota string
	// refs are the fields that refer to other objects.
	refs []ref
	// users are the names of the kinds whose objects keep one of these, to which they refer,
	// from being deleted.
	users []string
	// mutable are the fields that patch and update may change.
	mutable []string
	// mark is the field with a digest of the object that changes must bring; empty: there is none.
	mark string
	// needsMark refuses a change without it.
	needsMark bool
	// labelled objects have labels with a digest of their own.
	labelled bool
	// queues has changes wait for each other, where they are refused for other kinds.
	queues bool

	// shape checks an object that is made (old is nil) or changed, and sets what the server sets.
	shape func(c *call, o, old object) error
	// show adds to an answer what follows from other objects.
	show func(e *Emulator, x *entry, o object)
	// born is called when the object is there, and altered when it was changed.
	born, altered func(e *Emulator, x *entry)
	// gone is called when the object no longer exists.
	gone func(e *Emulator, x *entry)

	schema *description.Schema
}

// ref is a field that refers to another object by its URL.
type ref struct {
	field string
	to    []string // names of kinds
}

// entry is an object that exists.
type entry struct {
	path string
	kind *collection // nil: an operation
	o    object
	// made is false until the operation that makes the object has ended: until then the name
	// is taken, and the object cannot be seen.
	made bool
	// busy are operations upon the object that go on; leaving is one that deletes it.
	busy    int
	leaving bool
	// owner is the path of the object with which this one goes; empty: it is its own.
	owner string
	// members are the paths of the instances of a group that no manager has.
	members []string
	// machine and group are the additional state of instances and their managers.
	machine *machine
	group   *group
}

// collect takes up a kind, with the methods that need no handler of their own.
func (e *Emulator) collect(k *collection) error {
	if k.segment == "" {
		k.segment = k.name
	}
	get := e.apis.Method("compute." + k.name + ".get")
	if get == nil {
		return fmt.Errorf("the description has no method compute.%s.get", k.name)
	}
	k.schema = get.Response
	e.kinds[k.name] = k
	standard := map[string]handler{"insert": k.insert, "get": k.get, "list": k.list, "aggregatedList": k.aggregated, "delete": k.delete, "patch": k.patch, "update": k.update, "setLabels": k.setLabels}
	for _, verb := range k.verbs {
		h := standard[verb]
		if h == nil {
			return fmt.Errorf("%s: there is no general %s", k.name, verb)
		}
		e.handlers["compute."+k.name+"."+verb] = h
	}
	return nil
}

// scope is the path of the project, the region or the zone that a call is about.
func (c *call) scope() string {
	base := "projects/" + c.params["project"]
	switch {
	case c.params["zone"] != "":
		return base + "/zones/" + c.params["zone"]
	case c.params["region"] != "":
		return base + "/regions/" + c.params["region"]
	}
	return base + "/global"
}

// place refuses a project, a region or a zone that is not.
func (c *call) place() error {
	if p, there := c.params["project"]; there && c.projects[p] == nil {
		if strings.HasPrefix(c.method.ID, "compute.") {
			return notFound("projects/" + p)
		}
		return refusal(http.StatusForbidden, "forbidden", "The caller does not have permission on project '%s', or it does not exist.", p)
	}
	if z, there := c.params["zone"]; there && !strings.HasPrefix(c.method.ID, "compute.zones.") && !slices.Contains(c.o.Regions[regionOf(z)], z) {
		return invalid("zone", z, "Unknown zone.")
	}
	if r, there := c.params["region"]; there && !strings.HasPrefix(c.method.ID, "compute.regions.") && c.o.Regions[r] == nil {
		return invalid("region", r, "Unknown region.")
	}
	return nil
}

// path returns the path of the object of a call.
func (k *collection) path(c *call) string {
	return c.scope() + "/" + k.segment + "/" + c.params[k.word]
}

// found is the object of a call.
func (k *collection) found(c *call) (*entry, error) {
	path := k.path(c)
	if x := c.entries[path]; x != nil && x.kind == k && x.made {
		return x, nil
	}
	return nil, notFound(path)
}

// changeable is the object of a call that changes it.
func (k *collection) changeable(c *call) (*entry, error) {
	if x := c.entries[k.path(c)]; x != nil && !x.made {
		return nil, notReady(x.path)
	}
	x, err := k.found(c)
	if err == nil && (x.leaving || x.busy > 0 && !k.queues) {
		err = notReady(x.path)
	}
	return x, err
}

func (k *collection) get(c *call) (object, error) {
	x, err := k.found(c)
	if err != nil {
		return nil, err
	}
	return c.shown(x), nil
}

// shown is an object as it is answered.
func (e *Emulator) shown(x *entry) object {
	o := clone(x.o)
	if x.kind == nil {
		return o
	}
	if x.kind.show != nil {
		x.kind.show(e, x, o)
	}
	x.kind.schema.Complete(o)
	return o
}

// showUsers adds who keeps an object from being deleted.
func showUsers(e *Emulator, x *entry, o object) {
	links := list{}
	for _, u := range e.usersOf(x) {
		links = append(links, link(u))
	}
	if len(links) == 0 {
		return
	}
	o["users"] = links
	if x.kind.name == "addresses" {
		o["status"] = "IN_USE"
	}
}

// insert makes an object.
func (k *collection) insert(c *call) (object, error) {
	x, err := k.make(c, c.scope(), c.body)
	if err != nil {
		return nil, err
	}
	return c.operate("insert", x.path, func(context.Context) error {
		x.made = true
		x.busy--
		if k.born != nil {
			k.born(c.Emulator, x)
		}
		return nil
	}, func() { delete(c.entries, x.path) })
}

// make enters a new object, which is not there yet.
func (k *collection) make(c *call, scope string, o object) (*entry, error) {
	path := scope + "/" + k.segment + "/" + text(o, "name")
	if err := c.free(path); err != nil {
		return nil, err
	}
	if err := c.resolve(k.refs, o); err != nil {
		return nil, err
	}
	if k.shape != nil {
		if err := k.shape(c, o, nil); err != nil {
			return nil, err
		}
	}
	if k.quota != "" {
		if err := c.within(k.quota, path, 1); err != nil {
			return nil, err
		}
	}
	o["id"], o["selfLink"], o["creationTimestamp"] = c.newID(), link(path), stamp(c.now)
	switch parts := strings.Split(scope, "/"); parts[2] {
	case "zones", "regions":
		o[strings.TrimSuffix(parts[2], "s")] = link(scope)
	}
	k.marked(o)
	x := &entry{path: path, kind: k, o: o, busy: 1}
	c.entries[path] = x
	return x, nil
}

// free refuses the path of an object that is there, and one that ends in no name.
func (e *Emulator) free(path string) error {
	switch name := last(path, "/"); {
	case name == "":
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.name' not specified")
	case !tag().MatchString(name):
		return invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
	case e.entries[path] != nil:
		return refusal(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", path)
	}
	return nil
}

// marked sets the digests of an object.
func (k *collection) marked(o object) {
	if k.labelled {
		o["labelFingerprint"] = fingerprint(o["labels"])
	}
	if k.mark != "" {
		delete(o, k.mark)
		o[k.mark] = fingerprint(o)
	}
}

// delete removes an object.
func (k *collection) delete(c *call) (object, error) {
	x, err := k.changeable(c)
	if err != nil {
		return nil, err
	}
	if !c.o.LateInUse {
		if err := c.unused(x); err != nil {
			return nil, err
		}
	}
	x.leaving = true
	return c.operate("delete", x.path, func(context.Context) error {
		if err := c.unused(x); err != nil {
			return err
		}
		c.remove(x)
		return nil
	}, func() { x.leaving = false })
}

// unused refuses to let go of an object that others use.
func (e *Emulator) unused(x *entry) error {
	if users := e.usersOf(x); len(users) > 0 {
		return inUse(x, users[0])
	}
	return nil
}

func inUse(x *entry, by string) *Error {
	var word strings.Builder
	for _, r := range x.kind.word {
		if r >= 'A' && r <= 'Z' {
			word.WriteByte('_')
		}
		word.WriteRune(r)
	}
	return refusal(http.StatusBadRequest, "resourceInUseByAnotherResource", "The %s resource '%s' is already being used by '%s'", strings.ToLower(word.String()), x.path, by)
}

func (e *Emulator) remove(x *entry) {
	delete(e.entries, x.path)
	for _, y := range e.entries {
		if y.owner == x.path {
			e.remove(y)
		}
	}
	if x.kind.gone != nil {
		x.kind.gone(e, x)
	}
}

// patch changes the fields that are sent, and update replaces all that a user sets, but for labels,
// which have a method of their own.
func (k *collection) patch(c *call) (object, error) {
	return k.change(c, "patch", func(old object) object { return merged(old, c.body) })
}

func (k *collection) update(c *call) (object, error) {
	return k.change(c, "update", func(old object) object {
		o := clone(c.body)
		for name, s := range k.schema.Properties {
			if v, there := old[name]; there && (s.ReadOnly || k.labelled && (name == "labels" || name == "labelFingerprint")) {
				o[name] = v
			}
		}
		return o
	})
}

// change gives an object another shape, of which only what is mutable differs.
func (k *collection) change(c *call, verb string, to func(old object) object) (object, error) {
	x, err := k.changeable(c)
	if err != nil {
		return nil, err
	}
	if _, err := k.changed(c, x.o, to(x.o)); err != nil {
		return nil, err
	}
	return c.alter(verb, x, func(context.Context) error {
		o, err := k.changed(c, x.o, to(x.o)) // what queues meets what was changed before it
		if err != nil {
			return err
		}
		x.o = o
		if k.altered != nil {
			k.altered(c.Emulator, x)
		}
		return nil
	})
}

// changed checks another shape of an object, and completes it.
func (k *collection) changed(c *call, old, o object) (object, error) {
	if k.mark != "" {
		if sent, given := c.body[k.mark]; given && sent != old[k.mark] || !given && k.needsMark {
			return nil, stale("Invalid fingerprint.")
		}
	}
	if err := c.resolve(k.refs, o); err != nil {
		return nil, err
	}
	if k.shape != nil {
		if err := k.shape(c, o, old); err != nil {
			return nil, err
		}
	}
	for name := range union(o, old) {
		if name != k.mark && !same(o[name], old[name]) && !slices.Contains(k.mutable, name) {
			return nil, invalid("resource."+name, o[name], "The field cannot be changed.")
		}
	}
	k.marked(o)
	return o, nil
}

// alter begins an operation that changes an object.
func (c *call) alter(verb string, x *entry, do func(context.Context) error) (object, error) {
	x.busy++
	over := func() { x.busy-- }
	return c.operate(verb, x.path, func(ctx context.Context) error {
		if err := do(ctx); err != nil {
			return err
		}
		over()
		return nil
	}, over)
}

// setLabels replaces all labels.
func (k *collection) setLabels(c *call) (object, error) {
	if name, other := c.params["resource"]; other {
		c.params[k.word] = name
	}
	x, err := k.changeable(c)
	if err != nil {
		return nil, err
	}
	if c.body["labelFingerprint"] != x.o["labelFingerprint"] {
		return nil, stale("Labels fingerprint either invalid or resource labels have changed")
	}
	labels := sub(c.body, "labels")
	if err := checkLabels("labels", labels); err != nil {
		return nil, err
	}
	return c.alter("setLabels", x, func(context.Context) error {
		if labels == nil {
			delete(x.o, "labels")
		} else {
			x.o["labels"] = labels
		}
		k.marked(x.o)
		return nil
	})
}

// union is what either of two objects has.
func union(a, b object) object {
	out := object{}
	for k := range a {
		out[k] = nil
	}
	for k := range b {
		out[k] = nil
	}
	return out
}
