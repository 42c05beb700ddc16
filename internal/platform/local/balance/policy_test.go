package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// schedules is the number of random schedules in which the policy is tested.
const schedules = 1500

// step is the resolution of the simulated time.
const step = 10 * time.Millisecond

// state is the behaviour of a simulated backend.
type state int

const (
	well state = iota
	slow       // it answers late, but in time
	refusing
	stalled
	ended    // its process exited
	vanished // its machine is gone
	states
)

// actor is a simulated backend, with what an observer knows about it.
type actor struct {
	state   state
	leaves  bool      // it should no longer serve
	until   time.Time // when the state changes
	changed time.Time
	due     time.Time // when the answer in progress arrives; zero: there is no check
	asked   time.Time // when that check was sent
	next    time.Time // time of the next check

	status     status
	owingSince time.Time // since when it has owed an answer, to one check or more; zero: it does not
	cut        time.Time // when its connections were last cut because it was silent; zero: never
	begun      time.Time // since when it has been ready without a break; zero: from the beginning
	refused    time.Time // since when it has refused while another was ready; zero: it has not
	finishes   []time.Time
}

type simulation struct {
	*testing.T
	rand    *rand.Rand
	now     time.Time
	actors  []*actor
	records []record
	next    int
	seed    uint64
}

// TestThePolicyInRandomSchedules compares the policy's decisions with its promises,
// for backends that fail and recover at random, from the viewpoint of an observer.
func TestThePolicyInRandomSchedules(t *testing.T) {
	for seed := range uint64(schedules) {
		s := &simulation{T: t, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), seed: seed}
		for range 1 + s.rand.IntN(4) {
			s.actors = append(s.actors, &actor{next: s.now})
		}
		s.records = make([]record, len(s.actors))
		for n := range 2000 { // 20 s
			s.now = s.now.Add(step)
			for i := range s.actors {
				s.live(i)
			}
			if time.Duration(n)*step%tick == 0 {
				s.look()
				s.connect()
			}
			if t.Failed() {
				return
			}
		}
	}
}

func (s *simulation) failf(format string, args ...any) {
	s.Helper()
	s.Errorf("seed %d at %s: %s\n%+v", s.seed, s.now.Sub(time.Unix(1e9, 0)), fmt.Sprintf(format, args...), s.records)
}

// randomDuration returns a random duration.
func (s *simulation) randomDuration(d time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(d)))
}

// live advances a backend's state, checks it and lets it answer.
func (s *simulation) live(i int) {
	a := s.actors[i]
	if s.now.After(a.until) {
		if next := state(s.rand.IntN(int(states))); next != a.state {
			a.state, a.changed = next, s.now
		}
		a.leaves = s.rand.IntN(8) == 0
		s.records[i].leaving = a.leaves
		a.until = s.now.Add(s.randomDuration([]time.Duration{200 * time.Millisecond, 3 * time.Second, 12 * time.Second}[s.rand.IntN(3)]))
	}
	switch {
	case a.due.IsZero() && !s.now.Before(a.next):
		a.asked, a.next = s.now, s.now.Add(interval)
		a.due = s.now.Add(s.randomDuration(40 * time.Millisecond))
		if a.state == slow {
			a.due = s.now.Add(200*time.Millisecond + s.randomDuration(stallAfter-300*time.Millisecond))
		}
		if a.owingSince.IsZero() {
			a.owingSince = s.now
		}
		s.records[i] = s.records[i].startCheck(s.now)
	case a.due.IsZero():
	case s.now.Sub(a.asked) >= checkTime:
		a.due = time.Time{}
	case s.now.Before(a.due) || a.state == stalled:
	default:
		w := map[state]status{well: ready, slow: ready, refusing: notReady, ended: closed, vanished: unreachable}[a.state]
		if a.state == vanished && s.rand.IntN(4) > 0 {
			return // a machine that is gone is usually just silent
		}
		silent := s.silent(i)
		if w != notReady || silent || s.owes(i) < slowAfter { // otherwise it has only given up
			s.note(i, w)
		}
		if a.due = (time.Time{}); w != notReady || s.owes(i) < slowAfter {
			a.owingSince = time.Time{}
		}
		s.records[i] = s.records[i].finishCheck(w, s.now)
	}
}

// noteRefusal records a refused connection.
func (s *simulation) noteRefusal(i int, w status) {
	s.note(i, w)
	s.records[i] = s.records[i].observe(w, s.now)
}

func (s *simulation) note(i int, w status) {
	a := s.actors[i]
	if w != a.status || s.silent(i) {
		if a.begun = s.now; a.status == unchecked && !s.silent(i) {
			a.begun = time.Time{}
		}
	}
	a.status = w
}

// An observer's view of a backend.
func (s *simulation) owes(i int) time.Duration {
	if s.actors[i].owingSince.IsZero() {
		return 0
	}
	return s.now.Sub(s.actors[i].owingSince)
}
func (s *simulation) silent(i int) bool {
	return s.owes(i) >= stallAfter || !s.records[i].outpacedSince.IsZero()
}
func (s *simulation) bad(i int) bool {
	return s.silent(i) || s.actors[i].status == closed || s.actors[i].status == unreachable
}
func (s *simulation) good(i int) bool {
	return s.actors[i].status == ready && s.owes(i) < slowAfter && !s.actors[i].leaves
}
func (s *simulation) proven(i int) bool {
	return s.good(i) && s.now.Sub(s.actors[i].begun) >= proof
}

// others reports whether is holds for any backend except one.
func (s *simulation) others(i int, is func(int) bool) bool {
	for j := range s.actors {
		if j != i && is(j) {
			return true
		}
	}
	return false
}

// look applies the policy to open connections.
func (s *simulation) look() {
	var fates []action
	s.records, fates = decide(s.records, s.now)
	if isUrgent(s.records, s.now) {
		for _, a := range s.actors {
			a.next = s.now
		}
	}
	for i, a := range s.actors {
		elsewhere := s.others(i, s.good)
		refuses := a.status == notReady || a.status == closed || a.leaves
		if !refuses || !elsewhere {
			a.refused = time.Time{}
		} else if a.refused.IsZero() {
			a.refused = s.now
		}
		draining := time.Duration(0)
		if !a.refused.IsZero() {
			draining = s.now.Sub(a.refused)
		}
		switch f := fates[i]; {
		case f != keep && !elsewhere && a.status != unreachable:
			s.failf("the connections of %d end, and there is nowhere to go", i)
		case f != keep && a.status == ready && !s.silent(i) && !a.leaves:
			s.failf("the connections of %d end, which is ready", i)
		case f == cut && a.status != unreachable && draining < drainTime && (!s.silent(i) || s.records[i].lastCut.IsZero()):
			s.failf("the connections of %d are cut, which answers, after %s", i, draining)
		}
		if s.records[i].lastCut.Equal(s.now) {
			s.cutForSilence(i)
		}
		switch fates[i] {
		case cut:
			a.finishes = nil
		case drain:
			a.finishes = slices.DeleteFunc(a.finishes, s.now.After)
		}
		if len(a.finishes) == 0 {
			continue
		}
		if quiet := cutAfter<<maxPatience + interval + recentCount*interval; a.state == stalled && s.now.Sub(a.changed) >= quiet && s.othersAreWell(i, probation+proof+quiet) {
			s.failf("%d has stalled for %s beside others that are well, and has connections", i, s.now.Sub(a.changed))
		}
		if draining >= drainTime {
			s.failf("%d has been drained for %s, and has connections", i, draining)
		}
	}
}

// cutForSilence verifies a cut of a backend that did not report itself gone or not ready: how
// long it has been silent, and how many were cut recently.
func (s *simulation) cutForSilence(i int) {
	s.actors[i].cut = s.now
	if s.owes(i) < cutAfter {
		s.failf("the connections of %d are cut, which owes an answer for %s", i, s.owes(i))
	}
	up, lost := 0, 0
	for j, a := range s.actors {
		down := a.status == unreachable || a.status == closed || a.cut.After(a.owingSince) && !a.owingSince.IsZero() && s.now.Sub(a.cut) >= probation
		if j != i && down {
			continue
		}
		if up++; !a.cut.IsZero() && s.now.Sub(a.cut) < probation {
			lost++
		}
	}
	if 2*lost > up {
		s.failf("%d of %d backends were cut within %s", lost, up, probation)
	}
}

// othersAreWell reports whether all backends except one have been well for some time.
func (s *simulation) othersAreWell(i int, d time.Duration) bool {
	return len(s.actors) > 1 && !s.others(i, func(j int) bool {
		a := s.actors[j]
		return a.state != well || a.leaves || s.now.Sub(a.changed) < d
	})
}

// connect opens a connection as the server does.
func (s *simulation) connect() {
	tried := map[int]bool{}
	for range s.actors {
		i := choose(s.records, s.next, func(i int) bool { return tried[i] }, s.now)
		if i < 0 {
			s.failf("no backend is offered after %v", tried)
			return
		}
		untried := func(is func(int) bool) func(int) bool {
			return func(j int) bool { return !tried[j] && is(j) }
		}
		switch a := s.actors[i]; {
		case s.bad(i) && s.others(i, untried(s.good)):
			s.failf("%d is chosen, which is known to be bad, and another is ready", i)
		case (a.status != ready || a.leaves) && s.others(i, untried(s.good)):
			s.failf("%d is chosen, which is not ready or leaves, and another is ready", i)
		case !s.proven(i) && s.others(i, untried(s.proven)):
			s.failf("%d is chosen, which has been ready since %s, and another has for longer", i, a.begun)
		}
		s.next = i + 1
		switch a := s.actors[i]; a.state {
		case ended:
			s.noteRefusal(i, closed)
		case vanished: // it does not answer in time
		default:
			a.finishes = append(a.finishes, s.now.Add(s.randomDuration(2*drainTime)))
			return
		}
		tried[i] = true
	}
	if i := choose(s.records, s.next, func(i int) bool { return tried[i] }, s.now); i >= 0 {
		s.failf("%d is offered twice", i)
	}
}

// Equal backends get connections in turn.
func TestBackendsThatAreAlikeServeInTurn(t *testing.T) {
	now := time.Unix(1e9, 0)
	ok := record{}.startCheck(now).finishCheck(ready, now)
	records, next := []record{ok, record{}.finishCheck(notReady, now), ok}, 0
	var got []int
	for range 4 {
		i := choose(records, next, func(int) bool { return false }, now.Add(time.Minute))
		got, next = append(got, i), i+1
	}
	if !slices.Equal(got, []int{0, 2, 0, 2}) {
		t.Errorf("chosen are %v", got)
	}
}
