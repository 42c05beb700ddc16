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

// world is a simulated platform with kubelets, an API server and etcd, changed only by the passing
// of time and by what a rollout does. It does not depend on how Step decides.
type world struct {
	now                time.Time
	rng                *rand.Rand
	groups             []*wgroup
	events             []event
	failures           map[string]status.Failure
	apiDown, cloudDown bool
	serial             int
	refills            bool
	calls              map[string]int // by their target: cloud, api
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
	// boot returns how long a machine takes to become ready, or never.
	boot  func() time.Duration
	never func() bool
	// refill is how long the platform takes to notice that a machine is missing.
	refill time.Duration
	// quota is why the platform creates no machine; empty if it does.
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
	blocked                  time.Time // a budget forbids evictions until then
	readySince               time.Time
	member                   bool // has a healthy etcd member
	etcdSick                 bool
	restartFails             bool
	broken                   bool // on its own, not because of the rollout
}

func newWorld(rng *rand.Rand) *world {
	return &world{now: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC), rng: rng, failures: map[string]status.Failure{}, refills: true, calls: map[string]int{}}
}

// after schedules a function after a time.
func (w *world) after(d time.Duration, do func()) {
	e := event{w.now.Add(d), do}
	i, _ := slices.BinarySearchFunc(w.events, e, func(a, b event) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // after events at the same time
	})
	w.events = slices.Insert(w.events, i, e)
}

// pass advances the time to the next event, or to until if that is earlier; it returns false if
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

func (w *world) record(format string, args ...any) {
	w.history = append(w.history, strings.TrimRight(w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...), " "))
}

// add adds a machine that exists from the beginning.
func (w *world) add(g *wgroup, old bool) *wmachine {
	w.serial++
	m := &wmachine{name: fmt.Sprintf("%s-%d", g.name, w.serial), group: g, old: old, running: true, ready: true, readySince: w.now, pods: 3, member: g.role == api.RoleControlPlane}
	if g.role != api.RoleBastion {
		m.node = "node-" + m.name
	}
	g.machines = append(g.machines, m)
	return m
}

// launch creates a machine that boots.
func (w *world) launch(g *wgroup) {
	m := w.add(g, false)
	node := m.node
	m.ready, m.node, m.readySince, m.pods, m.member = false, "", time.Time{}, 0, false
	w.record("%s is launched", m.name)
	if g.never() {
		return
	}
	w.after(g.boot(), func() {
		if m.running {
			m.node = node
			w.setReady(m, true)
			m.pods = 3
		}
	})
	if g.role == api.RoleControlPlane {
		w.after(g.boot()+time.Duration(5+w.rng.IntN(60))*time.Second, func() { m.member = m.running })
	}
}

func (w *world) setReady(m *wmachine, ready bool) {
	if m.ready == ready || !w.hasMachine(m) {
		return
	}
	w.record("%s ready %v", m.name, ready)
	m.ready = ready
	if ready {
		m.readySince = w.now
	}
}

func (w *world) hasMachine(m *wmachine) bool { return slices.Contains(m.group.machines, m) }

// remove removes a machine; if its group counted it, another one is created.
func (w *world) remove(m *wmachine) {
	if !w.hasMachine(m) {
		return
	}
	w.record("%s is gone", m.name)
	m.running, m.ready = false, false
	m.group.machines = slices.DeleteFunc(slices.Clone(m.group.machines), func(o *wmachine) bool { return o == m })
	w.fill(m.group)
}

// countAttached counts the machines that the platform counts.
func (g *wgroup) countAttached() int {
	n := 0
	for _, m := range g.machines {
		if !m.detached && !m.spare {
			n++
		}
	}
	return n
}

// fill makes the platform notice missing machines, if it does so on its own.
func (w *world) fill(g *wgroup) {
	if w.refills {
		w.after(g.refill, func() { w.order(g) })
	}
}

// order creates the missing machines.
func (w *world) order(g *wgroup) {
	for g.countAttached() < g.target && g.quota == "" {
		w.launch(g)
	}
}

// view returns what is observed of the world.
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
		if g.countAttached() < g.target {
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

// failures returns what a check of a group's health finds.
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
