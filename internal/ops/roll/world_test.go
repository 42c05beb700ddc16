package roll

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
)

// world is a platform with kubelets, an API server and etcd, of which only the passing of
// time and what a rollout does matter. Nothing in it knows how Step decides.
type world struct {
	now                time.Time
	rng                *rand.Rand
	groups             []*wgroup
	events             []event
	failures           map[string]status.Failure
	apiDown, cloudDown bool
	serial             int
	refills            bool
	calls              map[string]int // by what they are to: cloud, api
	history            []string
}

type event struct {
	at time.Time
	do func()
}

// wgroup is an instance group of the world.
type wgroup struct {
	name   string
	role   api.InstanceGroupRole
	target int
	// boot is how long a machine takes to be ready; never says that none ever is.
	boot  func() time.Duration
	never func() bool
	// refill is how long the platform takes to see that a machine is missing.
	refill time.Duration
	// quota is why the platform makes no machine; empty: it does.
	quota    string
	machines []*wmachine
}

// wmachine is a machine of the world.
type wmachine struct {
	name                     string
	group                    *wgroup
	old, applied             bool
	running, detached, spare bool
	node                     string
	ready                    bool
	cordoned, tainted        bool
	pods                     int
	blocked                  time.Time // until when a budget forbids evictions
	readySince               time.Time
	member                   bool // of etcd, and healthy
	etcdSick                 bool
	restartFails             bool
	broken                   bool // by itself, not by the rollout
}

func newWorld(rng *rand.Rand) *world {
	return &world{now: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC), rng: rng, failures: map[string]status.Failure{}, refills: true, calls: map[string]int{}}
}

// in does something after a time.
func (w *world) in(d time.Duration, do func()) {
	e := event{w.now.Add(d), do}
	i, _ := slices.BinarySearchFunc(w.events, e, func(a, b event) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // after its equals
	})
	w.events = slices.Insert(w.events, i, e)
}

// pass lets time pass until the next event, or until a time if that is earlier; false:
// there is neither.
func (w *world) pass(until time.Time) bool {
	if len(w.events) > 0 && (until.IsZero() || !w.events[0].at.After(until)) {
		until = w.events[0].at
	}
	if until.IsZero() {
		return false
	}
	w.now = until
	for len(w.events) > 0 && !w.events[0].at.After(w.now) {
		e := w.events[0]
		w.events = w.events[1:]
		e.do()
	}
	return true
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, strings.TrimRight(w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...), " "))
}

// add makes a machine that is there from the beginning.
func (w *world) add(g *wgroup, old bool) *wmachine {
	w.serial++
	m := &wmachine{name: fmt.Sprintf("%s-%d", g.name, w.serial), group: g, old: old, running: true, ready: true, readySince: w.now, pods: 3, member: g.role == api.RoleControlPlane}
	if g.role != api.RoleBastion {
		m.node = "node-" + m.name
	}
	g.machines = append(g.machines, m)
	return m
}

// launch makes a machine that boots.
func (w *world) launch(g *wgroup) {
	m := w.add(g, false)
	node := m.node
	m.ready, m.node, m.readySince, m.pods, m.member = false, "", time.Time{}, 0, false
	w.say("%s is launched", m.name)
	if g.never() {
		return
	}
	w.in(g.boot(), func() {
		if m.running {
			m.node = node
			w.setReady(m, true)
			m.pods = 3
		}
	})
	if g.role == api.RoleControlPlane {
		w.in(g.boot()+time.Duration(5+w.rng.IntN(60))*time.Second, func() { m.member = m.running })
	}
}

func (w *world) setReady(m *wmachine, ready bool) {
	if m.ready == ready || !w.has(m) {
		return
	}
	w.say("%s ready %v", m.name, ready)
	m.ready = ready
	if ready {
		m.readySince = w.now
	}
}

func (w *world) has(m *wmachine) bool { return slices.Contains(m.group.machines, m) }

// remove ends a machine; where its group counted it, another is made.
func (w *world) remove(m *wmachine) {
	if !w.has(m) {
		return
	}
	w.say("%s is gone", m.name)
	m.running, m.ready = false, false
	m.group.machines = slices.DeleteFunc(slices.Clone(m.group.machines), func(o *wmachine) bool { return o == m })
	w.fill(m.group)
}

// attached counts the machines that the platform counts.
func (g *wgroup) attached() int {
	n := 0
	for _, m := range g.machines {
		if !m.detached && !m.spare {
			n++
		}
	}
	return n
}

// fill has the platform see that machines are missing, where it does by itself.
func (w *world) fill(g *wgroup) {
	if w.refills {
		w.in(g.refill, func() { w.order(g) })
	}
}

// order makes the machines that are missing.
func (w *world) order(g *wgroup) {
	for g.attached() < g.target && g.quota == "" {
		w.launch(g)
	}
}

// view is what is seen of the world.
func (w *world) view() View {
	v := View{Now: w.now, API: !w.apiDown, EtcdKnown: !w.apiDown}
	for _, k := range sortedKeys(w.failures) {
		v.Failures = append(v.Failures, w.failures[k])
	}
	for _, g := range w.groups {
		v.Failures = append(v.Failures, g.failures()...)
	}
	main, events := EtcdView{Name: "main"}, EtcdView{Name: "events"}
	for _, g := range w.groups {
		gv := GroupView{Name: g.name, Target: g.target, Machines: make([]MachineView, 0, len(g.machines))}
		if g.attached() < g.target {
			gv.Trouble = g.quota
		}
		for _, m := range g.machines {
			gv.Machines = append(gv.Machines, m.view(w.now))
			if g.role == api.RoleControlPlane && m.running && (m.member || m.etcdSick) {
				member := EtcdMember{Name: "etcd-" + g.name, Machine: m.name, Healthy: !m.etcdSick, Voter: true}
				main.Members, events.Members = append(main.Members, member), append(events.Members, member)
			}
		}
		v.Groups = append(v.Groups, gv)
	}
	v.Etcd = []EtcdView{main, events}
	if w.cloudDown {
		v.Groups = nil
	}
	return v
}

// failures are what a look at a group's health finds.
func (g *wgroup) failures() []status.Failure {
	if g.role == api.RoleBastion {
		return nil
	}
	var out []status.Failure
	have := 0
	for _, m := range g.machines {
		switch {
		case m.spare:
		case m.node == "":
			out = append(out, status.Failure{Kind: status.KindMachine, Name: m.name, Group: g.name, Message: "it has not joined"})
		case !m.ready:
			out = append(out, status.Failure{Kind: status.KindNode, Name: m.node, Group: g.name, Message: "it is not ready"})
		case !m.detached:
			have++
		}
	}
	if have < g.target {
		out = append(out, status.Failure{Kind: status.KindGroup, Name: g.name, Group: g.name, Message: "it has not enough nodes"})
	}
	return out
}

func (m *wmachine) view(now time.Time) MachineView {
	v := MachineView{Name: m.name, Running: m.running, Detached: m.detached, Spare: m.spare, Node: m.node,
		Ready: m.ready && m.node != "", Cordoned: m.cordoned, Tainted: m.tainted, Applied: m.applied}
	if m.blocked.After(now) {
		v.Blockers = []string{"pod shop/web: its budget allows no disruption"}
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) find(name string) *wmachine {
	for _, g := range w.groups {
		for _, m := range g.machines {
			if m.name == name {
				return m
			}
		}
	}
	return nil
}

// plans returns what a caller would plan: outdated machines are replaced or restarted.
func (w *world) plans(effect func(*wmachine) Effect, shape func(*wgroup, *Plan)) []Plan {
	var out []Plan
	for _, g := range w.groups {
		p := Plan{Name: g.name, Role: g.role, Refills: w.refills}
		for _, m := range g.machines {
			if m.old || m.detached {
				p.Machines = append(p.Machines, Machine{Name: m.name, Node: m.node, Effect: effect(m), Reasons: []string{"spec.image"}})
			}
		}
		shape(g, &p)
		out = append(out, p)
	}
	return out
}
