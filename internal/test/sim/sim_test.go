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

// stage is one seed's world and what has happened in it.
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

// tally counts what the seeds met, so that a simulator that meets nothing fails.
type tally struct {
	runs, rivals, crashes, abandoned, blocked, lost, throttled, refused, pruned, stale, replaced, updated int
}

func newStage(t *testing.T, seed uint64, count *tally) *stage {
	s := &stage{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), world: NewWorld(), kinds: Kinds(), tally: count}
	// Others' objects bear the names that the cluster uses.
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

// chance is a number in [0,1) that depends on the seed and the call alone, not
// on the order in which calls happen to be made.
func (s *stage) chance(c Call) float64 {
	sum := sha256.Sum256(fmt.Append(nil, s.seed, c))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}

// plan observes the world and makes a plan. Now and then it makes the plan again
// from listings in another order, which must be the same.
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
			s.needed(st)
		}
		if st.Op == plan.Update {
			s.tally.updated++
		}
	}
	return s.world.Executor(Clock(), observe.Scopes(Cluster, g, false)).Run(s.Context(), p)
}

// race runs the plan beside another one that was made of the same world.
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
		// Whether it succeeds is nobody's business: what it leaves is.
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

// trouble is what the worlds of the seeds do to a run.
type trouble struct {
	throttle, lose float64
	crash          bool // each run dies at some write, for a while
	fickle         bool // after a crash the user may want something else
	lag            int  // listings are up to so many writes old, for a while
	rival          bool // another run does the same at the same time, for a while
}

// blind reports whether what a run does may rest on what is not so any more.
func (x trouble) blind() bool { return x.lag > 0 || x.rival }

// spell is how many runs of a convergence trouble lasts.
const spell = 6

// converge takes the world to one desired graph, through the trouble. It
// reports whether the plan was refused, or the run blocked for lack of pruning.
func (s *stage) converge(g *graph.Graph, prune bool, x trouble) (refused bool) {
	s.wanted(g)
	before, owned, done := s.world.Writes(), s.world.Objects(Cluster, false), false
	for try := range spell + 4 {
		s.world.Revive()
		s.troubled(x, try < spell)
		lagging := x.blind() && try < spell
		p, err := s.plan(g, prune)
		switch {
		case errors.Is(err, ErrDead):
			s.tally.crashes++
			continue
		case mayRefuse(err, x) && lagging:
			continue // the planner may see what is not so any more; it looks again
		case mayRefuse(err, x):
			if !x.blind() && s.world.Writes() != before {
				s.failf("refused after something was done: %v", err)
			}
			s.tally.refused++
			return true
		case err != nil:
			s.failf("%v", err)
		case done, p.Empty() && !lagging:
			s.settle(g, p)
			if !prune {
				s.stayed(g, owned)
			}
			return false
		}
		if lagging && x.rival {
			err = s.race(g, p, prune)
		} else {
			err = s.run(g, p)
		}
		s.untouched()
		switch {
		case err == nil && !x.blind() && !x.crash:
			x, done = trouble{}, true // one run was enough: nothing may be left to do
		case err == nil, lagging && !errors.Is(err, ErrDead):
		case x.crash && errors.Is(err, ErrDead):
			s.tally.crashes++
			if x.fickle && s.rand.IntN(3) == 0 {
				s.tally.abandoned++
				return false
			}
		case len(p.Deferred) > 0 && blocked(err):
			s.tally.blocked++
			return true
		default:
			s.failf("run %d: %v", try, err)
		}
	}
	s.failf("no convergence")
	return false
}

// troubled sets what befalls the next calls.
func (s *stage) troubled(x trouble, on bool) {
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
			return OK // nobody asks for ever
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

// troubles are the sorts of weather that the seeds are spread over.
func troubles() []trouble {
	return []trouble{
		{}, {throttle: 0.1}, {lose: 0.15}, {throttle: 0.1, lose: 0.1}, {crash: true, fickle: true}, {crash: true, fickle: true, throttle: 0.1, lose: 0.1}, {lag: 4}, {crash: true, fickle: true, lose: 0.1, lag: 4},
		{rival: true}, {rival: true, crash: true, lose: 0.1},
	}
}

// twins puts what interrupted runs left over into the world.
func (s *stage) twins() {
	if s.rand.IntN(4) > 0 {
		return
	}
	s.world.Put(Cluster, NewTemplate(Template{Name: fmt.Sprint("t", s.rand.IntN(2)), Image: fmt.Sprint("image", s.rand.IntN(3)), Version: 1}))
	s.world.Put(Cluster, NewVolume(Volume{Name: fmt.Sprint("v", s.rand.IntN(2)), Zone: fmt.Sprint("z", s.rand.IntN(2)), Size: 1, Type: "ssd"}))
}

func TestConverge(t *testing.T) {
	var count tally
	for seed := *first; seed < *first+*seeds; seed++ {
		synctest.Test(t, func(t *testing.T) { newStage(t, seed, &count).live() })
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

// live takes a world through some edits and then through its deletion.
func (s *stage) live() {
	x := troubles()[s.seed%uint64(len(troubles()))]
	want := &desire{Rand: s.rand, shared: s.shared}
	for range 4 {
		s.twins()
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
