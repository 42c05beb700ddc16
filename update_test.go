package kops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/cloud"
	"kops.local/kops/internal/clusterstore"
	"kops.local/kops/internal/facts"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/graph"
	"kops.local/kops/internal/newcluster"
	"kops.local/kops/internal/render/terraform"
)

func TestAnUpdateIsRefusedWhileAnotherHoldsTheLease(t *testing.T) {
	b := applied(t)
	b.set("nodes-here", "spec.minSize=5", "spec.maxSize=5")
	other := b.client(func(c *kops.Config) { c.Holder.User = "joe" })
	_, err := other.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Planned: func(*kops.Update) error {
		// While joe's update stands between plan and apply, jane tries each way of changing the cluster.
		for what, change := range map[string]func() error{
			"update":       func() error { _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); return err },
			"terraform":    func() error { _, err := b.Terraform(t.Context(), name, kops.UpdateOptions{}); return err },
			"delete":       func() error { return b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true}) },
			"delete group": func() error { return b.DeleteGroup(t.Context(), name, "nodes-here", kops.DeleteOptions{Apply: true}) },
		} {
			err := change()
			refused(t, err, "joe", "laptop")
			if held := (*clusterstore.Held)(nil); !errors.As(err, &held) || held.State.User != "joe" {
				t.Errorf("%s: %v does not say that joe holds the lease", what, err)
			}
		}
		if got := changes(b.preview(kops.UpdateOptions{}).Plan); !slices.Equal(got, []string{"modify machines/nodes-here"}) {
			t.Errorf("a preview meanwhile shows %q", got)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !b.apply(kops.UpdateOptions{}).Plan.Empty() {
		t.Error("joe's update was not carried out")
	}
}

func TestALeaseOfADeadHolderEnds(t *testing.T) {
	b := applied(t)
	b.set("nodes-here", "spec.minSize=5", "spec.maxSize=5")
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Planned: func(*kops.Update) error {
		b.now = b.now.Add(time.Hour) // as a machine that slept
		if u := b.apply(kops.UpdateOptions{}); u.Plan.Empty() {
			t.Error("the second update did nothing")
		}
		return nil
	}})
	says(t, err, "lease")
}

func TestASavedPlanHoldsAsLongAsTheWorld(t *testing.T) {
	b := applied(t)
	b.set("nodes-here", "spec.minSize=3", "spec.maxSize=3")
	saved := b.preview(kops.UpdateOptions{})
	digest, err := saved.Plan.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if saved.MakesKeys() {
		t.Error("a plan for a cluster that exists makes keys")
	}
	// Somebody takes the balancer away: the plan is no longer what is needed.
	b.world.Lose("fake_balancer/api." + name)
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, PlanDigest: digest})
	refused(t, err, "the world has moved")
	b.exist("", "control-plane-here", "nodes-here")
	b.apply(kops.UpdateOptions{})
	b.set("nodes-here", "spec.minSize=4", "spec.maxSize=4")
	if digest, err = b.preview(kops.UpdateOptions{}).Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	u := b.apply(kops.UpdateOptions{PlanDigest: digest})
	if got := changes(u.Plan); !slices.Equal(got, []string{"modify machines/nodes-here"}) {
		t.Errorf("the saved plan did %q", got)
	}
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, PlanDigest: digest})
	refused(t, err, "make a new plan")
}

func TestTheFirstPlanMakesKeys(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	if !b.preview(kops.UpdateOptions{}).MakesKeys() {
		t.Error("the first plan makes no keys")
	}
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
	says(t, err, "fake_balancer/api."+name, "no more balancers")
	if got := fault.Remedy(err); got != "ask for more" {
		t.Errorf("the remedy is %q", got)
	}
	b.exist("", "control-plane-here")
	b.world.Refuse(nil)
	b.apply(kops.UpdateOptions{})
	b.exist("", "api", "control-plane-here", "nodes-here")
	list, err := b.Revisions(t.Context(), name)
	if err != nil || len(list) != 2 {
		t.Fatalf("revisions %+v, %v", list, err)
	}
	slices.SortFunc(list, func(x, y kops.Revision) int { return x.Number - y.Number })
	for i, want := range []string{"failed", "done"} {
		if r := list[i]; r.Result != want || r.Who != "jane@laptop" || r.Command != "kops test" || !r.Time.Equal(b.now) {
			t.Errorf("revision %d is %+v, want one that is %s", i+1, r, want)
		}
	}
}

func TestNothingToDoIsNoRevision(t *testing.T) {
	b := applied(t)
	b.apply(kops.UpdateOptions{})
	if list, err := b.Revisions(t.Context(), name); err != nil || len(list) != 1 {
		t.Errorf("revisions %+v, %v", list, err)
	}
}

func TestPlannedCanStopAnUpdate(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	stop := errors.New("no thanks")
	if _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, Planned: func(*kops.Update) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	b.exist()
}

func TestVersionsThatAreRefused(t *testing.T) {
	b := applied(t)
	newer := b.client(func(c *kops.Config) { c.Version = "1.38.2" })
	if _, err := newer.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.AppliedVersion(t.Context(), name); err != nil || got != "1.38.2" {
		t.Errorf("applied by %q, %v", got, err)
	}
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true})
	refused(t, err, "1.38.2", "--allow-kops-downgrade")
	b.apply(kops.UpdateOptions{AllowDowngrade: true})
	b.set("", "spec.kubernetesVersion=1.99.0")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	refused(t, err, "1.99.0", "KOPS_RUN_TOO_NEW_VERSION")
	daring := b.client(func(c *kops.Config) { c.RunTooNew = true })
	if _, err := daring.Update(t.Context(), name, kops.UpdateOptions{}); errors.As(err, new(*kops.Refused)) {
		t.Errorf("with RunTooNew: %v", err)
	}
}

// The platform is asked while the graph is made, with the client that then observes
// it, and once the update is over nothing asks any more.
func TestThePlatformIsAskedAhead(t *testing.T) {
	b := applied(t)
	var known, ended atomic.Bool
	var asked []string
	provider := b.world.Provider()
	provider.Know = func(*cloud.Session, *facts.Facts) { known.Store(true) }
	provider.Connect = func(context.Context, cloud.Config) (*cloud.Session, error) {
		var snapshots atomic.Int32
		return &cloud.Session{Client: b.world, Snapshot: func() any { snapshots.Add(1); return b.world }, Ahead: func(ctx context.Context, snapshot any, cluster string) {
			asked = append(asked, fmt.Sprintln(known.Load(), snapshot == b.world, snapshots.Load(), cluster))
			<-ctx.Done()
			ended.Store(true)
		}}, nil
	}
	stop := errors.New("stop")
	provider.Terraform = func(cloud.Model, *graph.Graph) (terraform.Document, error) { return terraform.Document{}, stop }
	client := b.client(func(c *kops.Config) { c.Clouds = []cloud.Provider{provider} })
	for what, update := range map[string]func() error{
		"preview": func() error { _, err := client.Update(t.Context(), name, kops.UpdateOptions{}); return err },
		"apply":   func() error { _, err := client.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); return err },
		"failure": func() error {
			_, err := client.Update(t.Context(), name, kops.UpdateOptions{Planned: func(*kops.Update) error { return stop }})
			if errors.Is(err, stop) {
				return nil
			}
			return fmt.Errorf("got %w, not the error of Planned", err)
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
