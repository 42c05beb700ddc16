package roll

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
)

var (
	seeds = flag.Int("seeds", 1500, "how many random rollouts are simulated")
	seed  = flag.Uint64("seed", 1, "the first of them")
)

// TestRandomRollouts rolls random clusters in which things go wrong at random, with drivers that
// die, and checks each Step against Step's promises. It prints the seed of a failure; -seed N
// -seeds 1 -v repeats that run with all details.
func TestRandomRollouts(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	for i := range uint64(*seeds) {
		s := newScene(*seed + i)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v\n%s", *seed+i, err, strings.Join(s.w.history, "\n"))
		}
		ends[s.outcome()]++
		if *seeds == 1 {
			t.Log(strings.Join(s.w.history, "\n"))
		}
	}
	t.Logf("ends: %v", ends)
	for _, end := range []string{"done", "stopped", "aborted", "skipped"} {
		if *seeds >= 1000 && ends[end] < *seeds/100 {
			t.Errorf("only %d of %d rollouts ended %s: the simulation shows less than it should", ends[end], *seeds, end)
		}
	}
}

// scene is a random rollout.
type scene struct {
	w     *world
	rng   *rand.Rand
	d     *driver
	check *checker
	// calm means that nothing goes wrong by itself: then the rollout must finish.
	calm     bool
	requests []Request
	start    time.Time
}

func newScene(seed uint64) *scene {
	rng := rand.New(rand.NewPCG(seed, 10))
	s := &scene{w: newWorld(rng), rng: rng, calm: rng.IntN(4) == 0}
	s.w.refills = rng.IntN(3) > 0
	s.cluster()
	o := s.options()
	state := New(fmt.Sprint(seed), o, s.w.plans(s.effect(), s.shape), s.w.view())
	s.d = newDriver(s.w, state)
	s.d.duration = func(a Action) time.Duration { return time.Duration(1+rng.IntN(10)) * time.Second }
	if !s.calm {
		s.troubles()
	}
	s.check = newChecker(s)
	return s
}

// oneIn returns true once in n times.
func (s *scene) oneIn(n int) bool { return s.rng.IntN(n) == 0 }

// cluster creates groups of all roles.
func (s *scene) cluster() {
	if s.oneIn(3) {
		s.group("bastions", api.RoleBastion, 1+s.rng.IntN(2))
	}
	switch s.rng.IntN(3) {
	case 0:
		s.group("cp-a", api.RoleControlPlane, 1)
	case 1:
		s.group("cp", api.RoleControlPlane, 3)
	default:
		for _, zone := range "abc" {
			s.group("cp-"+string(zone), api.RoleControlPlane, 1)
		}
	}
	if s.oneIn(4) {
		s.group("api", api.RoleAPIServer, 1+s.rng.IntN(2))
	}
	for i := range 1 + s.rng.IntN(3) {
		s.group(fmt.Sprintf("nodes-%d", i), api.RoleNode, 1+s.rng.IntN(8))
	}
}

func (s *scene) group(name string, role api.InstanceGroupRole, n int) {
	boot := 20 + s.rng.IntN(200)
	never := !s.calm && s.oneIn(12)
	g := &wgroup{name: name, role: role, target: n, refill: time.Duration(s.rng.IntN(20)) * time.Second,
		boot:  func() time.Duration { return time.Duration(boot+s.rng.IntN(30)) * time.Second },
		never: func() bool { return never && s.oneIn(2) }}
	s.w.groups = append(s.w.groups, g)
	for range n {
		m := s.w.add(g, !s.oneIn(6))
		m.pods = s.rng.IntN(6)
		m.applied = !m.old
		m.cordoned = s.oneIn(20)
		if s.oneIn(15) && role != api.RoleControlPlane {
			m.detached = true
		}
		if role == api.RoleNode && s.oneIn(20) {
			m.spare, m.detached, m.ready, m.node, m.pods = true, false, false, "", 0
			g.target--
		}
		if s.oneIn(20) && (!s.calm || role == api.RoleNode) { // broken from the start
			m.ready, m.broken = false, true
			m.etcdSick = m.member && s.oneIn(2)
		}
	}
	g.target = max(0, g.target-s.detachedOf(g))
}

func (s *scene) detachedOf(g *wgroup) int {
	n := 0
	for _, m := range g.machines {
		if m.detached {
			n++
		}
	}
	if s.w.refills { // its successors already exist
		for range n {
			s.w.add(g, false).applied = true
		}
		return 0
	}
	return n
}

func (s *scene) options() Options {
	o := Defaults()
	o.Canary = !s.oneIn(3)
	o.Interactive = s.oneIn(12)
	o.Ask = s.oneIn(2)
	o.FailOnDrainError = !s.oneIn(4)
	o.FailOnValidateError = !s.oneIn(6)
	o.DrainRestarts = s.oneIn(2)
	o.CloudOnly = s.oneIn(15)
	o.ValidateCount = s.rng.IntN(3)
	if s.oneIn(8) {
		o.Gates = []Gate{{URL: "http://shop.example"}}
	}
	return o
}

// effect returns what is done to each machine: the same for all, or different for each.
func (s *scene) effect() func(*wmachine) Effect {
	sort := s.rng.IntN(4)
	return func(m *wmachine) Effect {
		if sort > 1 || sort == 1 && s.oneIn(3) || m.detached || m.spare || m.broken {
			return Replace
		}
		return Restart
	}
}

// shape gives a group its budget.
func (s *scene) shape(g *wgroup, p *Plan) {
	p.Surge, p.Unavailable = s.rng.IntN(4), s.rng.IntN(3)
	if p.Surge == 0 && p.Unavailable == 0 {
		p.Surge = 1
	}
	if g.role == api.RoleControlPlane {
		p.Surge, p.Unavailable = 0, 1
	}
	p.SurgeOnly = g.role == api.RoleNode && s.oneIn(15)
	p.Revision = 1
}

// run drives the rollout to its end, whatever happens meanwhile.
func (s *scene) run() error {
	s.start = s.w.now
	for s.d.stored.Ended.IsZero() {
		if s.w.now.Sub(s.start) > 48*time.Hour {
			return fmt.Errorf("it has not ended after 48 h:\n%s", formatState(s.d.stored))
		}
		v := s.d.view()
		v.Requests, s.requests = s.requests, nil
		next, actions, err := s.step(v)
		if err != nil {
			return err
		}
		if s.crash() {
			s.requests = append(v.Requests, s.requests...) // they are kept until a state includes them
			continue
		}
		s.d.stored = next
		s.answerQuestions(actions)
		if s.crash() {
			continue
		}
		s.d.runActions(actions)
		if !next.Ended.IsZero() {
			break
		}
		var until time.Time
		for _, a := range actions {
			if a.Do == Sleep {
				until = a.Until
			}
		}
		if !s.w.pass(until) {
			return fmt.Errorf("it waits for nothing:\n%s", formatState(next))
		}
	}
	return s.check.checkEnd(s.d.stored)
}

// step runs one Step and checks its promises.
func (s *scene) step(v View) (State, []Action, error) {
	next, actions := Step(s.d.stored, v)
	again := v
	again.Requests, again.Results = nil, nil
	if third, _ := Step(next, again); !reflect.DeepEqual(next, third) {
		return next, nil, fmt.Errorf("Step had more to do at once:\n%s\n%s\n%s", formatState(next), formatState(third), cmp.Diff(next, third))
	}
	if s.oneIn(16) { // not always, as it is slow
		if err := s.checkStatePreserved(v, next); err != nil {
			return next, nil, err
		}
	}
	s.narrate(next, actions)
	return next, actions, s.check.step(s.d.stored, next, v, actions)
}

// checkStatePreserved checks that Step does not change the state that it is given, and that a state
// survives being stored.
func (s *scene) checkStatePreserved(v View, next State) error {
	before, read := text(s.d.stored), State{}
	if Step(s.d.stored, v); text(s.d.stored) != before {
		return fmt.Errorf("the state that Step was given was changed")
	}
	if err := json.Unmarshal([]byte(text(next)), &read); err != nil || text(read) != text(next) {
		return fmt.Errorf("the state does not survive being kept: %w\n%s\n%s", err, text(next), text(read))
	}
	return nil
}

func (s *scene) narrate(next State, actions []Action) {
	for i, g := range next.Groups {
		for j, m := range g.Machines {
			switch was := s.d.stored.Groups[i].Machines[j]; {
			case was.Phase != m.Phase:
				s.w.record("    %s: %s -> %s %s", m.Name, was.Phase, m.Phase, m.Trouble)
			case m.Phase == Surged && was.Lacks != m.Lacks:
				s.w.record("    %s: %s %s", m.Name, m.Phase, m.Lacks)
			}
		}
		if was := s.d.stored.Groups[i]; g.Waits != was.Waits {
			s.w.record("    group %s waits for %q", g.Name, g.Waits)
		}
		if was := s.d.stored.Groups[i]; g.Stopped != nil && was.Stopped == nil {
			s.w.record("    group %s is stopped: %s", g.Name, g.Stopped.Why)
		}
	}
	for _, a := range actions {
		if s.d.running[a] == nil && a.Do != Sleep && a.Do != Prompt {
			s.w.record("  %s %s", a.Do, strings.TrimPrefix(a.Machine+" of "+a.Group, " "))
		}
	}
}

// crash kills the driver now and then; another continues once the lease has expired.
func (s *scene) crash() bool {
	if s.calm || !s.oneIn(40) {
		return false
	}
	s.w.record("the driver dies")
	s.check.recordNotBegun()
	s.d.crash(func(Action) bool { return s.oneIn(2) })
	until := s.w.now.Add(30 * time.Second)
	for s.w.now.Before(until) {
		s.w.pass(until)
	}
	return true
}

// answerQuestions makes the user answer questions, after a while.
func (s *scene) answerQuestions(actions []Action) {
	for _, a := range actions {
		if a.Do != Prompt || s.check.pendingQuestions[a.Question] || s.check.silence {
			continue
		}
		s.check.pendingQuestions[a.Question] = true
		for _, q := range s.d.stored.Questions {
			if q.ID == a.Question {
				answer := q.Choices[s.rng.IntN(len(q.Choices))]
				if s.calm && answer == No {
					answer = Yes
				}
				s.check.excused[q.Machine] = s.check.excused[q.Machine] || answer == Force
				s.w.record("asked: %s; the answer will be %s", q.Text, answer)
				s.w.after(time.Duration(s.rng.IntN(600))*time.Second, func() {
					delete(s.check.pendingQuestions, q.ID)
					s.requests = append(s.requests, Request{Want: Reply, Question: q.ID, Answer: answer})
				})
			}
		}
	}
}

// outcome says how the rollout ended.
func (s *scene) outcome() string {
	st := s.d.stored
	switch {
	case st.Aborted:
		return "aborted"
	case st.Stopped != nil:
		return "stopped"
	}
	for _, g := range st.Groups {
		if g.Stopped != nil {
			return "stopped"
		}
		for _, m := range g.Machines {
			if m.Phase == Kept && !g.SurgeOnly {
				return "skipped"
			}
		}
	}
	return "done"
}

// formatState formats a state in a few lines.
func formatState(s State) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "paused %v, aborted %v, questions %v\n", s.Paused, s.Aborted, s.Questions)
	for _, g := range s.Groups {
		fmt.Fprintf(b, "%s surge %d unavailable %d size %d: waits for %q, ended %v, new %v\n", g.Name, g.Surge, g.Unavailable, g.Size, g.Waits, !g.Ended.IsZero(), g.New)
		for _, m := range g.Machines {
			fmt.Fprintf(b, "  %s %s %s surged %v for %q: %s %+v\n", m.Name, m.Effect, m.Phase, m.Surged, m.Successor, m.Trouble, m.Effort)
		}
	}
	return b.String()
}

func text(s State) string {
	b := &bytes.Buffer{}
	if err := json.NewEncoder(b).Encode(s); err != nil {
		return err.Error()
	}
	return b.String()
}
