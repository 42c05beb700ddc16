package kops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

func TestAnUpdateIsRefusedWhileAnotherHoldsTheLease(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.minSize=5", "spec.maxSize=5")
	other := b.client(func(c *kops.Config) { c.Identity.Holder.User = "joe" })
	_, err := other.Update(t.Context(), name, kops.UpdateOptions{Apply: true, On: kops.OnPlan(func(*kops.Update) error {
		// While joe's update is between plan and apply, jane tries each way of changing the cluster.
		for what, change := range map[string]func() error{
			"update":       func() error { _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); return err },
			"terraform":    func() error { _, err := b.Terraform(t.Context(), name, kops.UpdateOptions{}); return err },
			"delete":       func() error { return b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}) },
			"delete group": func() error { return b.DeleteGroup(t.Context(), name, "nodes-here", kops.DeleteOptions{Apply: true}) },
		} {
			err := change()
			expectRefusal(t, err, "joe", "laptop")
			if held := (*clusterstore.LeaseHeldError)(nil); !errors.As(err, &held) || held.State.User != "joe" {
				t.Errorf("%s: %v does not say that joe holds the lease", what, err)
			}
		}
		if got := changes(b.preview(kops.UpdateOptions{}).Plan); !slices.Equal(got, []string{"modify machines/nodes-here"}) {
			t.Errorf("a preview meanwhile shows %q", got)
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if !b.apply(kops.UpdateOptions{}).Plan.Empty() {
		t.Error("joe's update was not carried out")
	}
}

func TestALeaseOfADeadHolderEnds(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.minSize=5", "spec.maxSize=5")
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, On: kops.OnPlan(func(*kops.Update) error {
		b.now = b.now.Add(time.Hour) // like a machine that was suspended
		if u := b.apply(kops.UpdateOptions{}); u.Plan.Empty() {
			t.Error("the second update did nothing")
		}
		return nil
	})})
	expectTexts(t, err, "lease")
}

// savedPlan returns the plan of a preview in the form of a file.
func (b *bench) savedPlan(o kops.UpdateOptions) *kops.SavedPlan {
	b.Helper()
	s, err := b.preview(o).Saved()
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func TestASavedPlanHoldsAsLongAsTheWorld(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.minSize=3", "spec.maxSize=3")
	plan := b.savedPlan(kops.UpdateOptions{})
	// Another process deletes the balancer: the plan is out of date.
	b.world.Lose("fake_balancer/api." + name)
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Plan: plan})
	expectRefusal(t, err, "the plan saved at 2026-01-02T03:04:05Z was not carried out", "\n  create fake_balancer/api."+name+" is also needed now\n", "save a new plan")
	b.expectResources("", "control-plane-here", "nodes-here")
	b.apply(kops.UpdateOptions{})
	b.set("nodes-here", "spec.minSize=4", "spec.maxSize=4")
	plan = b.savedPlan(kops.UpdateOptions{})
	b.set("nodes-here", "spec.minSize=5", "spec.maxSize=5")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Plan: plan})
	expectRefusal(t, err, "modify fake_machines/nodes-here."+name+`: want.Count was "4", and is "5"`)
	b.set("nodes-here", "spec.minSize=4", "spec.maxSize=4")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Prune: true, Plan: plan})
	expectRefusal(t, err, `saved with other options: prune was "", and is "true"`)
	u := b.apply(kops.UpdateOptions{Plan: plan})
	if got := changes(u.Plan); !slices.Equal(got, []string{"modify machines/nodes-here"}) {
		t.Errorf("the saved plan did %q", got)
	}
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Plan: plan})
	expectRefusal(t, err, "modify fake_machines/nodes-here."+name+" is no longer needed")
}

// A saved plan is applied with its original options, which it contains.
func TestASavedPlanBringsItsOptions(t *testing.T) {
	b := newAppliedBench(t)
	newer := b.client(func(c *kops.Config) { c.Version = "1.38.2" })
	if _, err := newer.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	b.set("nodes-here", "spec.minSize=3", "spec.maxSize=3")
	plan := b.savedPlan(kops.UpdateOptions{AllowDowngrade: true, Groups: []string{"nodes-here"}})
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Plan: plan, Groups: []string{"control-plane-here"}})
	expectRefusal(t, err, `saved with other options: instanceGroups[0] was "nodes-here", and is "control-plane-here"`)
	u := b.apply(kops.UpdateOptions{Plan: plan})
	if got := changes(u.Plan); !slices.Contains(got, "modify machines/nodes-here") {
		t.Errorf("the saved plan did %q", got)
	}
}

// The first plan of a cluster can be saved: its keys are created then, and are only in the
// state store.
func TestTheFirstPlanIsSavedAndCarriedOut(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	if u := b.preview(kops.UpdateOptions{}); u.KeysMade {
		t.Error("a preview makes keys")
	}
	u := b.preview(kops.UpdateOptions{KeepKeys: true})
	if !u.KeysMade {
		t.Error("no keys were made")
	}
	plan, err := u.Saved()
	if err != nil {
		t.Fatal(err)
	}
	data, err := plan.Marshal()
	if err != nil || bytes.Contains(data, []byte("PRIVATE")) || bytes.Contains(data, []byte(`"keyset"`)) {
		t.Errorf("the plan holds keys: %v", err)
	}
	b.expectResources()
	b.now = b.now.Add(time.Hour)
	b.apply(kops.UpdateOptions{Plan: plan})
	b.expectResources("", "api", "control-plane-here", "nodes-here")
	if again := b.preview(kops.UpdateOptions{KeepKeys: true}); again.KeysMade {
		t.Error("keys are made twice")
	}
}

// The plan that a reviewer reads is applied unchanged, or not at all.
func TestAnEditedPlanIsRefused(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.minSize=3", "spec.maxSize=3")
	plan := b.savedPlan(kops.UpdateOptions{})
	data, err := plan.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{{`"Count": 3`, `"Count": 9`}, {name, "b.example.com"}, {`"modify": 1`, `"modify": 0`}, {`"want": "3"`, `"want": "2"`}, {`"1.37.0"`, `"1.36.0"`}} {
		edited := bytes.Replace(data, []byte(edit[0]), []byte(edit[1]), 1)
		if bytes.Equal(edited, data) {
			t.Fatalf("the plan has no %s:\n%s", edit[0], data)
		}
		_, err := kops.ReadPlan(edited)
		expectRefusal(t, err, "it was changed after it was saved")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	if read, err := kops.ReadPlan(compact.Bytes()); err != nil || read.Digest != plan.Digest {
		t.Errorf("indented in another way: %v", err)
	}
	for text, want := range map[string]string{"{": "not a saved plan", "{}": "not a saved plan", `{"format":7}`: "it has format 7, but this version of kops reads format 1",
		strings.Replace(string(data), "{", `{"more":1,`, 1): `unknown field "more"`} {
		_, err := kops.ReadPlan([]byte(text))
		expectTexts(t, err, want)
	}
	// A plan that was edited with a correct digest does not match the current one.
	plan.Steps[0]["want"].(map[string]any)["Count"] = "9"
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Plan: plan})
	expectRefusal(t, err, `want.Count was "9", and is "3"`)
}

func TestAnUpdateThatBreaksIsFinishedByTheNext(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.world.Refuse(func(verb, address string) error {
		if verb == "create" && address == "fake_balancer/api."+name {
			return fault.Wrap(fault.Quota, errors.New("no more balancers"), "ask for more")
		}
		return nil
	})
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true})
	expectTexts(t, err, "fake_balancer/api."+name, "no more balancers")
	if got := fault.Remedy(err); got != "ask for more" {
		t.Errorf("the remedy is %q", got)
	}
	b.expectResources("", "control-plane-here")
	b.world.Refuse(nil)
	b.apply(kops.UpdateOptions{})
	b.expectResources("", "api", "control-plane-here", "nodes-here")
	list, err := b.Clusters().Revisions(t.Context(), name)
	if err != nil || len(list) != 3 {
		t.Fatalf("revisions %+v, %v", list, err)
	}
	slices.SortFunc(list, func(x, y kops.Revision) int { return x.Number - y.Number })
	for i, want := range []string{"stored", "failed", "done"} {
		if r := list[i]; r.Result != want || r.Who != "jane@laptop" || r.Command != "kops test" || !r.Time.Equal(b.now) {
			t.Errorf("revision %d is %+v, want one that is %s", i+1, r, want)
		}
	}
}

func TestNothingToDoIsNoRevision(t *testing.T) {
	b := newAppliedBench(t)
	b.apply(kops.UpdateOptions{})
	if list, err := b.Clusters().Revisions(t.Context(), name); err != nil || len(list) != 2 { // it was stored, and applied once
		t.Errorf("revisions %+v, %v", list, err)
	}
}

func TestOnCanStopAnUpdate(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	stop := errors.New("no thanks")
	if _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, On: kops.OnPlan(func(*kops.Update) error { return stop })}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	b.expectResources()
}

func TestVersionsThatAreRefused(t *testing.T) {
	b := newAppliedBench(t)
	newer := b.client(func(c *kops.Config) { c.Version = "1.38.2" })
	if _, err := newer.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.AppliedVersion(t.Context(), name); err != nil || got != "1.38.2" {
		t.Errorf("applied by %q, %v", got, err)
	}
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true})
	expectRefusal(t, err, "1.38.2", "option:AllowDowngrade")
	b.apply(kops.UpdateOptions{AllowDowngrade: true})
	b.set("", "spec.kubernetesVersion=1.99.0")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	expectRefusal(t, err, "1.99.0", "KOPS_RUN_TOO_NEW_VERSION")
	daring := b.client(func(c *kops.Config) { c.RunTooNew = true })
	if _, err := daring.Update(t.Context(), name, kops.UpdateOptions{}); errors.As(err, new(*kops.Refused)) {
		t.Errorf("with RunTooNew: %v", err)
	}
}

// The platform is queried while the graph is built, with the client that then observes
// it, and once the update is over there are no more requests.
func TestThePlatformIsQueriedAhead(t *testing.T) {
	b := newAppliedBench(t)
	var known, ended atomic.Bool
	var asked []string
	provider := inside[platform.Provider](b.world.Provider())
	provider.Lookup.SetFacts = func(*platform.Session, *facts.Facts) error { known.Store(true); return nil }
	provider.Connect = func(context.Context, platform.Config) (*platform.Session, error) {
		var snapshots atomic.Int32
		return &platform.Session{Client: struct{}{}, Snapshot: func() any { snapshots.Add(1); return struct{}{} }, Prefetch: func(ctx context.Context, snapshot any, cluster string) {
			asked = append(asked, fmt.Sprintln(known.Load(), snapshot == any(struct{}{}), snapshots.Load(), cluster))
			<-ctx.Done()
			ended.Store(true)
		}}, nil
	}
	stop := errors.New("stop")
	provider.Declare.Terraform = func(platform.Model, *graph.Graph) (terraform.Document, error) { return terraform.Document{}, stop }
	client := b.client(func(c *kops.Config) { c.Clouds = []kops.Provider{provider} })
	for what, update := range map[string]func() error{
		"preview": func() error { _, err := client.Update(t.Context(), name, kops.UpdateOptions{}); return err },
		"apply":   func() error { _, err := client.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); return err },
		"failure": func() error {
			_, err := client.Update(t.Context(), name, kops.UpdateOptions{On: kops.OnPlan(func(*kops.Update) error { return stop })})
			if errors.Is(err, stop) {
				return nil
			}
			return fmt.Errorf("got %w, not the error of On", err)
		},
	} {
		asked = nil
		known.Store(false)
		ended.Store(false)
		if err := update(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if want := "true true 1 " + name + "\n"; !slices.Equal(asked, []string{want}) || !ended.Load() {
			t.Errorf("%s: asked %q, want %q; it ended: %v", what, asked, want, ended.Load())
		}
	}
	asked = nil
	if _, err := client.Terraform(t.Context(), name, kops.UpdateOptions{}); !errors.Is(err, stop) || len(asked) > 0 {
		t.Errorf("Terraform, which needs no observation: asked %q, %v", asked, err)
	}
}

// A stopped run did not fail, and the history shows that it was stopped, and what it had done.
func TestAStoppedRunIsInterruptedInTheHistory(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int32
	o := kops.UpdateOptions{Apply: true, On: func(e kops.Event) error {
		if e.Kind != kops.EventStep {
			return nil
		}
		if step := inside[exec.Event](e.Step); step.State == exec.Done && step.Step.Op != plan.Keep {
			done.Add(1)
			stop()
		}
		return nil
	}}
	if _, err := b.Update(ctx, name, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ends with %v", err)
	}
	all, err := b.Clusters().Revisions(t.Context(), name)
	if err != nil || len(all) != 2 || all[0].Result != "interrupted" || !strings.HasPrefix(all[0].Message, fmt.Sprintf("stopped after %d of ", done.Load())) {
		t.Errorf("revisions are %+v, %v; %d changes were done", all, err, done.Load())
	}
}

func TestAKubeconfigFollowsFromAnUpdateOnly(t *testing.T) {
	b := newAppliedBench(t)
	u := b.preview(kops.UpdateOptions{})
	if a, err := b.KubeconfigOf(t.Context(), u, kops.KubeconfigOptions{Internal: true}); err != nil || len(a.CA) == 0 {
		t.Errorf("of a preview: %+v, %v", a, err)
	}
	err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{On: kops.OnPlan(func(u *kops.Update) error {
		if a, err := b.KubeconfigOf(t.Context(), u, kops.KubeconfigOptions{}); err == nil {
			t.Errorf("of a deletion: %+v", a)
		}
		if s, err := u.Saved(); err == nil {
			t.Errorf("the saved plan of a deletion: %+v", s)
		}
		return nil
	})})
	if err != nil {
		t.Error(err)
	}
}

// The completed spec is in the store before the update that writes it is done: a cluster of ours is
// new until then. One of another program has no revisions, and has run.
func TestAClusterIsNewUntilAnUpdateIsDone(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	s, err := b.stores().Open(t.Context(), b.cfg.Store.URL)
	if err != nil {
		t.Fatal(err)
	}
	left, _, err := s.Get(t.Context(), name+"/config")
	if err == nil {
		_, err = s.Put(t.Context(), name+"/cluster-completed.spec", left, store.PutOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range b.preview(kops.UpdateOptions{}).Risks {
			if !slices.Contains(got, r.Rule) {
				got = append(got, r.Rule)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: risks are %q, want %q", what, got, want)
		}
	}
	expect("after an interrupted update", "api-open", "ssh-open")
	if err := s.Delete(t.Context(), ".kops/"+name+"/revisions/00000001.json", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("of another program", "keys-lost")
}
