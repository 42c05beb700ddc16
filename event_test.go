package kops_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"kops.local/kops"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/spec/newcluster"
)

// TestEachCallGetsItsOwnEvents deletes 20 clusters concurrently with one client.
func TestEachCallGetsItsOwnEvents(t *testing.T) {
	b := newBench(t)
	var clusters []string
	for i := range 20 {
		clusters = append(clusters, fmt.Sprintf("c%d.example.com", i))
		b.describe(func(o *newcluster.Options) { o.ClusterName = clusters[i] })
	}
	if _, err := b.Update(t.Context(), clusters[0], kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	received := make([][]kops.Event, len(clusters))
	var calls sync.WaitGroup
	for i, name := range clusters {
		calls.Go(func() {
			err := b.DeleteCluster(t.Context(), name, kops.DeleteOptions{Apply: true, On: func(e kops.Event) error {
				received[i] = append(received[i], e)
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for i, events := range received {
		var kinds []string
		for _, e := range events {
			if e.Cluster != clusters[i] {
				t.Errorf("a call on %s is told of %s: %+v", clusters[i], e.Cluster, e)
			}
			if e.Kind == kops.EventStep {
				if !strings.Contains(e.Step.Step.Name+fmt.Sprint(inside[exec.Event](e.Step).Step.Have), clusters[i]) {
					t.Errorf("a call on %s is told of the step %s", clusters[i], e.Step.Step.Name)
				}
				continue
			}
			kinds = append(kinds, strings.TrimSpace(string(e.Kind)+" "+e.Phase))
		}
		want := []string{"leased", "phase read", "phase observe", "plan", "released"}
		if i == 0 {
			want = []string{"leased", "phase read", "phase observe", "plan", "phase delete", "released"}
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%s: told %q, want %q", clusters[i], kinds, want)
		}
	}
}

func TestEventsAreJSON(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	var lines []string
	b.apply(kops.UpdateOptions{On: func(e kops.Event) error {
		data, err := json.Marshal(e)
		if e.Kind != kops.EventPlan && e.Kind != kops.EventStep || e.Kind == kops.EventStep && len(lines) < 9 {
			lines = append(lines, string(data))
		}
		return err
	}})
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		`{"cluster":"a.example.com","kind":"leased"}`, `{"cluster":"a.example.com","kind":"phase","phase":"observe"}`,
		`{"cluster":"a.example.com","kind":"released"}`, `"kind":"step","step":{"op":"create",`, `"state":"started"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no event %s among\n%s", want, got)
		}
	}
}

// TestOnStopsACall returns an error for each event of an update.
func TestOnStopsACall(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	stop := errors.New("stop")
	for _, at := range []kops.EventKind{kops.EventLeased, kops.EventPhase, kops.EventPlan, kops.EventStep} {
		var kinds []kops.EventKind
		_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true, On: func(e kops.Event) error {
			kinds = append(kinds, e.Kind)
			if e.Kind == at {
				return stop
			}
			return nil
		}})
		if !errors.Is(err, stop) || kinds[len(kinds)-1] != kops.EventReleased {
			t.Errorf("at %s: %v, after %v", at, err, kinds)
		}
	}
	if u := b.preview(kops.UpdateOptions{}); u.Plan.Empty() {
		t.Error("all was made")
	}
}
