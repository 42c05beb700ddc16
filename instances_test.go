package kops_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store"
)

// fleet is what the platform of a bench reports about its machines, by the group's name.
type fleet struct {
	outdated map[string]bool
	drifts   map[string]platform.Drift
	queries  int // how often it was queried how machines were created
}

// fleet makes the bench's platform report how its machines were created.
func (b *bench) fleet() *fleet {
	b.Helper()
	f := &fleet{outdated: map[string]bool{}, drifts: map[string]platform.Drift{}}
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		machines := p.Fleet.Machines
		p.Fleet.Machines = func(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
			all, err := machines(ctx, s, c, groups)
			for i := range all {
				for j := range all[i].Machines {
					all[i].Machines[j].Outdated = f.outdated[all[i].Name]
				}
			}
			return all, err
		}
		p.Fleet.Roll.Surge = 1
		p.Fleet.Roll.Drift = func(_ context.Context, _ *platform.Session, _ *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
			f.queries++
			out := map[string]platform.Drift{}
			for _, m := range asked {
				if made, ok := f.drifts[m.Group]; ok {
					out[m.Name] = made
				}
			}
			return out, nil
		}
		p.Lookup.Endpoint = func(context.Context, *platform.Session, *api.Cluster) (string, error) { return "", nil }
	})
	b.Client = b.client(func(*kops.Config) {})
	return f
}

// configOf returns the workers' node configuration that was applied last.
func (b *bench) configOf(group string) []byte {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL+"/"+name)
	if err != nil {
		b.Fatal(err)
	}
	data, _, err := s.Get(b.Context(), "igconfig/node/"+group+"/nodeupconfig.yaml")
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// formatAftermath returns what remains to be done after an update, one line per group.
func formatAftermath(u *kops.Update) string {
	if u.Aftermath == nil {
		return "nothing"
	}
	var out []string
	for _, g := range u.Aftermath.Groups {
		var why []string
		for _, r := range g.Reasons {
			why = append(why, r.String()+" "+string(r.Effect))
		}
		out = append(out, fmt.Sprintf("%s %s %d/%d [%s]", g.Group, g.Effect, g.Machines, g.Count, strings.Join(why, ", ")))
	}
	return strings.Join(out, "; ") + fmt.Sprintf("; %d+%d %dmin%s", u.Aftermath.Restarts, u.Aftermath.Replaces, u.Aftermath.Minutes, u.Aftermath.Unknown)
}

// TestAnUpdateSaysWhatMachinesNeed previews changes of each effect.
func TestAnUpdateSaysWhatMachinesNeed(t *testing.T) {
	b := newBench(t)
	b.fleet()
	b.describe(func(o *kops.NewClusterOptions) {})
	if u := b.apply(kops.UpdateOptions{}); u.Aftermath != nil {
		t.Errorf("a first update says %s", formatAftermath(u))
	}
	if u := b.preview(kops.UpdateOptions{}); u.Aftermath != nil {
		t.Errorf("an update without changes says %s", formatAftermath(u))
	}
	const idle = "control-plane-here none 0/1 []; "
	for _, c := range []struct{ object, set, want string }{
		{"nodes-here", "spec.machineType=big", idle + "nodes-here replace 2/2 [spec.machineType small -> big replace]; 0+2 4min"},
		{"nodes-here", "spec.kubelet.maxPods=50", idle + "nodes-here restart 2/2 [spec.kubelet.maxPods -> 50 restart]; 2+0 1min"},
		{"nodes-here", "spec.taints=a=b:NoSchedule", idle + "nodes-here live 0/2 [spec.taints -> a=b:NoSchedule live]; 0+0 0min"},
		{"nodes-here", "spec.maxSize=1 spec.minSize=1", idle + "nodes-here live 0/2 [spec.maxSize 2 -> 1 live, spec.minSize 2 -> 1 live]; 0+0 0min"},
		{name, "spec.metricsServer.enabled=true", "control-plane-here restart 1/1 [spec.kubeAPIServer.enableAggregatorRouting -> true restart]; nodes-here none 0/2 []; 1+0 1min"},
	} {
		b := newBench(t)
		b.fleet()
		b.describe(func(o *kops.NewClusterOptions) {})
		b.apply(kops.UpdateOptions{})
		b.set(c.object, strings.Fields(c.set)...)
		if got := formatAftermath(b.preview(kops.UpdateOptions{})); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.set, got, c.want)
		}
	}
}

// TestASizeThatDriftedReplacesNoMachine: a missing machine is recreated, and the others stay.
func TestASizeThatDriftedReplacesNoMachine(t *testing.T) {
	b := newBench(t)
	b.fleet()
	b.describe(func(o *kops.NewClusterOptions) {})
	b.apply(kops.UpdateOptions{})
	b.set("nodes-here", "spec.maxSize=3", "spec.minSize=3")
	b.apply(kops.UpdateOptions{})
	if u := b.preview(kops.UpdateOptions{}); u.Summary() != "No changes need to be applied" {
		t.Errorf("at rest an update says %q", u.Summary())
	}
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	end := inside[platform.Provider](b.world.Provider()).Fleet.Roll.Terminate
	if err := end(t.Context(), &platform.Session{}, c.Spec, platform.Machine{Name: "nodes-here-2", Group: "nodes-here"}); err != nil {
		t.Fatal(err)
	}
	u := b.preview(kops.UpdateOptions{})
	if got, want := formatAftermath(u), "control-plane-here none 0/1 []; nodes-here none 0/2 []; 0+0 0min"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := u.Summary(), "Changes to apply: 1 modified"; got != want {
		t.Errorf("a preview says %q, want %q", got, want)
	}
	if got, want := b.apply(kops.UpdateOptions{}).Summary(), "Applied: 1 modified"; got != want {
		t.Errorf("an update says %q, want %q", got, want)
	}
}

// TestAnotherDockerConfigReachesMachinesInPlace: image pull credentials are part of a machine's configuration.
func TestAnotherDockerConfigReachesMachinesInPlace(t *testing.T) {
	b := newBench(t)
	b.fleet()
	b.describe(func(o *kops.NewClusterOptions) {})
	b.apply(kops.UpdateOptions{})
	for _, text := range []string{`{"auths":{"a":{}}}`, `{"auths":{"b":{}}}`} {
		if _, err := b.Secrets(nil).Create(t.Context(), name, kops.SecretDockerConfig, []byte(text), true); err != nil {
			t.Fatal(err)
		}
		if got := formatAftermath(b.apply(kops.UpdateOptions{})); strings.Count(got, "[secret dockerconfig ") != 2 || !strings.HasSuffix(got, "; 3+0 2min") {
			t.Errorf("another secret leaves %s", got)
		}
		if u := b.preview(kops.UpdateOptions{}); !u.Plan.Empty() {
			t.Errorf("the next update says %s", u.Summary())
		}
	}
	if err := b.Secrets(nil).Delete(t.Context(), name, kops.SecretDockerConfig); err != nil {
		t.Fatal(err)
	}
	if got := formatAftermath(b.preview(kops.UpdateOptions{})); !strings.HasSuffix(got, "; 3+0 2min") {
		t.Errorf("without the secret it says %s", got)
	}
}

// TestMachinesAreComparedWithWhatTheyRun does two updates that reach no machine:
// the differences of a machine are relative to the configuration that it started with.
func TestMachinesAreComparedWithWhatTheyRun(t *testing.T) {
	b := newBench(t)
	f := b.fleet()
	b.describe(func(o *kops.NewClusterOptions) {})
	b.apply(kops.UpdateOptions{})
	f.drifts["nodes-here"] = platform.Drift{Config: nodeconfig.Hash(b.configOf("nodes-here"))}
	b.set("nodes-here", "spec.kubelet.maxPods=50")
	if got, want := formatAftermath(b.apply(kops.UpdateOptions{})), "control-plane-here none 0/1 []; nodes-here restart 2/2 [spec.kubelet.maxPods -> 50 restart]; 2+0 1min"; got != want {
		t.Errorf("the update says %s, want %s", got, want)
	}
	f.outdated["nodes-here"] = true
	b.set("nodes-here", "spec.sysctlParameters=vm.swappiness=1", "spec.kubelet.maxPods=40")
	u := b.preview(kops.UpdateOptions{})
	if got := formatAftermath(u); !strings.Contains(got, "2/2 [spec.kubelet.maxPods -> 40 restart, spec.sysctlParameters -> vm.swappiness=1 restart]") {
		t.Errorf("the next update says %s", got)
	}
	b.apply(kops.UpdateOptions{})
	asked := f.queries

	all, err := b.Instances(t.Context(), name, kops.InstancesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range all {
		got = append(got, fmt.Sprintf("%s %s %s %d", i.Name, i.Status, i.Effect, len(i.Reasons)))
	}
	if want := []string{"control-plane-here-0 UpToDate none 0", "nodes-here-0 NeedsUpdate restart 2", "nodes-here-1 NeedsUpdate restart 2"}; !slices.Equal(got, want) {
		t.Errorf("machines are %q, want %q", got, want)
	}
	if f.queries != asked+1 {
		t.Errorf("%d questions what machines were made of, want one for all", f.queries-asked)
	}

	v, err := b.ValidateCluster(t.Context(), name, kops.ValidateOptions{})
	if err != nil || v.Stale != 2 {
		t.Errorf("a validation counts %+v, %v", v, err)
	}
	d, err := b.Diagnose(t.Context(), name, kops.DiagnoseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range d.Machines {
		if stale := m.Group == "nodes-here"; stale != (m.Effect == status.Restart) || stale != (len(m.Reasons) == 2) {
			t.Errorf("the diagnosis says of %s: %s %v", m.Name, m.Effect, m.Reasons)
		}
	}
	f.outdated["nodes-here"], asked = false, f.queries
	if v, err = b.ValidateCluster(t.Context(), name, kops.ValidateOptions{}); err != nil || v.Stale != 0 || f.queries != asked {
		t.Errorf("where nothing is outdated a validation counts %+v, after %d questions, %v", v, f.queries-asked, err)
	}
}

// TestKeepingConfigurationsCostsLittle counts requests to the store.
func TestKeepingConfigurationsCostsLittle(t *testing.T) {
	b := newBench(t)
	b.fleet()
	n := &counter{}
	b.cfg.Store.Backends = []kops.Backend{n.backend(store.Memories())}
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(o *kops.NewClusterOptions) {})
	b.apply(kops.UpdateOptions{})
	first := n.take()
	if kept := count(first, "put "+"nodeconfigs/"); kept != 1 {
		t.Errorf("the first update keeps its configurations by %d requests, want one: %q", kept, first)
	}
	b.apply(kops.UpdateOptions{})
	if again := n.take(); count(again, "nodeconfigs/")+count(again, "revisions/") != 0 {
		t.Errorf("an update without changes asks for %q", again)
	}
	b.set("nodes-here", "spec.kubelet.maxPods=50")
	n.take()
	b.apply(kops.UpdateOptions{})
	changed := n.take()
	if count(changed, "put nodeconfigs/") != 1 || count(changed, "get nodeconfigs/") != 0 || count(changed, "list nodeconfigs/") != 1 {
		t.Errorf("an update of one group asks for %q", changed)
	}
	b.now = b.now.Add(100 * 24 * time.Hour)
	b.set("nodes-here", "spec.kubelet.maxPods=60")
	n.take()
	b.apply(kops.UpdateOptions{})
	if pruned := n.take(); count(pruned, "get nodeconfigs/") != 2 || count(pruned, "delete nodeconfigs/") != 0 { // the control plane runs the configuration of the first update
		t.Errorf("an update after 100 days asks for %q", pruned)
	}
	dropped := 0
	for i := range 2 { // machines run the configuration that was written before
		b.set(name, fmt.Sprintf("spec.sysctlParameters=vm.swappiness=%d", i))
		n.take()
		b.apply(kops.UpdateOptions{})
		dropped += count(n.take(), "delete nodeconfigs/")
	}
	if dropped != 2 {
		t.Errorf("nothing runs what the first two updates wrote, of which %d are dropped", dropped)
	}
}

// count returns how many requests contain a text.
func count(requests []string, text string) (n int) {
	for _, r := range requests {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// counter records requests to stores: "put nodeconfigs/…" below our folder of the cluster.
type counter struct {
	mu       sync.Mutex
	requests []string
}

func (c *counter) record(verb, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, verb+" "+strings.TrimPrefix(strings.TrimPrefix(key, ".kops/"+name+"/"), name+"/"))
}

// take returns the recorded requests, and resets them.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.requests
	c.requests = nil
	return out
}

func (c *counter) backend(of store.Backend) store.Backend {
	open := of.Open
	of.Open = func(ctx context.Context, scheme, rest string) (store.Store, error) {
		s, err := open(ctx, scheme, rest)
		return countingStore{s, c}, err
	}
	return of
}

type countingStore struct {
	store.Store
	c *counter
}

func (s countingStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	s.c.record("get", key)
	return s.Store.Get(ctx, key)
}

func (s countingStore) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	s.c.record("list", prefix)
	return s.Store.List(ctx, prefix)
}

func (s countingStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	s.c.record("put", key)
	return s.Store.Put(ctx, key, data, o)
}

func (s countingStore) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	s.c.record("delete", key)
	return s.Store.Delete(ctx, key, o)
}
