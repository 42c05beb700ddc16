package roll

import (
	"fmt"
	"slices"
	"time"

	"kops.local/kops/api/status"
)

// troubles makes things go wrong at random times.
func (s *scene) troubles() {
	some := func(n int, do func()) {
		for range s.rng.IntN(n) {
			s.w.after(time.Duration(s.rng.IntN(5400))*time.Second, do)
		}
	}
	if s.oneIn(2) {
		some(4, s.flap)
	}
	if s.oneIn(3) {
		some(3, s.death)
	}
	if s.oneIn(2) {
		some(3, s.failure)
	}
	if s.oneIn(4) {
		some(3, s.pause)
	}
	if s.oneIn(8) {
		s.w.after(time.Duration(s.rng.IntN(1500))*time.Second, func() { s.sendRequest(Abort) })
	}
	if s.oneIn(6) {
		some(3, s.outage)
	}
	if s.oneIn(5) {
		some(3, s.resize)
	}
	if s.oneIn(5) {
		some(3, func() { s.sendRequest(Resume) })
	}
	s.budgets()
	s.faults()
}

func (s *scene) sendRequest(w Want) {
	s.w.record("the user wants: %s", w)
	s.requests = append(s.requests, Request{Want: w})
}

func (s *scene) pause() {
	s.sendRequest(Pause)
	s.w.after(time.Duration(s.rng.IntN(1200))*time.Second, func() { s.sendRequest(Resume) })
}

// any returns a random machine, or nil.
func (s *scene) any() *wmachine {
	g := s.w.groups[s.rng.IntN(len(s.w.groups))]
	if len(g.machines) == 0 {
		return nil
	}
	return g.machines[s.rng.IntN(len(g.machines))]
}

// flap makes a node not ready for a while.
func (s *scene) flap() {
	m := s.any()
	if m == nil || !m.ready {
		return
	}
	s.w.setReady(m, false)
	s.w.after(time.Duration(s.rng.IntN(120))*time.Second, func() { s.w.setReady(m, m.running && !m.broken) })
}

// death kills a machine, which the platform notices or not.
func (s *scene) death() {
	m := s.any()
	switch {
	case m == nil:
	case s.oneIn(2):
		s.w.record("%s dies and is removed", m.name)
		s.w.remove(m)
	default:
		s.w.record("%s dies", m.name)
		m.broken, m.member, m.etcdSick = true, false, m.member
		s.w.setReady(m, false)
	}
}

// failure makes a part of the cluster fail for a while, or for good.
func (s *scene) failure() {
	f := status.Failure{Kind: status.KindPod, Name: fmt.Sprintf("kube-system/p%d", s.rng.IntN(1000)), Message: "it is pending"}
	if s.oneIn(2) {
		f.Group = s.w.groups[s.rng.IntN(len(s.w.groups))].name
	}
	s.w.record("fails: %s of group %q", f.Name, f.Group)
	s.w.failures[f.Name] = f
	if !s.oneIn(4) {
		s.w.after(time.Duration(s.rng.IntN(300))*time.Second, func() {
			s.w.record("fails no more: %s", f.Name)
			delete(s.w.failures, f.Name)
		})
	}
}

// outage makes the API server, or the platform, unavailable for a while.
func (s *scene) outage() {
	down, long := &s.w.apiDown, 200
	if s.oneIn(2) {
		down = &s.w.cloudDown
	}
	if s.oneIn(4) {
		long = 3000
	}
	*down = true
	s.w.record("outage")
	s.w.after(time.Duration(s.rng.IntN(long))*time.Second, func() { *down = false })
}

// resize changes sizes, as an autoscaler does.
func (s *scene) resize() {
	g := s.w.groups[len(s.w.groups)-1]
	if s.oneIn(2) {
		g.target++
		s.w.record("group %s is to have %d machines", g.name, g.target)
		s.w.after(g.refill, func() { s.w.order(g) })
		return
	}
	i := slices.IndexFunc(g.machines, func(m *wmachine) bool { return !m.detached && !m.spare })
	if i >= 0 && g.target > 1 {
		g.target--
		s.w.record("group %s is to have %d machines", g.name, g.target)
		s.w.remove(g.machines[i])
	}
}

// budgets forbids evictions on some machines, for a while or for good.
func (s *scene) budgets() {
	for _, g := range s.w.groups {
		for _, m := range g.machines {
			switch s.rng.IntN(20) {
			case 0:
				m.blocked = s.w.now.Add(time.Duration(s.rng.IntN(5400)) * time.Second)
			case 1:
				m.blocked = s.w.now.Add(1000 * time.Hour)
			case 2:
				m.restartFails = true
			}
		}
	}
}

// faults makes actions fail: sometimes, always for one machine, for good, or although they took
// effect.
func (s *scene) faults() {
	unlucky, rate, final := s.any(), 5+s.rng.IntN(30), s.oneIn(2)
	if !s.oneIn(3) {
		unlucky = nil
	}
	s.d.fault = func(a Action) (string, bool, bool) {
		switch {
		case unlucky != nil && a.Machine == unlucky.name && s.check.isFailing(a):
			return "it is refused", final, false
		case s.oneIn(rate):
			return "the connection broke", false, s.oneIn(2)
		case a.Do == CheckGates && s.oneIn(10):
			return "500 Internal Server Error", false, false
		}
		return "", false, true
	}
}
