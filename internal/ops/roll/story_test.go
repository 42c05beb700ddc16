package roll

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/api"
)

var update = flag.Bool("update", false, "rewrite the stories in testdata")

// TestStories compares rollouts, step by step, with testdata/stories.txtar.
func TestStories(t *testing.T) {
	const file = "testdata/stories.txtar"
	a := &txtar.Archive{Comment: []byte("What Step decides, and what becomes of it. Lines that are indented are Step's; `go test -update` rewrites them.\n\n")}
	for _, s := range stories() {
		a.Files = append(a.Files, txtar.File{Name: s.name, Data: []byte(s.run(t))})
	}
	got := txtar.Format(a)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Error(d)
	}
}

// story is a rollout of a small cluster in which nothing is left to chance.
type story struct {
	name    string
	groups  []*wgroup
	refills bool
	options func(*Options)
	plan    func(*wgroup, *Plan)
	effect  Effect
	// happens is what happens in the world, and what the user wants.
	happens func(s *scene)
}

func stories() []story {
	return []story{
		{name: "a surge of one", groups: []*wgroup{nodes("nodes", 2)}, refills: true, plan: budget(1, 0)},
		{name: "one may be missing, and the platform makes no machines by itself", groups: []*wgroup{nodes("nodes", 2)}, plan: budget(0, 1)},
		{name: "control planes go one at a time, the broken one first", groups: []*wgroup{controlPlane("cp-a"), controlPlane("cp-b"), controlPlane("cp-c")}, refills: true, plan: budget(0, 1),
			happens: func(s *scene) {
				m := s.w.groups[1].machines[0]
				m.ready, m.etcdSick = false, true
			}},
		{name: "the successor of the canary never joins", groups: []*wgroup{nodes("nodes", 3)}, refills: true, plan: budget(2, 0),
			happens: func(s *scene) { s.w.groups[0].never = func() bool { return true } }},
		{name: "a quota forbids the machine more, and is raised", groups: []*wgroup{nodes("nodes", 2)}, refills: true, plan: budget(1, 0),
			happens: func(s *scene) {
				s.w.groups[0].quota = "the limit is 2 machines"
				s.w.after(5*time.Minute, func() { s.w.groups[0].quota = ""; s.w.order(s.w.groups[0]) })
			}},
		{name: "a quota forbids the machine more, and stays", groups: []*wgroup{nodes("nodes", 2)}, refills: true, plan: budget(1, 0),
			happens: func(s *scene) { s.w.groups[0].quota = "the limit is 2 machines" }},
		{name: "a budget forbids a drain, and the user skips the machine", groups: []*wgroup{nodes("nodes", 2)}, refills: true, plan: budget(0, 1),
			options: func(o *Options) { o.Ask = true },
			happens: func(s *scene) {
				s.w.groups[0].machines[0].blocked = s.w.now.Add(100 * time.Hour)
				s.w.after(20*time.Minute, func() {
					s.requests = append(s.requests, Request{Want: Reply, Question: "drain/nodes-1", Answer: Skip})
				})
			}},
		{name: "a budget forbids a drain, and nobody can be asked", groups: []*wgroup{nodes("nodes", 2)}, refills: true, plan: budget(1, 0),
			happens: func(s *scene) { s.w.groups[0].machines[0].blocked = s.w.now.Add(100 * time.Hour) }},
		{name: "paused while a successor boots, and resumed", groups: []*wgroup{nodes("nodes", 1)}, refills: true, plan: budget(1, 0),
			happens: func(s *scene) {
				s.w.after(time.Minute, func() { s.sendRequest(Pause) })
				s.w.after(10*time.Minute, func() { s.sendRequest(Resume) })
			}},
		{name: "aborted while a machine is drained", groups: []*wgroup{nodes("nodes", 3)}, refills: true, plan: budget(0, 1),
			happens: func(s *scene) {
				s.w.groups[0].machines[0].blocked = s.w.now.Add(100 * time.Hour)
				s.w.after(5*time.Minute, func() { s.sendRequest(Abort) })
			}},
		{name: "what an earlier rollout detached goes first", groups: []*wgroup{nodes("nodes", 3)}, refills: true, plan: budget(1, 0),
			happens: func(s *scene) {
				s.w.groups[0].machines[1].detached, s.w.groups[0].target = true, 2
			}},
		{name: "restarted in place", groups: []*wgroup{nodes("nodes", 3)}, plan: budget(1, 0), effect: Restart},
	}
}

func nodes(name string, n int) *wgroup {
	return &wgroup{name: name, role: api.RoleNode, target: n, refill: 5 * time.Second, boot: func() time.Duration { return 2 * time.Minute }, never: func() bool { return false }}
}

func controlPlane(name string) *wgroup {
	g := nodes(name, 1)
	g.role = api.RoleControlPlane
	return g
}

func budget(surge, unavailable int) func(*wgroup, *Plan) {
	return func(_ *wgroup, p *Plan) { p.Surge, p.Unavailable, p.Revision = surge, unavailable, 7 }
}

// run runs a story, and returns what happened.
func (y story) run(t *testing.T) string {
	rng := rand.New(rand.NewPCG(1, 1))
	s := &scene{w: newWorld(rng), rng: rng, calm: true}
	s.w.refills, s.w.groups = y.refills, y.groups
	for _, g := range y.groups {
		for range g.target {
			s.w.add(g, true)
		}
	}
	if y.happens != nil {
		y.happens(s)
	}
	o := Defaults()
	if y.options != nil {
		y.options(&o)
	}
	effect := Replace
	if y.effect != "" {
		effect = y.effect
	}
	s.d = newDriver(s.w, New(y.name, o, s.w.plans(func(*wmachine) Effect { return effect }, y.plan), s.w.view()))
	s.check = newChecker(s)
	s.check.silence = true
	if err := s.run(); err != nil {
		t.Errorf("%s: %v", y.name, err)
	}
	end := fmt.Sprintf("%s ended", s.w.now.Format("15:04:05"))
	for _, g := range s.d.stored.Groups {
		if g.Stopped != nil && g.Stopped.Canary {
			end += fmt.Sprintf("; group %s had better go back to revision %d", g.Name, g.Revision)
		}
	}
	return strings.Join(append(s.w.history, end), "\n") + "\n"
}
