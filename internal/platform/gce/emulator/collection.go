package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/gce/emulator/description"
	"kops.local/kops/internal/standin/tree"
)

// collection is a kind of Compute Engine objects: what all its objects have in common.
type collection struct {
	// name is the resource's name in method IDs, such as regionHealthChecks; segment its name in
	// paths, empty if it is the same; word the path variable that names an object.
	name, segment, word string
	// verbs are the methods with a generic handler.
	verbs []string
	// quota is the metric that counts the objects; may be empty.
	quota string
	// refs are the fields that refer to other objects.
	refs []ref
	// users are the names of the kinds whose objects prevent the deletion of an object of this kind
	// while they refer to it.
	users []string
	// mutable are the fields that patch and update may change.
	mutable []string
	// fingerprint is the field with the object's fingerprint, which changes must contain; empty: there is
	// none.
	fingerprint string
	// needsFingerprint rejects a change without a fingerprint.
	needsFingerprint bool
	// labelled objects have labels with their own fingerprint.
	labelled bool
	// queues makes concurrent changes wait for each other; other kinds reject them.
	queues bool

	// shape checks a new (old is nil) or changed object, and sets the fields that the server sets.
	shape func(c *call, o, old object) error
	// show adds fields derived from other objects to a response.
	show func(e *Emulator, x *entry, o object)
	// onCreate is called when an object has been created, and onChange when it has been changed.
	onCreate, onChange func(e *Emulator, x *entry)
	// onDelete is called when an object has been deleted.
	onDelete func(e *Emulator, x *entry)

	schema *description.Schema
}

// ref is a field that refers to another object by its URL.
type ref struct {
	field string
	to    []string // names of kinds
}

// entry is an existing object.
type entry struct {
	path string
	kind *collection // nil: an operation
	o    object
	// created is false until the operation that creates the object has ended: until then the name is
	// taken, and the object is not visible.
	created bool
	// busy is the number of operations in progress on the object; deleting reports that one of them
	// deletes it.
	busy     int
	deleting bool
	// owner is the path of the object with which this one is deleted; empty: it is independent.
	owner string
	// members are the paths of the instances of an unmanaged group.
	members []string
	// machine and group are the additional state of instances and their managers.
	machine *machine
	group   *group
}

// collect registers a kind, with its generic methods.
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

// scope returns the path of a call's project, region or zone.
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

// checkLocation rejects a project, region or zone that does not exist.
func (c *call) checkLocation() error {
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

// find returns the object of a call.
func (k *collection) find(c *call) (*entry, error) {
	path := k.path(c)
	if x := c.entries[path]; x != nil && x.kind == k && x.created {
		return x, nil
	}
	return nil, notFound(path)
}

// findChangeable returns the object of a call that changes it.
func (k *collection) findChangeable(c *call) (*entry, error) {
	if x := c.entries[k.path(c)]; x != nil && !x.created {
		return nil, notReady(x.path)
	}
	x, err := k.find(c)
	if err == nil && (x.deleting || x.busy > 0 && !k.queues) {
		err = notReady(x.path)
	}
	return x, err
}

func (k *collection) get(c *call) (object, error) {
	x, err := k.find(c)
	if err != nil {
		return nil, err
	}
	return c.toObject(x), nil
}

// toObject returns an object as a response.
func (e *Emulator) toObject(x *entry) object {
	o := tree.Clone(x.o)
	if x.kind == nil {
		return o
	}
	if x.kind.show != nil {
		x.kind.show(e, x, o)
	}
	x.kind.schema.Complete(o)
	return o
}

// showUsers adds the objects that prevent an object's deletion.
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

// insert creates an object.
func (k *collection) insert(c *call) (object, error) {
	x, err := k.make(c, c.scope(), c.body)
	if err != nil {
		return nil, err
	}
	return c.operate("insert", x.path, func(context.Context) error {
		x.created = true
		x.busy--
		if k.onCreate != nil {
			k.onCreate(c.Emulator, x)
		}
		return nil
	}, func() { delete(c.entries, x.path) })
}

// make adds a new object, which is not visible yet.
func (k *collection) make(c *call, scope string, o object) (*entry, error) {
	path := scope + "/" + k.segment + "/" + tree.Text(o, "name")
	if err := c.checkNameFree(path); err != nil {
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
		if err := c.checkQuota(k.quota, path, 1); err != nil {
			return nil, err
		}
	}
	o["id"], o["selfLink"], o["creationTimestamp"] = c.newID(), link(path), stamp(c.Now())
	switch parts := strings.Split(scope, "/"); parts[2] {
	case "zones", "regions":
		o[strings.TrimSuffix(parts[2], "s")] = link(scope)
	}
	k.setFingerprint(o)
	x := &entry{path: path, kind: k, o: o, busy: 1}
	c.entries[path] = x
	return x, nil
}

// checkNameFree rejects the path of an existing object, or one whose name is invalid.
func (e *Emulator) checkNameFree(path string) error {
	switch name := lastPart(path, "/"); {
	case name == "":
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.name' not specified")
	case !tag().MatchString(name):
		return invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
	case e.entries[path] != nil:
		return refusal(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", path)
	}
	return nil
}

// setFingerprint sets the fingerprints of an object.
func (k *collection) setFingerprint(o object) {
	if k.labelled {
		o["labelFingerprint"] = fingerprint(o["labels"])
	}
	if k.fingerprint != "" {
		delete(o, k.fingerprint)
		o[k.fingerprint] = fingerprint(o)
	}
}

// delete removes an object.
func (k *collection) delete(c *call) (object, error) {
	x, err := k.findChangeable(c)
	if err != nil {
		return nil, err
	}
	if !c.o.LateInUse {
		if err := c.checkUnused(x); err != nil {
			return nil, err
		}
	}
	x.deleting = true
	return c.operate("delete", x.path, func(context.Context) error {
		if err := c.checkUnused(x); err != nil {
			return err
		}
		c.remove(x)
		return nil
	}, func() { x.deleting = false })
}

// checkUnused returns an error if other objects use an object.
func (e *Emulator) checkUnused(x *entry) error {
	if users := e.usersOf(x); len(users) > 0 {
		return inUseError(x, users[0])
	}
	return nil
}

func inUseError(x *entry, by string) *Error {
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
	if x.kind.onDelete != nil {
		x.kind.onDelete(e, x)
	}
}

// patch changes the fields in the request, and update replaces all fields that a user sets, except
// labels, which have their own method.
func (k *collection) patch(c *call) (object, error) {
	return k.change(c, "patch", func(old object) object { return tree.MergePatch(old, c.body) })
}

func (k *collection) update(c *call) (object, error) {
	return k.change(c, "update", func(old object) object {
		o := tree.Clone(c.body)
		for name, s := range k.schema.Properties {
			if v, there := old[name]; there && (s.ReadOnly || k.labelled && (name == "labels" || name == "labelFingerprint")) {
				o[name] = v
			}
		}
		return o
	})
}

// change replaces an object by a changed one, in which only mutable fields may differ.
func (k *collection) change(c *call, verb string, to func(old object) object) (object, error) {
	x, err := k.findChangeable(c)
	if err != nil {
		return nil, err
	}
	if _, err := k.checkChange(c, x.o, to(x.o)); err != nil {
		return nil, err
	}
	return c.startChange(verb, x, func(context.Context) error {
		o, err := k.checkChange(c, x.o, to(x.o)) // queued changes apply to the result of earlier ones
		if err != nil {
			return err
		}
		x.o = o
		if k.onChange != nil {
			k.onChange(c.Emulator, x)
		}
		return nil
	})
}

// checkChange checks and completes a changed object.
func (k *collection) checkChange(c *call, old, o object) (object, error) {
	if k.fingerprint != "" {
		if sent, given := c.body[k.fingerprint]; given && sent != old[k.fingerprint] || !given && k.needsFingerprint {
			return nil, staleError("Invalid fingerprint.")
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
		if name != k.fingerprint && !tree.Equal(o[name], old[name]) && !slices.Contains(k.mutable, name) {
			return nil, invalid("resource."+name, o[name], "The field cannot be changed.")
		}
	}
	k.setFingerprint(o)
	return o, nil
}

// startChange starts an operation that changes an object.
func (c *call) startChange(verb string, x *entry, do func(context.Context) error) (object, error) {
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
	x, err := k.findChangeable(c)
	if err != nil {
		return nil, err
	}
	if c.body["labelFingerprint"] != x.o["labelFingerprint"] {
		return nil, staleError("Labels fingerprint either invalid or resource labels have changed")
	}
	labels := tree.Sub(c.body, "labels")
	if err := checkLabels("labels", labels); err != nil {
		return nil, err
	}
	return c.startChange("setLabels", x, func(context.Context) error {
		if labels == nil {
			delete(x.o, "labels")
		} else {
			x.o["labels"] = labels
		}
		k.setFingerprint(x.o)
		return nil
	})
}

// union returns the fields of both objects.
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
