package roll

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"kops.local/kops/api"
)

// fleet is a cluster with groups of workers, all of which must be replaced.
type fleet struct {
	groups, each, surge int
	boot                time.Duration
	canary              bool
	count               bool // count writes of the state, which is slow
}

// large returns 500 machines in 10 groups with a surge of 1, the default on AWS.
func large() fleet { return fleet{groups: 10, each: 50, surge: 1, boot: 2 * time.Minute, canary: true} }

// outcome is what a fleet's rollout cost.
type outcome struct {
	took       time.Duration // simulated
	cloud, api int           // requests
	steps      int
	stepping   time.Duration // in Step, real
	saves      int           // writes of the state
	size       int           // of the state, as stored
}

// roll replaces all machines of a fleet, with a driver that does not die.
func (f fleet) roll(tb testing.TB) outcome {
	w := newWorld(rand.New(rand.NewPCG(1, 1)))
	for i := range f.groups {
		g := &wgroup{name: fmt.Sprintf("nodes-%d", i), role: api.RoleNode, target: f.each, refill: 5 * time.Second,
			boot: func() time.Duration { return f.boot - 15*time.Second + time.Duration(w.rng.IntN(21))*time.Second }, never: func() bool { return false }}
		w.groups = append(w.groups, g)
		for range f.each {
			w.add(g, true)
		}
	}
	o := Defaults()
	o.Canary = f.canary
	d := newDriver(w, New("large", o, w.plans(func(*wmachine) Effect { return Replace }, func(_ *wgroup, p *Plan) { p.Surge = f.surge }), w.view()))
	begun, out := w.now, outcome{}
	for {
		v := d.view()
		start := time.Now()
		next, actions := Step(d.stored, v)
		out.stepping += time.Since(start)
		out.steps++
		if f.count && !reflect.DeepEqual(next, d.stored) {
			out.saves++
		}
		d.stored = next
		if !next.Ended.IsZero() {
			break
		}
		d.runActions(actions)
		var until time.Time
		for _, a := range actions {
			if a.Do == Sleep {
				until = a.Until
			}
		}
		if !w.pass(until) {
			tb.Fatalf("it waits for nothing:\n%s", formatState(next))
		}
	}
	for _, g := range d.stored.Groups {
		for _, m := range g.Machines {
			if m.Phase != Done {
				tb.Fatalf("machine %s is %s", m.Name, m.Phase)
			}
		}
	}
	out.size = len(text(d.stored))
	out.took, out.cloud, out.api = w.now.Sub(begun), w.calls["cloud"], w.calls["api"]
	return out
}

// ideal returns the time in which the machines of a fleet boot, as many concurrently as the budget
// allows.
func (f fleet) ideal() time.Duration {
	return f.boot * time.Duration(f.each) / time.Duration(f.surge)
}

// TestLargeRollout limits the time of a rollout beyond what its machines take to boot. It counts
// simulated time, and so the soak, the drain and everything that Step waits for. The host's speed
// is irrelevant.
func TestLargeRollout(t *testing.T) {
	t.Parallel()
	slow := large()
	slow.boot = 3 * time.Minute
	wide := slow
	wide.surge, wide.canary = 5, false
	for name, f := range map[string]fleet{"surge 1, boot 2m": large(), "surge 1, boot 3m": slow, "surge 5, no canary, boot 3m": wide} {
		o := f.roll(t)
		ratio := float64(o.took) / float64(f.ideal())
		t.Logf("%s: %d machines in %v, %.3f of %v; %d requests to the cloud, %d to the API; %d steps, a state of %d bytes", name, f.groups*f.each, o.took, ratio, f.ideal(), o.cloud, o.api, o.steps, o.size)
		if ratio > 1.2 {
			t.Errorf("%s: it took %v, %.2f of the %v in which the machines boot", name, o.took, ratio, f.ideal())
		}
		if n := f.groups * f.each; o.cloud > 3*n || o.api > 7*n {
			t.Errorf("%s: %d requests to the cloud and %d to the API for %d machines", name, o.cloud, o.api, n)
		}
	}
}

// BenchmarkLargeRollout rolls 500 machines in 10 groups.
func BenchmarkLargeRollout(b *testing.B) {
	f, n := large(), 0.0
	f.count = true
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.ReadMemStats(&before)
		o := f.roll(b)
		runtime.ReadMemStats(&after)
		n = float64(f.groups * f.each)
		b.ReportMetric(float64(o.took)/float64(f.ideal()), "of-boot-time")
		b.ReportMetric(o.took.Hours(), "simulated-h")
		b.ReportMetric(float64(o.cloud)/n, "cloud-requests/machine")
		b.ReportMetric(float64(o.api)/n, "api-requests/machine")
		b.ReportMetric(float64(o.saves)/n, "saves/machine")
		b.ReportMetric(float64(o.size), "state-bytes")
		b.ReportMetric(float64(o.stepping.Microseconds())/float64(o.steps), "µs/step")
	}
	b.ReportMetric(float64(after.HeapInuse)/(1<<20), "heap-MB")
}

// BenchmarkStep measures one Step in the middle of a rollout of 500 machines.
func BenchmarkStep(b *testing.B) {
	w := newWorld(rand.New(rand.NewPCG(1, 1)))
	for i := range 10 {
		g := &wgroup{name: fmt.Sprintf("nodes-%d", i), role: api.RoleNode, target: 50}
		w.groups = append(w.groups, g)
		for range 50 {
			w.add(g, true)
		}
	}
	s := New("step", Defaults(), w.plans(func(*wmachine) Effect { return Replace }, func(_ *wgroup, p *Plan) { p.Surge = 5 }), w.view())
	for i := range s.Groups {
		g := &s.Groups[i]
		g.Proven = true
		for j := range g.Machines[:25] {
			m := &g.Machines[j]
			old := w.find(m.Name)
			m.Phase, m.Ended, m.Successor = Done, w.now.Add(-time.Hour), w.add(old.group, false).name
			old.group.machines = old.group.machines[1:]
			g.New = append(g.New, Newcomer{Name: m.Successor, Ready: w.now.Add(-time.Hour), Well: true, For: m.Name})
		}
	}
	v := w.view()
	s, _ = Step(s, v)
	b.ReportAllocs()
	for b.Loop() {
		Step(s, v)
	}
}
