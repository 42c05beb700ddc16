package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

var (
	seeds = flag.Uint64("seeds", 3000, "how many seeds to try")
	first = flag.Uint64("seed", 0, "the first seed")
)

// stage is one seed's world and its history.
type stage struct {
	*testing.T
	seed    uint64
	rand    *rand.Rand
	world   *World
	kinds   []resource.Any
	foreign []Object
	shared  string
	tally   *tally
	racing  bool // another run is under way
}

// tally counts the events of all seeds, so that a simulator without events fails.
type tally struct {
	runs, rivals, crashes, abandoned, blocked, lost, throttled, refused, pruned, stale, replaced, updated int
}

func newStage(t *testing.T, seed uint64, count *tally) *stage {
	s := &stage{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), world: NewWorld(), kinds: Kinds(), tally: count}
	// Other owners' objects have the names that the cluster uses.
	s.shared = s.world.Put("", NewNetwork(Network{Name: "main", CIDR: "10.0.0.0/16", DNS: true}))
	theirs := s.world.Put("b.example.com", NewSubnet(Subnet{Name: "s0", Network: resource.Lit(s.shared), CIDR: "10.0.200.0/24", Zone: "a"}))
	image := s.world.Put("b.example.com", NewTemplate(Template{Name: "t0", Image: "image0"}))
	s.world.Put("b.example.com", NewGroup(Group{Name: "theirs", Template: resource.Lit(image), Version: resource.Lit("1"), Subnets: resource.Lits(theirs)}))
	s.foreign = s.world.Objects(Cluster, true)
	return s
}

func (s *stage) failf(format string, args ...any) {
	s.Helper()
	s.Fatalf("seed %d: %s", s.seed, fmt.Sprintf(format, args...))
}

// chance returns a number in [0,1) that depends on the seed and the call alone, not
// on the order of the calls.
func (s *stage) chance(c Call) float64 {
	sum := sha256.Sum256(fmt.Append(nil, s.seed, c))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}

// plan observes the world and makes a plan. Sometimes it makes the plan again
// from listings in another order; the result must be the same.
func (s *stage) plan(g *graph.Graph, prune bool) (*plan.Plan, error) {
	snapshot, err := s.world.Observer(Clock()).Snapshot(s.Context(), Cluster, s.kinds, g, false)
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(g, snapshot, s.kinds, plan.Options{Prune: prune})
	if s.rand.IntN(3) > 0 {
		return p, err
	}
	again := plan.Snapshot{}
	for kind, list := range snapshot {
		list = slices.Clone(list)
		s.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		again[kind] = list
	}
	q, qerr := plan.Make(g, again, s.kinds, plan.Options{Prune: prune})
	if (err == nil) != (qerr == nil) {
		s.failf("the order of listings decides whether a plan is refused: %v, %v", err, qerr)
	}
	if err == nil && digest(s, p) != digest(s, q) {
		a, _ := json.MarshalIndent(p, "", " ")
		b, _ := json.MarshalIndent(q, "", " ")
		s.failf("the order of listings changes the plan:\n%s", cmp.Diff(string(a), string(b)))
	}
	return p, err
}

func digest(s *stage, p *plan.Plan) string {
	d, err := p.Digest()
	if err != nil {
		s.failf("%v", err)
	}
	return d
}

func (s *stage) run(g *graph.Graph, p *plan.Plan) error {
	s.tally.runs++
	for _, st := range p.Steps {
		if st.Replaces {
			s.tally.replaced++
			s.checkReplacementNeeded(st)
		}
		if st.Op == plan.Update {
			s.tally.updated++
		}
	}
	return s.world.Executor(Clock(), observe.Scopes(Cluster, g, false)).Run(s.Context(), p)
}

// race runs the plan concurrently with another one that was made from the same world.
func (s *stage) race(g *graph.Graph, p *plan.Plan, prune bool) error {
	rival, err := s.plan(g, prune)
	if err != nil {
		return err
	}
	s.tally.rivals++
	s.racing = true
	defer func() { s.racing = false }()
	var beside sync.WaitGroup
	beside.Go(func() {
		// Whether it succeeds does not matter, but the state that it leaves does.
		_ = s.world.Executor(Clock(), observe.Scopes(Cluster, g, false)).Run(s.Context(), rival)
	})
	err = s.run(g, p)
	beside.Wait()
	return err
}

// wanted fills World.Wanted with the templates of the graph.
func (s *stage) wanted(g *graph.Graph) {
	s.world.Wanted = map[string]bool{}
	for n := range g.All() {
		if n.Kind.CreatesFirst() {
			s.world.Wanted[n.Address.String()] = true
		}
	}
}

// disturbance is the disturbance of a run by the worlds of the seeds.
type disturbance struct {
	throttle, lose float64
	crash          bool // for a while, each run dies at some write
	fickle         bool // after a crash the desired graph may change
	lag            int  // for a while, listings are up to this number of writes old
	rival          bool // for a while, another run does the same concurrently
}

// isBlind reports whether a run may act on outdated observations.
func (x disturbance) isBlind() bool { return x.lag > 0 || x.rival }

// spell is the number of runs in a convergence with trouble.
const spell = 6

// converge brings the world to one desired graph, despite the trouble. It
// reports whether the plan was refused, or the run blocked for lack of pruning.
func (s *stage) converge(g *graph.Graph, prune bool, x disturbance) (refused bool) {
	s.wanted(g)
	before, owned, done := s.world.Writes(), s.world.Objects(Cluster, false), false
	for try := range spell + 4 {
		s.world.Revive()
		s.setFaults(x, try < spell)
		lagging := x.isBlind() && try < spell
		p, err := s.plan(g, prune)
		switch {
		case errors.Is(err, ErrDead):
			s.tally.crashes++
			continue
		case mayRefuse(err, x) && lagging:
			continue // the planner may see outdated state; it observes again
		case mayRefuse(err, x):
			if !x.isBlind() && s.world.Writes() != before {
				s.failf("refused after something was done: %v", err)
			}
			s.tally.refused++
			return true
		case err != nil:
			s.failf("%v", err)
		case done, p.Empty() && !lagging:
			s.checkSettled(g, p)
			if !prune {
				s.checkStayed(g, owned)
			}
			return false
		}
		if lagging && x.rival {
			err = s.race(g, p, prune)
		} else {
			err = s.run(g, p)
		}
		s.checkForeignUntouched()
		switch {
		case err == nil && !x.isBlind() && !x.crash:
			x, done = disturbance{}, true // one run was enough: nothing may remain to be done
		case err == nil, lagging && !errors.Is(err, ErrDead):
		case x.crash && errors.Is(err, ErrDead):
			s.tally.crashes++
			if x.fickle && s.rand.IntN(3) == 0 {
				s.tally.abandoned++
				return false
			}
		case len(p.Deferred) > 0 && isBlocked(err):
			s.tally.blocked++
			return true
		default:
			s.failf("run %d: %v", try, err)
		}
	}
	s.failf("no convergence")
	return false
}

// setFaults sets the faults of the next calls.
func (s *stage) setFaults(x disturbance, on bool) {
	s.world.Fault, s.world.Stale = nil, nil
	if !on {
		return
	}
	dieAt, after, writes := -1, false, 0
	if x.crash {
		dieAt, after = s.rand.IntN(12), s.rand.IntN(2) == 0
	}
	s.world.Fault = func(c Call) Outcome {
		if c.Verb != "list" && c.Verb != "ready" {
			writes++
			if writes-1 == dieAt {
				if after {
					return DieAfter
				}
				return DieBefore
			}
		}
		if c.Nth%5 == 0 {
			return OK // no retry loop runs forever
		}
		switch p := s.chance(c); {
		case p < x.throttle:
			s.tally.throttled++
			return Throttle
		case p < x.throttle+x.lose/2:
			s.tally.lost++
			return LoseBefore
		case p < x.throttle+x.lose:
			s.tally.lost++
			return LoseAfter
		}
		return OK
	}
	if x.lag > 0 {
		s.world.Stale = func(kind string) int {
			s.tally.stale++
			return s.rand.IntN(x.lag + 1)
		}
	}
}

// disturbances are the kinds of trouble that the seeds are spread over.
func disturbances() []disturbance {
	return []disturbance{
		{}, {throttle: 0.1}, {lose: 0.15}, {throttle: 0.1, lose: 0.1}, {crash: true, fickle: true}, {crash: true, fickle: true, throttle: 0.1, lose: 0.1}, {lag: 4}, {crash: true, fickle: true, lose: 0.1, lag: 4},
		{rival: true}, {rival: true, crash: true, lose: 0.1},
	}
}

// addLeftovers adds leftovers of interrupted runs to the world.
func (s *stage) addLeftovers() {
	if s.rand.IntN(4) > 0 {
		return
	}
	s.world.Put(Cluster, NewTemplate(Template{Name: fmt.Sprint("t", s.rand.IntN(2)), Image: fmt.Sprint("image", s.rand.IntN(3)), Version: 1}))
	s.world.Put(Cluster, NewVolume(Volume{Name: fmt.Sprint("v", s.rand.IntN(2)), Zone: fmt.Sprint("z", s.rand.IntN(2)), Size: 1, Type: "ssd"}))
}

func TestConverge(t *testing.T) {
	var count tally
	for seed := *first; seed < *first+*seeds; seed++ {
		synctest.Test(t, func(t *testing.T) { newStage(t, seed, &count).runLife() })
		if t.Failed() {
			return
		}
	}
	t.Logf("%+v", count)
	v := reflect.ValueOf(count)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 && *seeds >= 500 {
			t.Errorf("no seed met %s", v.Type().Field(i).Name)
		}
	}
}

// runLife takes a world through some edits and then deletes the cluster.
func (s *stage) runLife() {
	x := disturbances()[s.seed%uint64(len(disturbances()))]
	want := &graphBuilder{Rand: s.rand, shared: s.shared}
	for range 4 {
		s.addLeftovers()
		g, prune := want.graph(), s.rand.IntN(2) == 0
		if s.converge(g, prune, x) && !prune {
			s.tally.pruned++
			s.converge(g, true, x)
		}
	}
	g := &graph.Graph{}
	x.fickle = false
	if s.converge(g, true, x) {
		s.failf("the deletion was refused")
	}
	if left := s.world.Objects(Cluster, false); len(left) > 0 {
		s.failf("the deletion left %v", left)
	}
}
