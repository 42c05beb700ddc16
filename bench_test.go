package kops_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/testkeys"
)

const name = "a.example.com"

// bench is a platform in memory, a state store in memory, and a clock that does not advance on its own.
type bench struct {
	*testing.T
	*kops.Client
	world *fakecloud.World
	now   time.Time
	cfg   kops.Config
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, world: fakecloud.New(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.cfg = kops.Config{
		Store:  kops.Store{URL: "memory://state", Backends: []kops.Backend{store.Memories(), store.Folders()}},
		Clouds: []kops.Provider{b.world.Provider()}, Version: "1.37.0",
		World: kops.World{Now: func() time.Time { return b.now }, Random: rand.Reader, NewKey: testkeys.Source(),
			Sleep: func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }},
		Identity: kops.Identity{Holder: kops.Holder{User: "jane", Host: "laptop", PID: 1, Command: "kops test"}},
	}
	b.Client = b.client(func(*kops.Config) {})
	return b
}

// inside returns the internal value behind a value of the library.
func inside[T any](shown interface{ As(target any) bool }) (out T) {
	shown.As(&out)
	return out
}

// factsOf parses facts.
func factsOf(t *testing.T, text string) *kops.Facts {
	t.Helper()
	f, err := kops.ReadFacts([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stores returns the stores that the bench can open.
func (b *bench) stores() store.Backends {
	var out store.Backends
	for _, s := range b.cfg.Store.Backends {
		out = append(out, inside[store.Backend](s))
	}
	return out
}

// clouds returns the bench's clouds with a changed platform.
func (b *bench) clouds(change func(*platform.Provider)) []kops.Provider {
	p := inside[platform.Provider](b.world.Provider())
	change(&p)
	return []kops.Provider{p}
}

// client returns another client of the same store and platform.
func (b *bench) client(change func(*kops.Config)) *kops.Client {
	b.Helper()
	cfg := b.cfg
	change(&cfg)
	c, err := kops.New(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// describe stores a new cluster.
func (b *bench) describe(change func(*newcluster.Options)) {
	b.Helper()
	o := newcluster.Options{ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}, NodeCount: 2}
	change(&o)
	c, err := b.NewCluster(b.Context(), kops.NewClusterRequest{Options: o})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.Clusters().Create(b.Context(), c.Objects()); err != nil {
		b.Fatal(err)
	}
}

// newAppliedBench returns a bench with an applied cluster.
func newAppliedBench(t *testing.T) *bench {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.apply(kops.UpdateOptions{})
	return b
}

func (b *bench) apply(o kops.UpdateOptions) *kops.Update {
	b.Helper()
	o.Apply = true
	return b.preview(o)
}

func (b *bench) preview(o kops.UpdateOptions) *kops.Update {
	b.Helper()
	u, err := b.Update(b.Context(), name, o)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// set sets fields of a group, or of the cluster if there is no such group.
func (b *bench) set(object string, sets ...string) {
	b.Helper()
	c, err := b.Clusters().Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	var o api.Object = c.Spec
	if g := c.Group(object); g != nil {
		o = g
	}
	daring := b.client(func(c *kops.Config) { c.RunObsolete, c.RunTooNew = true, true }) // also versions that only an update refuses
	if _, err := daring.Clusters().SetFields(b.Context(), c, o, sets, nil); err != nil {
		b.Fatal(err)
	}
}

// inStore replaces a text of the stored cluster, as another version of kops might have written it.
func (b *bench) inStore(old, now string) {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL)
	if err != nil {
		b.Fatal(err)
	}
	data, _, err := s.Get(b.Context(), name+"/config")
	if err != nil || !strings.Contains(string(data), old) {
		b.Fatalf("%q is not in the stored cluster: %v", old, err)
	}
	if _, err := s.Put(b.Context(), name+"/config", []byte(strings.Replace(string(data), old, now, 1)), store.PutOptions{}); err != nil {
		b.Fatal(err)
	}
}

// addGroup stores a copy of the nodes under another name.
func (b *bench) addGroup(group string) {
	b.Helper()
	c, err := b.Clusters().Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	g := c.Group("nodes-here").DeepCopy()
	g.Name = group
	if _, err := b.Clusters().AddGroup(b.Context(), c, g); err != nil {
		b.Fatal(err)
	}
}

// removeFromStore removes a group from the store, but not its machines.
func (b *bench) removeFromStore(group string) error {
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL)
	if err != nil {
		return err
	}
	return s.Delete(b.Context(), name+"/instancegroup/"+group, store.DeleteOptions{})
}

// expectResources checks the resources on the platform; names omit the kind and the cluster.
func (b *bench) expectResources(want ...string) {
	b.Helper()
	var got []string
	for _, o := range b.world.Objects() {
		_, n, _ := strings.Cut(o, "/")
		got = append(got, strings.TrimSuffix(strings.TrimSuffix(n, name), "."))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("on the platform are %q, want %q", got, want)
	}
}

// changes returns the steps of a plan on the platform: "modify fake_machines/nodes-here".
func changes(shown *kops.Plan) []string {
	p := inside[*plan.Plan](shown)
	var out []string
	for _, s := range p.Steps {
		if s.Op != plan.Keep && strings.HasPrefix(s.Address.Kind, "fake_") {
			out = append(out, string(s.Op)+" "+strings.TrimSuffix(strings.TrimPrefix(s.Address.String(), "fake_"), "."+name))
		}
	}
	return out
}

// expectTexts checks that an error contains the given texts.
func expectTexts(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// expectRefusal checks that a guard refused an operation.
func expectRefusal(t *testing.T, err error, want ...string) {
	t.Helper()
	expectTexts(t, err, want...)
	if r := (*kops.Refused)(nil); !errors.As(err, &r) {
		t.Errorf("%v is no refusal of a guard", err)
	}
}
