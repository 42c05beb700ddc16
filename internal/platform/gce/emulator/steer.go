package emulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// retryCreate is how long a group waits until it tries again to make an instance.
const retryCreate = 30 * time.Second

// steer has a group do what it lacks: as many instances as it is to have, of its template
// if it is to see to that by itself.
func (e *Emulator) steer(x *entry) {
	if e.entries[x.path] != x || x.group == nil {
		return
	}
	g := x.group
	if x.leaving && len(g.members) == 0 {
		if g.ended != nil {
			g.ended()
		}
		return
	}
	for _, m := range slices.Clone(g.members) {
		if m.action == none && e.entries[e.instancePath(x, m)] == nil {
			m.action = recreating // somebody deleted it
		}
	}
	e.sized(x)
	if !x.leaving {
		e.renew(x)
		e.sized(x)
	}
	for _, m := range slices.Clone(g.members) {
		if (m.action == creating || m.action == recreating) && !m.trying {
			e.create(x, m)
		}
	}
	if x.leaving && len(g.members) == 0 {
		e.steer(x)
	}
}

func (e *Emulator) instancePath(x *entry, m *member) string {
	return scopeOf(x.path) + "/instances/" + m.name
}

// staying are the members that are not to go.
func (g *group) staying() []*member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return m.action == deleting || m.action == abandoning })
}

// outdated are the members that are well, and of another template than the manager's.
func (x *entry) outdated() []*member {
	return slices.DeleteFunc(slices.Clone(x.group.members), func(m *member) bool { return m.action != none || m.template == x.o["instanceTemplate"] })
}

func (x *entry) updates(field string) int {
	return int(calculated(sub(sub(x.o, "updatePolicy"), field), number(x.o, "targetSize")))
}

// renews reports that a group replaces its instances by itself.
func (x *entry) renews() bool { return sub(x.o, "updatePolicy")["type"] == "PROACTIVE" }

// sized adds members, or takes some away.
func (e *Emulator) sized(x *entry) {
	target := int(number(x.o, "targetSize"))
	if x.renews() {
		target += min(x.updates("maxSurge"), len(x.outdated()))
	}
	if x.leaving {
		target = 0
	}
	staying := x.group.staying()
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

// letters are the letters at the end of an instance's name.
const letters = "0123456789bcdfghjklmnpqrstvwxz"

// freeName returns a name for a new instance: the group's name, and four letters.
func (e *Emulator) freeName(x *entry) string {
	for {
		end := make([]byte, 4)
		for i := range end {
			end[i] = letters[e.random.IntN(len(letters))]
		}
		name := text(x.o, "baseInstanceName") + "-" + string(end)
		if e.entries[scopeOf(x.path)+"/instances/"+name] == nil && !slices.ContainsFunc(x.group.members, func(m *member) bool { return m.name == name }) {
			return name
		}
	}
}

// renew replaces instances that are out of date, as many at once as the group allows.
func (e *Emulator) renew(x *entry) {
	if !x.renews() {
		return
	}
	well := 0
	for _, m := range x.group.members {
		if m.action == none {
			well++
		}
	}
	least := int(number(x.o, "targetSize")) - x.updates("maxUnavailable")
	for _, m := range x.outdated() {
		if well-1 < least {
			return
		}
		well--
		if sub(x.o, "updatePolicy")["replacementMethod"] == "RECREATE" {
			e.recreate(x, m)
		} else {
			e.drop(x, m)
		}
	}
}

// create makes the instance of a member.
func (e *Emulator) create(x *entry, m *member) {
	m.trying = true
	failed := func(err error) {
		r := refusalOf(err)
		m.errors = list{object{"code": r.code(), "message": r.Message}}
		e.later(retryCreate, func(context.Context) {
			m.trying = false
			e.steer(x)
		})
	}
	template := e.entries[pathOf(text(x.o, "instanceTemplate"))]
	if template == nil {
		failed(notFound(pathOf(text(x.o, "instanceTemplate"))))
		return
	}
	scope := scopeOf(x.path)
	c := &call{Emulator: e, params: map[string]string{"project": projectOf(scope), "zone": last(scope, "/")}}
	inst, err := c.spawn(scope, e.ofTemplate(x, m, sub(template.o, "properties")), x.path)
	if err != nil {
		failed(err)
		return
	}
	m.template = text(template.o, "selfLink")
	m.turn++
	turn := m.turn
	e.boot(inst, func(err error) {
		switch {
		case m.turn != turn:
			return // something else is done with it
		case inst.leaving:
			m.trying = false // the code that ends it looks at the group again
			return
		case err != nil && !errors.Is(err, overtaken):
			e.unmake(inst)
			failed(err)
			return
		}
		m.action, m.trying, m.errors = none, false, nil
		e.pools(x)
		e.steer(x)
	})
}

// ofTemplate is the instance of a member as the properties of a template say it.
func (e *Emulator) ofTemplate(x *entry, m *member, properties object) object {
	o := clone(properties)
	o["name"] = m.name
	number := e.projects[projectOf(x.path)].number
	preset(o, "metadata", object{})
	items, _ := sub(o, "metadata")["items"].(list)
	sub(o, "metadata")["items"] = append(items,
		object{"key": "instance-template", "value": fmt.Sprintf("projects/%d/global/instanceTemplates/%s", number, last(text(x.o, "instanceTemplate"), "/"))},
		object{"key": "created-by", "value": fmt.Sprintf("projects/%d/zones/%s/instanceGroupManagers/%s", number, last(scopeOf(x.path), "/"), text(x.o, "name"))})
	for _, d := range subs(o, "disks") {
		delete(d, "index")
	}
	return o
}

// recreate recreates the instance of a member, with the same name.
func (e *Emulator) recreate(x *entry, m *member) {
	m.action, m.turn = recreating, m.turn+1
	inst := e.entries[e.instancePath(x, m)]
	if inst == nil {
		return // the next look at the group makes it
	}
	m.trying = true
	e.end(inst, func(err error) {
		m.trying = false
		if err == nil && m.action == recreating {
			e.steer(x)
		}
	})
}

// drop takes a member out of a group, with its instance.
func (e *Emulator) drop(x *entry, m *member) {
	m.action, m.turn = deleting, m.turn+1
	out := func() {
		x.group.members = slices.DeleteFunc(x.group.members, func(o *member) bool { return o == m })
	}
	inst := e.entries[e.instancePath(x, m)]
	if inst == nil {
		out()
		return
	}
	e.end(inst, func(err error) {
		if err != nil && e.entries[inst.path] == inst {
			return // somebody else ends it
		}
		out()
		e.steer(x)
	})
}

// abandon takes a member out of a group, and leaves its instance alone.
func (e *Emulator) abandon(x *entry, m *member) {
	x.group.members = slices.DeleteFunc(x.group.members, func(o *member) bool { return o == m })
	if inst := e.entries[e.instancePath(x, m)]; inst != nil {
		inst.machine.manager = ""
		for _, url := range x.group.pools {
			e.pooled(url, link(inst.path), false)
		}
	}
}

// pools brings the instances of a manager into its target pools, and out of those that it
// had before.
func (e *Emulator) pools(x *entry) {
	wanted := texts(x.o, "targetPools")
	for path, inst := range e.entries {
		if inst.machine == nil || inst.machine.manager != x.path {
			continue
		}
		for _, url := range x.group.pools {
			e.pooled(url, link(path), false)
		}
		for _, url := range wanted {
			e.pooled(url, link(path), true)
		}
	}
	x.group.pools = wanted
}

// pooled brings an instance into a target pool, or out of it.
func (e *Emulator) pooled(pool, instance string, in bool) {
	x := e.entries[pathOf(pool)]
	if x == nil {
		return
	}
	now := slices.DeleteFunc(texts(x.o, "instances"), func(s string) bool { return s == instance })
	if in {
		now = append(now, instance)
	}
	slices.Sort(now)
	setTexts(x.o, "instances", now)
}

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
