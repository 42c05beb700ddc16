package model

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/test/modeltest"
)

// stopwatch is a clock that goes on when somebody sleeps.
type stopwatch struct {
	mu  sync.Mutex
	now time.Time
}

func (s *stopwatch) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stopwatch) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	return ctx.Err()
}

type noJournal struct{}

func (noJournal) Begin(context.Context, plan.Step) error      { return nil }
func (noJournal) End(context.Context, plan.Step, error) error { return nil }

// account is a stand-in of Google's cloud, and a client of it.
type account struct {
	*testing.T
	clock *stopwatch
	c     *kinds.Client
}

func newAccount(t *testing.T) account {
	clock := &stopwatch{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	e, err := emulator.New(emulator.Options{Now: clock.time, Sleep: clock.sleep, Latency: 2 * time.Second, Boot: 9 * time.Second,
		DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}},
		Buckets:  []emulator.Bucket{{Name: "state"}, {Name: "keys"}, {Name: "backups"}},
		OnWrong:  func(err error) { t.Errorf("the emulator is wrong: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	api, err := gceapi.Connect(t.Context(), gceapi.Config{Project: "testproject", Region: "us-test1", Endpoint: server.URL, HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: clock.sleep})
	if err != nil {
		t.Fatal(err)
	}
	c := kinds.NewClient(*api)
	c.Buckets = []string{"state", "keys", "backups"}
	return account{t, clock, c}
}

func (a account) plan(cluster string, g *graph.Graph, all bool) *plan.Plan {
	a.Helper()
	o := &observe.Observer{Client: func(string) any { return a.c.Snapshot() }, Sleep: a.clock.sleep}
	have, err := o.Snapshot(a.Context(), cluster, kinds.All(), g, all)
	if err != nil {
		a.Fatal(err)
	}
	p, err := plan.Make(g, have, kinds.All(), plan.Options{Prune: all})
	if err != nil {
		a.Fatal(err)
	}
	return p
}

func (a account) carry(cluster string, g *graph.Graph, all bool) {
	a.Helper()
	scopes := observe.Scopes(cluster, g, all)
	o := &observe.Observer{Client: func(string) any { return a.c }, Sleep: a.clock.sleep}
	x := &exec.Executor{
		Client: func(string) any { return a.c }, Journal: noJournal{}, Limits: exec.NewLimits(nil, 4),
		Clock: exec.Clock{Now: a.clock.time, Sleep: a.clock.sleep, Jitter: func() float64 { return 0.5 }},
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return o.List(ctx, k, scopes(k.KindName()))
		}}
	if err := x.Run(a.Context(), a.plan(cluster, g, all)); err != nil {
		a.Fatal(err)
	}
}

func changes(p *plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Op != plan.Keep {
			out = append(out, fmt.Sprintf("%s %s %+v", s.Op, s.Address, s.Changes))
		}
	}
	for _, s := range p.Deferred {
		out = append(out, "deferred "+s.Address.String())
	}
	return out
}

// TestClustersAreMadeKeptAndDeleted makes the cluster of each transcript, finds that nothing of it
// is to be changed, and deletes it.
func TestClustersAreMadeKeptAndDeleted(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "refused") || name == "shared" || name == "long_names" {
			continue // a network of another project is not played, and the label of a long name is too long
		}
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := read(t, aCluster().Documents(t, modeltest.Sections(archive)))
			in.Facts.Of("gce").DNSZones[0].ID = "example"
			g := &graph.Graph{}
			if err := Build(in, g); err != nil {
				t.Fatal(err)
			}
			a := newAccount(t)
			if id := in.Cluster.Spec.Networking.NetworkID; id != "" {
				others := &graph.Graph{}
				if err := others.Add(kinds.Networks.New(id, kinds.Network{Name: id})); err != nil {
					t.Fatal(err)
				}
				a.carry("others.example.com", others, false)
			}
			cluster := in.Cluster.Name
			a.carry(cluster, g, false)
			if c := changes(a.plan(cluster, g, false)); len(c) > 0 {
				t.Errorf("made, and yet to be changed: %s", strings.Join(c, ", "))
			}
			shared := g.Select(func(n resource.Node) bool { return n.Adopt != "" })
			a.carry(cluster, shared, true)
			if c := changes(a.plan(cluster, shared, true)); len(c) > 0 {
				t.Errorf("deleted, and yet there: %s", strings.Join(c, ", "))
			}
		})
	}
}
