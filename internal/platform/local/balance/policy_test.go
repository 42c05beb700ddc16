package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// schedules is how many random courses of events the policy is tried in.
const schedules = 1500

// step is the grain of the simulated time.
const step = 10 * time.Millisecond

// state is what a simulated backend does.
type state int

const (
	well state = iota
	slow       // it answers late, and yet in time
	refusing
	stalled
	ended    // its process has
	vanished // its machine has
	states
)

// actor is a simulated backend, with what a bystander knows of it.
type actor struct {
	state   state
	leaves  bool      // it is to serve no longer
	until   time.Time // when the state changes
	changed time.Time
	due     time.Time // when the answer under way comes; zero: no question is
	asked   time.Time // when that question was asked
	next    time.Time // the next question

	heard    word
	owing    time.Time // since when it owes an answer, asked once or more often; zero: it does not
	late     time.Time // when it last gave an answer that took longer than its share of stall; zero: it has not
	begun    time.Time // since when it has been ready without a break; zero: from the beginning
	refused  time.Time // since when it has refused while another was ready; zero: it has not
	finishes []time.Time
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

// TestThePolicyInRandomSchedules holds what the policy promises against backends that
// fail and recover at random, and against what a bystander has heard of them.
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
			if n%5 == 0 {
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

// upTo is a random time.
func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(d)))
}

// live lets a backend change, asks it and lets it answer.
func (s *simulation) live(i int) {
	a := s.actors[i]
	if s.now.After(a.until) {
		if next := state(s.rand.IntN(int(states))); next != a.state {
			a.state, a.changed = next, s.now
		}
		a.leaves = s.rand.IntN(8) == 0
		s.records[i].leaves = a.leaves
		a.until = s.now.Add(s.upTo([]time.Duration{200 * time.Millisecond, 3 * time.Second, 12 * time.Second}[s.rand.IntN(3)]))
	}
	switch {
	case a.due.IsZero() && !s.now.Before(a.next):
		a.asked, a.next = s.now, s.now.Add(interval)
		a.due = s.now.Add(s.upTo(40 * time.Millisecond))
		if a.state == slow {
			a.due = s.now.Add(200*time.Millisecond + s.upTo(stall-300*time.Millisecond))
		}
		if a.owing.IsZero() {
			a.owing = s.now
		}
		s.records[i] = s.records[i].ask(s.now)
	case a.due.IsZero():
	case s.now.Sub(a.asked) >= patience:
		a.due = time.Time{}
	case s.now.Before(a.due) || a.state == stalled:
	default:
		w := map[state]word{well: ready, slow: ready, refusing: unready, ended: closed, vanished: gone}[a.state]
		if a.state == vanished && s.rand.IntN(4) > 0 {
			return // a machine that is gone is most often just silent
		}
		silent := s.silent(i)
		if s.owes(i) > stall/leeway {
			a.late = s.now
		}
		s.note(i, w)
		if a.due = (time.Time{}); w != unready || !silent {
			a.owing = time.Time{}
		}
		s.records[i] = s.records[i].answer(w, s.now)
	}
}

// hear is what a refused connection tells.
func (s *simulation) hear(i int, w word) {
	s.note(i, w)
	s.records[i] = s.records[i].hear(w, s.now)
}

func (s *simulation) note(i int, w word) {
	a := s.actors[i]
	if w != a.heard || s.silent(i) {
		if a.begun = s.now; a.heard == unasked && !s.silent(i) {
			a.begun = time.Time{}
		}
	}
	a.heard = w
}

// What a bystander would say of a backend.
func (s *simulation) owes(i int) time.Duration {
	if s.actors[i].owing.IsZero() {
		return 0
	}
	return s.now.Sub(s.actors[i].owing)
}
func (s *simulation) silent(i int) bool { return s.owes(i) >= stall }
func (s *simulation) bad(i int) bool {
	return s.silent(i) || s.actors[i].heard == closed || s.actors[i].heard == gone
}
func (s *simulation) good(i int) bool {
	return s.actors[i].heard == ready && s.owes(i) < hesitation && !s.actors[i].leaves
}
func (s *simulation) proven(i int) bool {
	return s.good(i) && s.now.Sub(s.actors[i].begun) >= proof
}

// prompt is false of one whose latest answers came late.
func (s *simulation) prompt(i int) bool {
	late := s.actors[i].late
	return late.IsZero() || s.now.Sub(late) > 3*time.Second
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

// look carries out what the policy says of open connections.
func (s *simulation) look() {
	var fates []fate
	s.records, fates = judge(s.records, s.now)
	for i, a := range s.actors {
		elsewhere := s.others(i, s.good)
		refuses := a.heard == unready || a.heard == closed || a.leaves
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
		case f != keep && !elsewhere && a.heard != gone:
			s.failf("the connections of %d end, and there is nowhere to go", i)
		case f != keep && a.heard == ready && !s.silent(i) && !a.leaves:
			s.failf("the connections of %d end, which is ready", i)
		case f == cut && a.heard != gone && !s.silent(i) && draining < drainTime:
			s.failf("the connections of %d are cut, which answers, after %s", i, draining)
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
		most := stall
		if s.others(i, func(j int) bool { return !s.prompt(j) }) {
			most = longestStall
		}
		if a.state == stalled && s.now.Sub(a.changed) >= interval+most+step && elsewhere {
			s.failf("%d has stalled for %s, and has connections", i, s.now.Sub(a.changed))
		}
		if draining >= drainTime {
			s.failf("%d has been drained for %s, and has connections", i, draining)
		}
	}
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
		case (a.heard != ready || a.leaves) && s.others(i, untried(s.good)):
			s.failf("%d is chosen, which is not ready or leaves, and another is ready", i)
		case !s.proven(i) && s.others(i, untried(s.proven)):
			s.failf("%d is chosen, which has been ready since %s, and another has for longer", i, a.begun)
		}
		s.next = i + 1
		switch a := s.actors[i]; a.state {
		case ended:
			s.hear(i, closed)
		case vanished: // it does not answer in time
		default:
			a.finishes = append(a.finishes, s.now.Add(s.upTo(2*drainTime)))
			return
		}
		tried[i] = true
	}
	if i := choose(s.records, s.next, func(i int) bool { return tried[i] }, s.now); i >= 0 {
		s.failf("%d is offered twice", i)
	}
}

// Connections come to backends that are alike in turn.
func TestBackendsThatAreAlikeServeInTurn(t *testing.T) {
	now := time.Unix(1e9, 0)
	ok := record{}.ask(now).answer(ready, now)
	records, next := []record{ok, record{}.answer(unready, now), ok}, 0
	var got []int
	for range 4 {
		i := choose(records, next, func(int) bool { return false }, now.Add(time.Minute))
		got, next = append(got, i), i+1
	}
	if !slices.Equal(got, []int{0, 2, 0, 2}) {
		t.Errorf("chosen are %v", got)
	}
}

// One that is late is given longer where the others are late, too; one that says after long
// that it is not ready is given none.
func TestLateIsJudgedByTheOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	answers := func(after time.Duration) record {
		return record{}.ask(now.Add(-after)).answer(ready, now)
	}
	for _, c := range []struct {
		others, owes time.Duration
		want         fate
	}{
		{5 * time.Millisecond, stall - step, keep},
		{5 * time.Millisecond, stall, cut},
		{stall / 2, stall, keep},
		{stall / 2, longestStall, cut},
		{3 * stall, longestStall, cut},
	} {
		late := answers(0).ask(now.Add(-c.owes))
		_, fates := judge([]record{late, answers(c.others), answers(0)}, now)
		if fates[0] != c.want {
			t.Errorf("others took %s, this one has owed an answer for %s: its connections are given %d, want %d", c.others, c.owes, fates[0], c.want)
		}
		_, fates = judge([]record{late.answer(unready, now), answers(c.others)}, now)
		if want := max(drain, c.want); fates[0] != want {
			t.Errorf("after %s it says that it is not ready: its connections are given %d, want %d", c.owes, fates[0], want)
		}
	}
	r := answers(stall)
	for range 8 {
		r = r.ask(now).answer(ready, now)
	}
	if r.took > stall/leeway {
		t.Errorf("after eight answers at once it is held to have taken %s", r.took)
	}
}
