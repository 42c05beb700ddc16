package emulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// retryCreate is how long a group waits before it retries the creation of an instance.
const retryCreate = 30 * time.Second

// steer starts the actions that a group needs: to reach its target size and, if its updates are
// proactive, its template.
func (e *Emulator) steer(x *entry) {
	if e.entries[x.path] != x || x.group == nil {
		return
	}
	g := x.group
	if x.deleting && len(g.members) == 0 {
		if g.onEmpty != nil {
			g.onEmpty()
		}
		return
	}
	for _, m := range slices.Clone(g.members) {
		if m.action == none && e.entries[e.instancePath(x, m)] == nil {
			m.action = recreating // it was deleted outside the group
		}
	}
	e.adjustSize(x)
	if !x.deleting {
		e.renew(x)
		e.adjustSize(x)
	}
	for _, m := range slices.Clone(g.members) {
		if (m.action == creating || m.action == recreating) && !m.busy {
			e.create(x, m)
		}
	}
	if x.deleting && len(g.members) == 0 {
		e.steer(x)
	}
}

func (e *Emulator) instancePath(x *entry, m *member) string {
	return scopeOf(x.path) + "/instances/" + m.name
}

// remaining returns the members that are not being removed.
func (g *group) remaining() []*member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return m.action == deleting || m.action == abandoning })
}

// outdated returns the members without a current action whose template is not the manager's.
func (x *entry) outdated() []*member {
	return slices.DeleteFunc(slices.Clone(x.group.members), func(m *member) bool { return m.action != none || m.template == x.o["instanceTemplate"] })
}

func (x *entry) updates(field string) int {
	return int(fixedOrPercent(tree.Sub(tree.Sub(x.o, "updatePolicy"), field), tree.Number(x.o, "targetSize")))
}

// isProactive reports whether a group replaces outdated instances on its own.
func (x *entry) isProactive() bool { return tree.Sub(x.o, "updatePolicy")["type"] == "PROACTIVE" }

// adjustSize adds or removes members to reach the target size.
func (e *Emulator) adjustSize(x *entry) {
	target := int(tree.Number(x.o, "targetSize"))
	if x.isProactive() {
		target += min(x.updates("maxSurge"), len(x.outdated()))
	}
	if x.deleting {
		target = 0
	}
	staying := x.group.remaining()
	for n := len(staying); n < target; n++ {
		x.group.members = append(x.group.members, &member{name: e.freeName(x), action: creating})
	}
	if len(staying) <= target {
		return
	}
	rank := func(m *member) int {
		switch {
		case m.action == creating && len(m.errors) > 0:
			return 0
		case m.action == none && m.template != x.o["instanceTemplate"]:
			return 1
		case m.action == creating:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(staying, func(a, b *member) int { return rank(a) - rank(b) })
	for _, m := range staying[:len(staying)-target] {
		e.drop(x, m)
	}
}

// letters are the characters of the random suffix of an instance's name.
const letters = "0123456789bcdfghjklmnpqrstvwxz"

// freeName returns an unused name for a new instance: the base name, and four random characters.
func (e *Emulator) freeName(x *entry) string {
	for {
		end := make([]byte, 4)
		for i := range end {
			end[i] = letters[e.Random.IntN(len(letters))]
		}
		name := tree.Text(x.o, "baseInstanceName") + "-" + string(end)
		if e.entries[scopeOf(x.path)+"/instances/"+name] == nil && !slices.ContainsFunc(x.group.members, func(m *member) bool { return m.name == name }) {
			return name
		}
	}
}

// renew replaces outdated instances, as many at once as the group allows.
func (e *Emulator) renew(x *entry) {
	if !x.isProactive() {
		return
	}
	well := 0
	for _, m := range x.group.members {
		if m.action == none {
			well++
		}
	}
	least := int(tree.Number(x.o, "targetSize")) - x.updates("maxUnavailable")
	for _, m := range x.outdated() {
		if well-1 < least {
			return
		}
		well--
		if tree.Sub(x.o, "updatePolicy")["replacementMethod"] == "RECREATE" {
			e.recreate(x, m)
		} else {
			e.drop(x, m)
		}
	}
}

// create creates the instance of a member.
func (e *Emulator) create(x *entry, m *member) {
	m.busy = true
	failed := func(err error) {
		r := refusalOf(err)
		m.errors = list{object{"code": r.code(), "message": r.Message}}
		e.Schedule(retryCreate, func(context.Context) {
			m.busy = false
			e.steer(x)
		})
	}
	template := e.entries[pathOf(tree.Text(x.o, "instanceTemplate"))]
	if template == nil {
		failed(notFound(pathOf(tree.Text(x.o, "instanceTemplate"))))
		return
	}
	scope := scopeOf(x.path)
	c := &call{Emulator: e, params: map[string]string{"project": projectOf(scope), "zone": lastPart(scope, "/")}}
	inst, err := c.addInstance(scope, e.newInstanceObject(x, m, tree.Sub(template.o, "properties")), x.path)
	if err != nil {
		failed(err)
		return
	}
	m.template = tree.Text(template.o, "selfLink")
	m.operations++
	turn := m.operations
	e.boot(inst, func(err error) {
		switch {
		case m.operations != turn:
			return // a newer operation has taken over
		case inst.deleting:
			m.busy = false // the operation that deletes it steers the group again
			return
		case err != nil && !errors.Is(err, errSuperseded):
			e.removeFailed(inst)
			failed(err)
			return
		}
		m.action, m.busy, m.errors = none, false, nil
		e.updatePools(x)
		e.steer(x)
	})
}

// newInstanceObject returns a member's instance, from the properties of a template.
func (e *Emulator) newInstanceObject(x *entry, m *member, properties object) object {
	o := tree.Clone(properties)
	o["name"] = m.name
	number := e.projects[projectOf(x.path)].number
	tree.SetDefault(o, "metadata", object{})
	items, _ := tree.Sub(o, "metadata")["items"].(list)
	tree.Sub(o, "metadata")["items"] = append(items,
		object{"key": "instance-template", "value": fmt.Sprintf("projects/%d/global/instanceTemplates/%s", number, lastPart(tree.Text(x.o, "instanceTemplate"), "/"))},
		object{"key": "created-by", "value": fmt.Sprintf("projects/%d/zones/%s/instanceGroupManagers/%s", number, lastPart(scopeOf(x.path), "/"), tree.Text(x.o, "name"))})
	for _, d := range tree.Subs(o, "disks") {
		delete(d, "index")
	}
	return o
}

// recreate recreates the instance of a member, with the same name.
func (e *Emulator) recreate(x *entry, m *member) {
	m.action, m.operations = recreating, m.operations+1
	inst := e.entries[e.instancePath(x, m)]
	if inst == nil {
		return // the next steer creates it
	}
	m.busy = true
	e.removeInstance(inst, func(err error) {
		m.busy = false
		if err == nil && m.action == recreating {
			e.steer(x)
		}
	})
}

// drop removes a member from a group, and deletes its instance.
func (e *Emulator) drop(x *entry, m *member) {
	m.action, m.operations = deleting, m.operations+1
	out := func() {
		x.group.members = slices.DeleteFunc(x.group.members, func(o *member) bool { return o == m })
	}
	inst := e.entries[e.instancePath(x, m)]
	if inst == nil {
		out()
		return
	}
	e.removeInstance(inst, func(err error) {
		if err != nil && e.entries[inst.path] == inst {
			return // another operation is deleting it
		}
		out()
		e.steer(x)
	})
}

// abandon removes a member from a group, and keeps its instance.
func (e *Emulator) abandon(x *entry, m *member) {
	x.group.members = slices.DeleteFunc(x.group.members, func(o *member) bool { return o == m })
	if inst := e.entries[e.instancePath(x, m)]; inst != nil {
		inst.machine.manager = ""
		for _, url := range x.group.pools {
			e.setPoolMember(url, link(inst.path), false)
		}
	}
}

// updatePools adds the instances of a manager to its target pools, and removes them from its previous
// ones.
func (e *Emulator) updatePools(x *entry) {
	wanted := tree.Texts(x.o, "targetPools")
	for path, inst := range e.entries {
		if inst.machine == nil || inst.machine.manager != x.path {
			continue
		}
		for _, url := range x.group.pools {
			e.setPoolMember(url, link(path), false)
		}
		for _, url := range wanted {
			e.setPoolMember(url, link(path), true)
		}
	}
	x.group.pools = wanted
}

// setPoolMember adds an instance to a target pool, or removes it.
func (e *Emulator) setPoolMember(pool, instance string, in bool) {
	x := e.entries[pathOf(pool)]
	if x == nil {
		return
	}
	now := slices.DeleteFunc(tree.Texts(x.o, "instances"), func(s string) bool { return s == instance })
	if in {
		now = append(now, instance)
	}
	slices.Sort(now)
	tree.SetTexts(x.o, "instances", now)
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
