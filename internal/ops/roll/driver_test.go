package roll

import (
	"slices"
	"time"
)

// driver carries out what Step requests, and can die at any point.
type driver struct {
	w *world
	// stored is what the store holds.
	stored  State
	running map[Action]*job
	results []Result
	// fault decides what happens to an action: the trouble, whether it is final, and whether the
	// action took effect nevertheless.
	fault    func(Action) (trouble string, final, effect bool)
	duration func(Action) time.Duration
}

// job is an action under way.
type job struct {
	action    Action
	cancelled bool
	dead      bool // the driver that began it has died
}

func newDriver(w *world, s State) *driver {
	return &driver{w: w, stored: s, running: map[Action]*job{},
		fault:    func(Action) (string, bool, bool) { return "", false, true },
		duration: func(a Action) time.Duration { return time.Second }}
}

// runActions begins actions that are not under way, and cancels those no longer wanted.
func (d *driver) runActions(actions []Action) {
	wanted := map[Action]bool{}
	for _, a := range actions {
		wanted[a] = true
	}
	for a, j := range d.running {
		if !wanted[a] {
			j.cancelled = true
		}
	}
	for _, a := range actions {
		if a.Do == Sleep || a.Do == Prompt || d.running[a] != nil || a.Machine != "" && d.isBusy(a.Machine) {
			continue
		}
		d.start(a)
	}
}

// isBusy reports whether an action is under way for a machine.
func (d *driver) isBusy(machine string) bool {
	for a := range d.running {
		if a.Machine == machine {
			return true
		}
	}
	return false
}

func (d *driver) start(a Action) {
	j := &job{action: a}
	d.running[a] = j
	if a.Do == Drain {
		d.w.calls["api"]++ // the list of its pods
		d.evict(j)
		return
	}
	d.w.after(d.duration(a), func() { d.finish(j) })
}

// evict drains a machine pod by pod, one per second, as long as nothing forbids it.
func (d *driver) evict(j *job) {
	d.w.after(time.Second, func() {
		m := d.w.find(j.action.Machine)
		switch {
		case j.cancelled || j.dead || m == nil || m.pods == 0:
			d.finish(j)
			return
		case m.blocked.After(d.w.now): // it tries again every five seconds
			d.w.after(min(m.blocked.Sub(d.w.now), 5*time.Minute), func() { d.evict(j) })
			return
		case m.running && m.ready:
			m.pods--
			d.w.calls["api"]++
		case j.action.Dead:
			m.pods = max(0, m.pods-1)
		default:
			d.w.after(10*time.Second, func() { d.evict(j) })
			return
		}
		if m.pods == 0 {
			d.finish(j)
			return
		}
		d.evict(j)
	})
}

// finish applies an action's effect, and reports the result.
func (d *driver) finish(j *job) {
	if d.running[j.action] == j {
		delete(d.running, j.action)
	}
	if j.cancelled && j.action.Do == Drain {
		return
	}
	trouble, final, effect := d.fault(j.action)
	if effect {
		d.w.do(j.action)
	}
	if !j.cancelled && !j.dead {
		d.results = append(d.results, Result{Action: j.action, Trouble: trouble, Final: final})
	}
}

// crash loses everything in memory. Actions under way may still take effect.
func (d *driver) crash(reaches func(Action) bool) {
	for _, j := range d.running {
		j.dead = true
		if !reaches(j.action) {
			j.cancelled = true
		}
	}
	d.running, d.results = map[Action]*job{}, nil
}

// view returns the view, with the results that were not reported yet.
func (d *driver) view() View {
	v := d.w.view()
	v.Results = slices.Clone(d.results)
	d.results = nil
	return v
}

// do applies an action's effect.
func (w *world) do(a Action) {
	m := w.find(a.Machine)
	if m == nil && a.Machine != "" {
		return
	}
	switch a.Do {
	case Taint:
		m.tainted = true
		w.calls["api"]++
	case Cordon:
		m.cordoned = true
		w.calls["api"]++
	case Release:
		m.tainted = false
		m.cordoned = a.StayCordoned
		w.calls["api"]++
	case Detach:
		w.calls["cloud"]++
		if !m.detached {
			m.detached = true
			w.record("%s is detached", m.name)
			w.fill(m.group)
		}
	case Deregister:
		w.calls["cloud"]++
	case Terminate:
		w.calls["cloud"]++
		w.calls["api"]++ // its Node
		w.remove(m)
	case RestartInPlace:
		w.calls["api"]++
		if m.applied || m.restartFails {
			return
		}
		w.setReady(m, false)
		w.after(5*time.Second, func() { m.applied, m.old = true, false })
		w.after(8*time.Second, func() { w.setReady(m, m.running && !m.broken) })
	case Update:
		w.calls["cloud"]++
		for _, g := range w.groups {
			if g.name == a.Group {
				w.order(g)
			}
		}
	}
}
