package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/test/enginetest"
	"kops.local/kops/internal/test/modeltest"
)

// project is the engine on an emulated project.
type project struct {
	*enginetest.Engine
	*emulatortest.Cloud
}

func newProject(t *testing.T, o emulator.Options) project {
	cloud := emulatortest.Start(t, o)
	c := kinds.NewClient(hetznerapi.New(hetznerapi.Config{Endpoint: cloud.URL, Token: "token", HTTP: cloud.HTTP, Pause: cloud.Sleep}))
	return project{&enginetest.Engine{TB: t, Client: func() any { return c }, Snapshot: func() any { return c.Snapshot() }, Kinds: kinds.All(), Clock: cloud.ForEngine()}, cloud}
}

// expectNoChange checks that an update would change nothing.
func (p project) expectNoChange(in platform.Model, g *graph.Graph) {
	p.TB.Helper()
	if changes := enginetest.Changes(p.Plan(in.Cluster.Name, g, false)); len(changes) > 0 {
		p.TB.Errorf("%s: an update would %s", in.Cluster.Name, strings.Join(changes, "\n"))
	}
}

// remove deletes a cluster, except for what it shares.
func (p project) remove(in platform.Model) {
	p.TB.Helper()
	shared := &graph.Graph{}
	if id := in.Cluster.Spec.Networking.NetworkID; id != "" {
		if err := shared.Add(kinds.Networks.Adopt(id, id, kinds.Network{})); err != nil {
			p.TB.Fatal(err)
		}
	}
	p.Apply(in.Cluster.Name, shared, true)
}

// TestClustersAreMadeKeptAndDeleted creates the cluster of each transcript, checks that it needs no
// further changes, and deletes it.
func TestClustersAreMadeKeptAndDeleted(t *testing.T) {
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "refused") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := read(t, aCluster().Documents(t, modeltest.Sections(archive)))
			p := newProject(t, emulator.Options{})
			if id := in.Cluster.Spec.Networking.NetworkID; id != "" {
				others := &graph.Graph{}
				if err := others.Add(kinds.Networks.New(id, kinds.Network{Name: id, CIDR: in.Cluster.Spec.Networking.NetworkCIDR, Zone: "eu-central", Labels: kinds.Labels{}})); err != nil {
					t.Fatal(err)
				}
				p.Apply("others.example.com", others, false)
			}
			before, g := p.Inventory(), built(t, in)
			p.Apply(in.Cluster.Name, g, false)
			p.expectNoChange(in, g)
			p.remove(in)
			if left := p.Inventory(); !slices.Equal(left, before) {
				t.Errorf("there is left %v", left)
			}
		})
	}
}

// named returns the transcripts' base cluster under a name.
func named(t *testing.T, name string) platform.Model {
	t.Helper()
	return read(t, aCluster().Documents(t, map[string]string{"name": name}))
}

// Wherever an update was interrupted, the next one completes it, and a deletion leaves nothing of it.
func TestInterruptedUpdates(t *testing.T) {
	in := named(t, "a.example.com")
	for n := 1; ; n++ {
		p, g := newProject(t, emulator.Options{}), built(t, in)
		whole := p.Plan(in.Cluster.Name, g, false)
		if n > len(whole.Steps) {
			break
		}
		cut := &plan.Plan{Steps: whole.Steps[:n]}
		if err := p.Carry(in.Cluster.Name, g, cut, false); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			p.Apply(in.Cluster.Name, g, false)
			p.expectNoChange(in, g)
		}
		p.remove(in)
		if left := p.Inventory(); len(left) > 0 {
			t.Fatalf("after %d steps, to %s, there is left %v", n, whole.Steps[n-1].Address, left)
		}
	}
}

// Each write loses its response once, in turn: nothing is created twice, and nothing is left.
func TestLostResponses(t *testing.T) {
	in := named(t, "a.example.com")
	in.SSHKeys = []string{testSSHKey}
	for n := 1; ; n++ {
		p, g := newProject(t, emulator.Options{}), built(t, in)
		p.Inject(standin.Fault{When: standin.Lost, Skip: n - 1})
		p.Apply(in.Cluster.Name, g, false)
		p.expectNoChange(in, g)
		if got, want := len(p.Servers()), 3; got != want {
			t.Errorf("without the response to write %d, there are %d servers", n, got)
		}
		writes := 0
		for method, count := range p.Requests() {
			if !strings.HasPrefix(method, "GET") {
				writes += count
			}
		}
		p.remove(in)
		if left := p.Inventory(); len(left) > 0 {
			t.Fatalf("without the response to write %d, there is left %v", n, left)
		}
		if n > writes {
			break
		}
	}
}

// A cluster is deleted beside others, which stay as they are, even if they have the same SSH key.
func TestNeighboursStay(t *testing.T) {
	p := newProject(t, emulator.Options{})
	names := []string{"a.example.com", "a.example.com.au", "xa.example.com"}
	models, graphs := map[string]platform.Model{}, map[string]*graph.Graph{}
	for _, n := range names {
		models[n] = named(t, n)
		graphs[n] = built(t, models[n])
		p.Apply(n, graphs[n], false)
	}
	for _, n := range names {
		p.remove(models[n])
		delete(models, n)
		for other, in := range models {
			p.expectNoChange(in, graphs[other])
		}
	}
	if left := p.Inventory(); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

// A project whose requests are used up, and whose reads lag behind, gets its cluster.
func TestASlowProject(t *testing.T) {
	in := named(t, "a.example.com")
	p, g := newProject(t, emulator.Options{Rate: 3600}), built(t, in)
	for range 3600/6 - 2 {
		p.Plan("none", &graph.Graph{}, false)
	}
	p.Apply(in.Cluster.Name, g, false)
	if p.Requests()["POST /servers"] == 3 {
		t.Errorf("the limit was not reached: %v", p.Requests())
	}
	p.expectNoChange(in, g)
	p.remove(in)
	if left := p.Inventory(); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
	lagging := newProject(t, emulator.Options{})
	lagging.SetLag(time.Second)
	lagging.Apply(in.Cluster.Name, g, false)
	if err := lagging.Sleep(t.Context(), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	lagging.expectNoChange(in, g)
}

// A change of a field that would need a new object says what to undo.
func TestForbiddenChanges(t *testing.T) {
	in := named(t, "a.example.com")
	p, g := newProject(t, emulator.Options{}), built(t, in)
	p.Apply(in.Cluster.Name, g, false)
	for spec, want := range map[string]string{
		"subnets: [{name: fsn1, zone: hel1, type: Public}]": "undo the change",
		"networkCIDR: 10.1.0.0/16":                          "CIDR cannot change",
	} {
		have, err := p.Observer(p.Snapshot()).Snapshot(t.Context(), in.Cluster.Name, kinds.All(), g, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = plan.Make(built(t, changedCluster(t, spec)), have, kinds.All(), plan.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// The kinds have no mistakes in their declarations.
func TestKindsAreComplete(t *testing.T) {
	for _, k := range kinds.All() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if k.Phase() == resource.Cluster && k.KindAPI() != "hcloud" {
			t.Error(k.KindName())
		}
	}
}
