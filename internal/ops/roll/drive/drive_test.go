package drive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/drive"
	"kops.local/kops/internal/test/kubetest"
)

func TestDrive(t *testing.T) {
	config := kubetest.Start(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *rest.Config)
	}{
		{"a whole rollout", testWhole},
		{"drivers are ended at each phase of a machine", testKilled},
		{"etcd is asked", testEtcd},
		{"in place", testInPlace},
		{"a machine that never joins", testMute},
		{"a budget that blocks", testBudget},
		{"paused, resumed and aborted", testRequests},
		{"interrupted before it begins", testInterruptedFirst},
		{"a gate that fails for a while", testGate},
		{"a platform that does not refill", testUpdates},
		{"a lease that is lost", testLost},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, config) })
	}
}

// checkAllReplaced checks that all machines of a group were replaced, and that no node without a
// machine is left.
func (w *world) checkAllReplaced(s roll.State, old []string) {
	w.Helper()
	if s.Ended.IsZero() || s.Stopped != nil {
		w.Fatalf("it has not ended well: %+v", s.Stopped)
	}
	for _, g := range s.Groups {
		if g.Stopped != nil {
			w.Errorf("group %s stopped: %s", g.Name, g.Stopped.Why)
		}
		for _, m := range g.Machines {
			if m.Phase != roll.Done {
				w.Errorf("%s is %s", m.Name, m.Phase)
			}
		}
	}
	w.await("the nodes of machines that are gone to go", func() bool {
		list, err := w.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		w.must(err)
		want := 0
		for _, n := range w.targets {
			want += n
		}
		return len(list.Items) == want && !slices.ContainsFunc(old, func(name string) bool {
			_, err := w.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
			return err == nil
		})
	})
	list, err := w.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, n := range list.Items {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			w.Errorf("node %s is left cordoned or tainted: %+v", n.Name, n.Spec)
		}
	}
}

func testWhole(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("control-plane", api.RoleControlPlane, 3)
	w.group("nodes", api.RoleNode, 3)
	old := slices.Concat(w.names("control-plane"), w.names("nodes"))
	for i, node := range w.names("nodes") {
		w.pod("default", fmt.Sprintf("app-%d", i), node, map[string]string{"app": "shop"})
	}
	s, err := w.drive(w.begin(options(), roll.Replace, 1, 0), nil)
	w.must(err)
	w.checkAllReplaced(s, old)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fewest["nodes"] < 3 || w.fewest["control-plane"] < 2 {
		t.Errorf("at the worst %v machines were ready", w.fewest)
	}
	if w.saved.Ended.IsZero() {
		t.Error("the end is not kept")
	}
}

// testInterruptedFirst interrupts the first look while the API server does not answer.
func testInterruptedFirst(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 1)
	ctx, stop := context.WithCancel(t.Context())
	c := w.config()
	c.Server = func(context.Context) (health.Observation, error) {
		stop()
		return health.Observation{Problem: &health.Failure{Kind: health.KindAPI}}, nil
	}
	d := drive.Start(w.Context(), c)
	defer d.Stop()
	if _, err := d.First(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// testEtcd rolls control planes while a member's pods are ready, but etcd reports that it is not
// healthy yet; until it is, no other control plane is taken.
func testEtcd(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	groups := []string{"control-a", "control-b", "control-c"}
	var old []string
	for _, g := range groups {
		w.group(g, api.RoleControlPlane, 1)
		old = append(old, w.names(g)...)
	}
	const sick = 2 * time.Minute
	var mu sync.Mutex
	var left, done time.Time // when the first was taken, and when it was done
	s, err := w.drive(w.begin(options(), roll.Replace, 0, 1), func(c *drive.Config, _ context.CancelFunc) {
		c.Etcd = func(context.Context) (drive.EtcdReport, error) {
			mu.Lock()
			defer mu.Unlock()
			return drive.EtcdReport{"main": {groups[0]: left.IsZero() || w.Now().Sub(left) > sick, groups[1]: true, groups[2]: true}}, nil
		}
		c.OnChange = func(_, s roll.State) {
			mu.Lock()
			defer mu.Unlock()
			m := s.Groups[0].Machines[0]
			if m.Phase != roll.Pending && left.IsZero() {
				left = w.Now()
			}
			if m.Phase == roll.Done && done.IsZero() {
				done = w.Now()
			}
			if m.Phase != roll.Done && (s.Groups[1].Machines[0].Phase != roll.Pending || s.Groups[2].Machines[0].Phase != roll.Pending) {
				t.Errorf("while %s is %s, another is taken: %+v", m.Name, m.Phase, s.Groups)
			}
		}
	})
	w.must(err)
	w.checkAllReplaced(s, old)
	if took := done.Sub(left); took < sick {
		t.Errorf("etcd was waited for %v only", took)
	}
}

func testKilled(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("control-plane", api.RoleControlPlane, 3)
	w.group("nodes", api.RoleNode, 2)
	old := slices.Concat(w.names("control-plane"), w.names("nodes"))
	s := w.begin(options(), roll.Replace, 1, 0)
	seen := map[string]bool{} // phases, by role, at which a driver was stopped
	for drivers := 1; ; drivers++ {
		last, err := w.drive(s, func(cfg *drive.Config, kill context.CancelFunc) {
			cfg.OnChange = func(_, after roll.State) {
				for _, g := range after.Groups {
					for _, m := range g.Machines {
						if at := g.Name + " " + string(m.Phase); !seen[at] && !m.Phase.IsOver() && m.Phase != roll.Pending {
							seen[at] = true
							kill()
						}
					}
				}
			}
		})
		if err == nil {
			w.checkAllReplaced(last, old)
			break
		}
		if !errors.Is(err, context.Canceled) || drivers > 30 {
			t.Fatalf("driver %d: %v", drivers, err)
		}
		w.mu.Lock()
		s = w.saved // only what the store has
		w.mu.Unlock()
	}
	for _, want := range []string{"nodes surged", "nodes joined", "nodes cordoned", "nodes draining", "control-plane cordoned", "control-plane draining"} {
		if !seen[want] {
			t.Errorf("no driver was ended at %s; they were at %v", want, seen)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fewest["nodes"] < 2 || w.fewest["control-plane"] < 2 {
		t.Errorf("at the worst %v machines were ready", w.fewest)
	}
}

func testInPlace(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 2)
	before := w.names("nodes")
	s, err := w.drive(w.begin(options(), roll.Restart, 0, 1), nil)
	w.must(err)
	w.checkAllReplaced(s, nil)
	if after := w.names("nodes"); !slices.Equal(before, after) {
		t.Errorf("the machines are %v, and were %v", after, before)
	}
}

func testMute(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 2)
	old := w.names("nodes")
	o := options()
	o.ValidationTimeout = 2 * time.Minute
	begun := w.begin(o, roll.Replace, 1, 0)
	w.mu.Lock()
	w.mute = "it cannot fetch nodeup"
	w.mu.Unlock()
	s, err := w.drive(begun, nil)
	w.must(err)
	if s.Groups[0].Stopped == nil || !strings.Contains(s.Groups[0].Stopped.Why, "it cannot fetch nodeup") {
		t.Fatalf("stopped: %+v", s.Groups[0].Stopped)
	}
	for _, name := range old {
		n, err := w.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		w.must(err)
		if n.Spec.Unschedulable {
			t.Errorf("%s does not serve", name)
		}
	}
	if w.fewest["nodes"] < 2 {
		t.Errorf("capacity was lost: %v", w.fewest)
	}
}

// keep creates a budget that allows a number of evictions.
func (w *world) keep(app string, allowed int32) {
	w.Helper()
	budgets := w.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Get(w.Context(), app, metav1.GetOptions{})
	if err != nil {
		one := intstr.FromInt32(1)
		b, err = budgets.Create(w.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}, metav1.CreateOptions{})
		w.must(err)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	_, err = budgets.UpdateStatus(w.Context(), b, metav1.UpdateOptions{})
	w.must(err)
}

func testBudget(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 1)
	old := w.names("nodes")
	w.pod("default", "shop-1", old[0], map[string]string{"app": "shop"})
	w.keep("shop", 0)
	o := options()
	o.DrainTimeout, o.Ask = time.Minute, true
	var blocked, asked atomic.Bool
	s, err := w.drive(w.begin(o, roll.Replace, 1, 0), func(cfg *drive.Config, _ context.CancelFunc) {
		cfg.OnChange = func(_, after roll.State) {
			if m := after.Groups[0].Machines[0]; len(m.Blockers) > 0 && strings.HasPrefix(m.Blockers[0], "default/shop-1: ") {
				blocked.Store(true)
			}
		}
		cfg.Ask = func(_ context.Context, q roll.Question) (string, error) {
			asked.Store(true)
			if !slices.Contains(q.Choices, roll.Wait) || !slices.Contains(q.Choices, roll.Force) {
				t.Errorf("the choices are %v", q.Choices)
			}
			w.keep("shop", 1) // as its user would do
			return roll.Wait, nil
		}
	})
	w.must(err)
	w.checkAllReplaced(s, old)
	if !blocked.Load() || !asked.Load() {
		t.Errorf("what blocks was told: %v, and asked: %v", blocked.Load(), asked.Load())
	}
}

func testRequests(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 2)
	var mu sync.Mutex
	var requests []roll.Request
	read := 0 // how many of them were read
	request := func(what roll.Want) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, roll.Request{Want: what})
	}
	heard, pausedAt := 0, -1
	request(roll.Pause)
	s, err := w.drive(w.begin(options(), roll.Replace, 1, 0), func(cfg *drive.Config, _ context.CancelFunc) {
		cfg.Requests = func(context.Context) ([]roll.Request, error) {
			mu.Lock()
			defer mu.Unlock()
			read = len(requests)
			return slices.Clone(requests), nil
		}
		cfg.RequestsSaved = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			heard++
			requests, read = requests[read:], 0
			return nil
		}
		cfg.OnChange = func(_, after roll.State) {
			if !after.Paused || pausedAt >= 0 {
				return
			}
			under := slices.ContainsFunc(after.Groups[0].Machines, func(m roll.Machine) bool { return m.Phase != roll.Pending && !m.Phase.IsOver() })
			if !under { // everything that was begun is over
				pausedAt = 0
				request(roll.Abort)
			}
		}
	})
	w.must(err)
	if !s.Aborted || s.Ended.IsZero() || heard < 2 || pausedAt < 0 {
		t.Errorf("aborted %v, heard %d times, paused %d", s.Aborted, heard, pausedAt)
	}
}

func testGate(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 1)
	old := w.names("nodes")
	var asked atomic.Int32
	gate := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(out, "the shop is closed", http.StatusServiceUnavailable)
		}
	}))
	defer gate.Close()
	o := options()
	o.Gates = []roll.Gate{{Command: []string{"true"}}, {URL: gate.URL}}
	var told atomic.Bool
	s, err := w.drive(w.begin(o, roll.Replace, 1, 0), func(cfg *drive.Config, _ context.CancelFunc) {
		cfg.HTTP = gate.Client()
		cfg.OnChange = func(_, after roll.State) {
			if strings.Contains(after.Groups[0].Waits, "the shop is closed") {
				told.Store(true)
			}
		}
	})
	w.must(err)
	w.checkAllReplaced(s, old)
	if asked.Load() < 3 || !told.Load() {
		t.Errorf("the gate was asked %d times, and told %v", asked.Load(), told.Load())
	}
}

func testUpdates(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 2)
	w.refills = false
	old := w.names("nodes")
	s, err := w.drive(w.begin(options(), roll.Replace, 0, 1), nil)
	w.must(err)
	w.checkAllReplaced(s, old)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.updates) < 2 {
		t.Errorf("the cluster was updated %d times", len(w.updates))
	}
}

func testLost(t *testing.T, config *rest.Config) {
	w := newWorld(t, config)
	w.group("nodes", api.RoleNode, 1)
	old := w.names("nodes")
	lost := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg := w.config()
	cfg.OnChange = func(_, after roll.State) {
		if after.Groups[0].Machines[0].Phase == roll.Surged {
			cancel(lost)
		}
	}
	s := w.begin(options(), roll.Replace, 1, 0)
	d := drive.Start(ctx, cfg)
	_, err := d.Run(ctx, s)
	d.Stop()
	if !errors.Is(err, lost) {
		t.Errorf("it ended with %v", err)
	}
	if n, err := w.CoreV1().Nodes().Get(t.Context(), old[0], metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("the machine does not serve: %v", err)
	}
}

func TestGatesReportTheirOutput(t *testing.T) {
	err := drive.CheckGates(t.Context(), http.DefaultClient, []roll.Gate{{Command: []string{"sh", "-c", "echo no stock >&2; exit 3"}}})
	if err == nil || !strings.Contains(err.Error(), "no stock") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}
