package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// groupKinds returns the kinds of instance groups, and of their managers.
func groupKinds() []*collection {
	return []*collection{
		setKind(),
		{name: "instanceGroupManagers", word: "instanceGroupManager", verbs: []string{"insert", "get", "list", "aggregatedList", "patch"}, quota: "INSTANCE_GROUP_MANAGERS",
			refs:        []ref{{"instanceTemplate", []string{"instanceTemplates"}}, {"versions[].instanceTemplate", []string{"instanceTemplates"}}, {"targetPools[]", []string{"targetPools"}}, {"autoHealingPolicies[].healthCheck", []string{"healthChecks"}}},
			fingerprint: "fingerprint", queues: true, show: func(_ *Emulator, x *entry, o object) { x.group.show(o) }, shape: shapeGroup, onCreate: onGroupCreated, onChange: func(e *Emulator, x *entry) { e.updatePools(x); e.steer(x) },
			mutable: []string{"targetSize", "instanceTemplate", "versions", "targetPools", "updatePolicy", "autoHealingPolicies", "listManagedInstancesResults", "instanceLifecyclePolicy", "statefulPolicy", "allInstancesConfig", "description"}},
	}
}

func groupHandlers() map[string]handler {
	out := setHandlers()
	for verb, h := range map[string]handler{"delete": (*call).deleteGroup, "listManagedInstances": (*call).listManaged, "listErrors": (*call).listErrors,
		"resize": (*call).resizeGroup, "setInstanceTemplate": (*call).setTemplate, "setTargetPools": (*call).setPools,
		"recreateInstances":       memberChange(func(c *call, x *entry, m *member) { c.recreate(x, m) }, 0),
		"applyUpdatesToInstances": (*call).applyUpdates,
		"deleteInstances":         memberChange(func(c *call, x *entry, m *member) { c.drop(x, m) }, -1),
		"abandonInstances":        memberChange(func(c *call, x *entry, m *member) { c.abandon(x, m) }, -1),
		"createInstances":         (*call).createMembers,
	} {
		out["compute.instanceGroupManagers."+verb] = h
	}
	return out
}

// A group's actions on an instance, as in currentAction.
const (
	none       = "NONE"
	creating   = "CREATING"
	recreating = "RECREATING"
	deleting   = "DELETING"
	abandoning = "ABANDONING"
)

// group holds the instances of a manager.
type group struct {
	members []*member
	pools   []string // the pools that contain its instances
	onEmpty func()   // called when the last instance is gone
}

// member is an instance that a group has, or is about to have.
type member struct {
	name, action string
	// template is the URL of the template from which the instance was created.
	template string
	// errors are the errors of the last attempt to create it.
	errors list
	// busy is set while an attempt is in progress, or is waiting to be retried.
	busy bool
	// operations is the number of operations on it: a new one cancels earlier ones.
	operations int
}

// show adds the fields of a manager that depend on its instances.
func (g *group) show(o object) {
	actions := object{}
	for _, a := range []string{none, creating, recreating, deleting, abandoning, "RESTARTING", "REFRESHING", "VERIFYING", "CREATING_WITHOUT_RETRIES"} {
		actions[camel(a)] = int64(0)
	}
	stable, current := len(g.members) == int(tree.Number(o, "targetSize")), true
	for _, m := range g.members {
		n, _ := actions[camel(m.action)].(int64)
		actions[camel(m.action)] = n + 1
		stable = stable && m.action == none
		current = current && m.template == o["instanceTemplate"]
	}
	for _, field := range []string{"maxSurge", "maxUnavailable"} {
		n := tree.Sub(tree.Sub(o, "updatePolicy"), field)
		n["calculated"] = fixedOrPercent(n, tree.Number(o, "targetSize"))
	}
	o["currentActions"] = actions
	o["status"] = object{"isStable": stable, "versionTarget": object{"isReached": current}, "stateful": object{"hasStatefulConfig": false, "perInstanceConfigs": object{"allEffective": true}}}
}

// camel converts a constant such as CREATING_WITHOUT_RETRIES to a field name,
// creatingWithoutRetries. A field name is returned unchanged.
func camel(s string) string {
	if !strings.Contains(s, "_") && s != strings.ToUpper(s) {
		return s
	}
	words := strings.Split(strings.ToLower(s), "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// maxBase is the maximum length of an instance's base name, without the unique suffix.
const maxBase = 58

var baseName = pattern(`^[a-z]([-a-z0-9]{0,57})$`)

func shapeGroup(c *call, o, old object) error {
	versions := tree.Subs(o, "versions")
	switch {
	case old != nil && !tree.Equal(o["instanceTemplate"], old["instanceTemplate"]) && tree.Equal(o["versions"], old["versions"]):
		o["versions"] = list{object{"instanceTemplate": o["instanceTemplate"]}}
	case len(versions) > 1:
		return refusal(http.StatusNotImplemented, "notImplemented", "groups with several versions are not supported by this emulator of Google Cloud")
	case len(versions) == 1:
		o["instanceTemplate"] = versions[0]["instanceTemplate"]
	case o["instanceTemplate"] == nil:
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.instanceTemplate' not specified")
	default:
		o["versions"] = list{object{"instanceTemplate": o["instanceTemplate"]}}
	}
	name := tree.Text(o, "name")
	tree.SetDefault(o, "baseInstanceName", name[:min(len(name), maxBase)])
	if b := tree.Text(o, "baseInstanceName"); !baseName().MatchString(b) {
		return invalid("resource.baseInstanceName", b, "Must be a match of regex '[a-z][-a-z0-9]{0,57}'")
	}
	if n := tree.Number(o, "targetSize"); n < 0 || n > 1000 {
		return invalid("resource.targetSize", n, "Must be between 0 and 1000.")
	}
	if old == nil {
		path := c.scope() + "/instanceGroups/" + name
		if c.entries[path] != nil {
			return refusal(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", path)
		}
		o["instanceGroup"] = link(path)
	}
	tree.SetDefault(o, "listManagedInstancesResults", "PAGELESS")
	tree.SetDefault(o, "instanceLifecyclePolicy", object{"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "NO"})
	tree.SetDefault(o, "updatePolicy", object{})
	return shapeUpdates(tree.Sub(o, "updatePolicy"), tree.Sub(old, "updatePolicy"), tree.Number(o, "targetSize"))
}

// shapeUpdates checks and defaults an update policy; old is the previous one, or nil.
func shapeUpdates(p, old object, size int64) error {
	tree.SetDefaults(p, object{"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "replacementMethod": "SUBSTITUTE", "mostDisruptiveAllowedAction": "REPLACE"})
	surge := int64(1)
	if p["replacementMethod"] == "RECREATE" {
		surge = 0
	}
	for field, usual := range map[string]int64{"maxSurge": surge, "maxUnavailable": 1} {
		tree.SetDefault(p, field, object{"fixed": usual})
		n := tree.Sub(p, field)
		if before := tree.Sub(old, field); before != nil && n["fixed"] != nil && n["percent"] != nil { // a patch sets the other unit
			for _, unit := range []string{"fixed", "percent"} {
				if before[unit] != nil {
					delete(n, unit)
				}
			}
		}
		if n["fixed"] != nil && n["percent"] != nil {
			return invalid("resource.updatePolicy."+field, n["percent"], "Only one of fixed and percent may be given.")
		}
		if n["percent"] == nil {
			tree.SetDefault(n, "fixed", int64(0))
		}
	}
	if surge := fixedOrPercent(tree.Sub(p, "maxSurge"), size); p["replacementMethod"] == "RECREATE" && surge > 0 {
		return invalid("resource.updatePolicy.maxSurge", surge, "maxSurge must be equal to 0 when replacement method is set to RECREATE.")
	}
	return nil
}

// fixedOrPercent returns a number that is fixed, or a percentage of a size, rounded up.
func fixedOrPercent(n object, size int64) int64 {
	if n["percent"] != nil {
		return (tree.Number(n, "percent")*size + 99) / 100
	}
	return tree.Number(n, "fixed")
}

// onGroupCreated creates the group of a manager, and its instances.
func onGroupCreated(e *Emulator, x *entry) {
	x.group = &group{}
	template := e.entries[pathOf(tree.Text(x.o, "instanceTemplate"))]
	o := object{"name": x.o["name"], "id": e.newID(), "creationTimestamp": stamp(e.Now()), "zone": x.o["zone"], "selfLink": x.o["instanceGroup"], "fingerprint": fingerprint(x.path), "size": int64(0),
		"description": "This instance group is controlled by Instance Group Manager '" + tree.Text(x.o, "name") + "'. To modify instances in this group, use the Instance Group Manager API: https://cloud.google.com/compute/docs/reference/latest/instanceGroupManagers"}
	if template != nil {
		for _, nic := range tree.Subs(tree.Sub(template.o, "properties"), "networkInterfaces")[:1] {
			for _, field := range []string{"network", "subnetwork"} {
				if nic[field] != nil {
					o[field] = nic[field]
				}
			}
		}
	}
	path := pathOf(tree.Text(o, "selfLink"))
	e.entries[path] = &entry{path: path, kind: e.kinds["instanceGroups"], o: o, created: true, owner: x.path}
	e.steer(x)
}

func (c *call) manager() (*entry, error) { return c.kinds["instanceGroupManagers"].findChangeable(c) }

// deleteGroup removes a manager once all its instances are gone.
func (c *call) deleteGroup() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	own := c.entries[pathOf(tree.Text(x.o, "instanceGroup"))]
	if users := c.usersOf(own); len(users) > 0 && !c.o.LateInUse {
		return nil, inUseError(own, users[0])
	}
	op := c.newOperation("delete", x.path)
	x.deleting = true
	fails := c.fate.Fails
	c.Schedule(c.o.Latency/2, func(context.Context) {
		op.o["status"], op.o["startTime"] = "RUNNING", stamp(c.Now())
		if users := c.usersOf(own); len(users) > 0 && fails == nil {
			fails = inUseError(own, users[0])
		}
		if fails != nil {
			x.deleting = false
			c.finish(op, fails)
			return
		}
		x.group.onEmpty = func() {
			c.remove(x)
			c.finish(op, nil)
		}
		c.Schedule(c.o.Latency/2, func(context.Context) { c.steer(x) })
	})
	return tree.Clone(op.o), nil
}

// startManagerOperation starts an operation on a manager, which is done as soon as the actions have started.
func (c *call) startManagerOperation(x *entry, do func()) (object, error) {
	return c.startChange("compute.instanceGroupManagers."+lastPart(c.method.ID, "."), x, func(context.Context) error {
		if c.entries[x.path] == x && !x.deleting {
			do()
			x.kind.setFingerprint(x.o)
			c.steer(x)
		}
		return nil
	})
}

func (c *call) resizeGroup() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseInt(c.params["size"], 10, 64)
	if err != nil || size < 0 || size > 1000 {
		return nil, invalid("size", c.params["size"], "Must be between 0 and 1000.")
	}
	return c.startManagerOperation(x, func() { x.o["targetSize"] = size })
}

func (c *call) setTemplate() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	path, err := c.resolveReference(tree.Text(c.body, "instanceTemplate"), "instanceTemplate", []string{"instanceTemplates"})
	if err != nil {
		return nil, err
	}
	return c.startManagerOperation(x, func() {
		x.o["instanceTemplate"], x.o["versions"] = link(path), list{object{"instanceTemplate": link(path)}}
	})
}

func (c *call) setPools() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	if sent := c.body["fingerprint"]; sent != nil && sent != x.o["fingerprint"] {
		return nil, staleError("Invalid fingerprint.")
	}
	var urls []string
	for i, url := range tree.Texts(c.body, "targetPools") {
		path, err := c.resolveReference(url, fmt.Sprintf("targetPools[%d]", i), []string{"targetPools"})
		if err != nil {
			return nil, err
		}
		urls = append(urls, link(path))
	}
	return c.startManagerOperation(x, func() {
		tree.SetTexts(x.o, "targetPools", urls)
		c.updatePools(x)
	})
}

// findMembers returns the members that a list of instance URLs refers to.
func (c *call) findMembers(x *entry, urls []string) ([]*member, error) {
	var out []*member
	for i, url := range urls {
		at := slices.IndexFunc(x.group.members, func(m *member) bool {
			return c.absolutePath(url) == scopeOf(x.path)+"/instances/"+m.name && m.action != deleting && m.action != abandoning
		})
		if at < 0 {
			if tree.Bool(c.body, "skipInstancesOnValidationError") {
				continue
			}
			return nil, invalid(fmt.Sprintf("instances[%d]", i), url, "The instance is not a member of instanceGroupManager '"+tree.Text(x.o, "name")+"'.")
		}
		out = append(out, x.group.members[at])
	}
	return out, nil
}

// memberChange returns a handler that acts on members, and changes the group's size by size for
// each of them.
func memberChange(do func(*call, *entry, *member), size int64) handler {
	return func(c *call) (object, error) {
		x, err := c.manager()
		if err != nil {
			return nil, err
		}
		if len(tree.Texts(c.body, "instances")) == 0 {
			return nil, refusal(http.StatusBadRequest, "required", "Required field 'instances' not specified")
		}
		members, err := c.findMembers(x, tree.Texts(c.body, "instances"))
		if err != nil {
			return nil, err
		}
		return c.startManagerOperation(x, func() {
			for _, m := range members {
				if !slices.Contains(x.group.members, m) || m.action == deleting {
					continue
				}
				x.o["targetSize"] = max(0, tree.Number(x.o, "targetSize")+size)
				do(c, x, m)
			}
		})
	}
}

// applyUpdates recreates those of the given instances that are outdated.
func (c *call) applyUpdates() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	members := slices.Clone(x.group.members)
	if !tree.Bool(c.body, "allInstances") {
		if members, err = c.findMembers(x, tree.Texts(c.body, "instances")); err != nil {
			return nil, err
		}
	}
	always := slices.Contains([]string{"REPLACE", "RESTART"}, tree.Text(c.body, "minimalAction"))
	return c.startManagerOperation(x, func() {
		for _, m := range members {
			if m.action != none || !always && m.template == x.o["instanceTemplate"] {
				continue
			}
			if tree.Sub(x.o, "updatePolicy")["replacementMethod"] == "RECREATE" {
				c.recreate(x, m)
			} else {
				c.drop(x, m) // the group replaces it
			}
		}
	})
}

// createMembers creates instances with given names.
func (c *call) createMembers() (object, error) {
	x, err := c.manager()
	if err != nil {
		return nil, err
	}
	var names []string
	for i, item := range tree.Subs(c.body, "instances") {
		name := tree.Text(item, "name")
		switch {
		case !tag().MatchString(name):
			return nil, invalid(fmt.Sprintf("instances[%d].name", i), name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
		case c.entries[scopeOf(x.path)+"/instances/"+name] != nil || slices.Contains(names, name):
			return nil, refusal(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", scopeOf(x.path)+"/instances/"+name)
		}
		names = append(names, name)
	}
	return c.startManagerOperation(x, func() {
		for _, name := range names {
			x.group.members = append(x.group.members, &member{name: name, action: creating})
		}
		x.o["targetSize"] = tree.Number(x.o, "targetSize") + int64(len(names))
	})
}

// listManaged returns the instances of a manager, in pages only if the manager is configured for
// it.
func (c *call) listManaged() (object, error) {
	x, err := c.kinds["instanceGroupManagers"].find(c)
	if err != nil {
		return nil, err
	}
	items := []object{}
	for _, m := range sortedBy(slices.Clone(x.group.members), func(m *member) string { return m.name }) {
		items = append(items, c.memberObject(x, m))
	}
	if x.o["listManagedInstancesResults"] != "PAGINATED" {
		delete(c.params, "maxResults")
		delete(c.params, "pageToken")
	}
	page, next, err := c.paginate(items)
	if err != nil {
		return nil, err
	}
	out := object{}
	if len(page) > 0 {
		out["managedInstances"] = tree.ListOf(page)
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}

func (c *call) memberObject(x *entry, m *member) object {
	path := scopeOf(x.path) + "/instances/" + m.name
	o := object{"instance": link(path), "name": m.name, "currentAction": m.action}
	template := m.template
	if i := c.entries[path]; i != nil {
		o["id"], o["instanceStatus"] = i.o["id"], i.o["status"]
	} else if m.action == creating || m.action == recreating {
		template = tree.Text(x.o, "instanceTemplate")
	}
	if template != "" {
		o["version"] = object{"instanceTemplate": template}
	}
	if len(m.errors) > 0 {
		o["lastAttempt"] = object{"errors": object{"errors": m.errors}}
	}
	return o
}

func (c *call) listErrors() (object, error) {
	x, err := c.kinds["instanceGroupManagers"].find(c)
	if err != nil {
		return nil, err
	}
	items := []object{}
	for _, m := range x.group.members {
		for _, e := range m.errors {
			items = append(items, object{"timestamp": stamp(c.Now()), "error": e, "instanceActionDetails": object{"action": m.action, "instance": link(scopeOf(x.path) + "/instances/" + m.name), "version": object{"instanceTemplate": x.o["instanceTemplate"]}}})
		}
	}
	page, next, err := c.paginate(items)
	out := object{"items": tree.ListOf(page)}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, err
}
