package clusterstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// Reads that wait for each other would deadlock, which the bubble detects.
func TestRevisionsAreReadTogether(t *testing.T) { synctest.Test(t, revisionsAreReadTogether) }

func revisionsAreReadTogether(t *testing.T) {
	w := inMemory()
	const n = 5
	for i := range n {
		w.put(t, fmt.Sprintf(".kops/%s/revisions/%08d.json", name, i+1), fmt.Sprintf(`{"number": %d}`, i+1))
	}
	wait := &sync.WaitGroup{}
	wait.Add(n)
	s := w.client(t, func(c *clusterstore.Config) { c.State = gatheringStore{c.State, "/revisions/", wait} })
	got, err := s.History(t.Context(), name)
	if err != nil || len(got) != n {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, r := range got {
		if r.Number != n-i {
			t.Errorf("at %d is revision %d", i, r.Number)
		}
	}
}

// TestEditsDoNotHideWhatWasApplied: however many attempts and changes of the objects followed, only
// a few revisions are read to find the one that was applied.
func TestEditsDoNotHideWhatWasApplied(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	_, l := acquire(t, s, "jane")
	failed := clusterstore.Revision{Plan: "q", Result: "failed"}
	for _, r := range []clusterstore.Revision{{Plan: "p", Result: "done"}, failed, failed, failed, failed, failed, failed, {Result: "done", Message: "a key was added"}} {
		if _, err := s.Append(t.Context(), l, c, r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 9 {
		next := c.Clone()
		next.Spec.Spec.Networking.NetworkCIDR = fmt.Sprintf("10.%d.0.0/16", i)
		saved, err := s.Change(t.Context(), clusterstore.Holder{User: "joe"}, c, next)
		if err != nil {
			t.Fatal(err)
		}
		c = saved
	}
	numbers, err := s.Revisions(t.Context(), name)
	if err != nil || len(numbers) != 17 {
		t.Fatalf("%v, %v", numbers, err)
	}
	r, older, err := s.LastApplied(t.Context(), name, numbers)
	if err != nil || r == nil || r.Number != 1 || len(older) != 0 {
		t.Errorf("%+v, %v, %v", r, older, err)
	}
	if r, _, err := s.LastApplied(t.Context(), name, numbers[10:]); err != nil || r == nil || r.Number != 1 {
		t.Errorf("after attempts only: %+v, %v", r, err)
	}
	last, err := s.Revision(t.Context(), name, 17)
	if want := []clusterstore.Change{{Object: "Cluster", Field: "spec.networkCIDR"}}; err != nil || !slices.Equal(last.Changes, want) || last.Result != clusterstore.Stored || last.User != "joe" {
		t.Errorf("%+v, %v", last, err)
	}
}

func revisions(t *testing.T, w *world) {
	s := w.client(t)
	c := create(t, s, demo(name, 2))
	if got, err := s.Revisions(t.Context(), name); len(got) != 0 || err != nil {
		t.Errorf("none yet: %v, %v", got, err)
	}
	_, l := acquire(t, s, "jane")
	stale := load(t, s)
	for i := range 11 {
		n, err := s.Append(t.Context(), l, stale, clusterstore.Revision{Plan: fmt.Sprint("plan ", i), Result: "done"})
		if err != nil || n != i+1 {
			t.Fatalf("revision %d: %d, %v", i+1, n, err)
		}
	}
	if n, err := s.Append(t.Context(), l, load(t, w.client(t)), clusterstore.Revision{Result: "failed", Message: "no quota"}); n != 12 || err != nil {
		t.Errorf("after a new reading: %d, %v", n, err)
	}
	numbers, err := w.client(t).Revisions(t.Context(), name)
	if fmt.Sprint(numbers) != "[12 11 10 9 8 7 6 5 4 3 2 1]" || err != nil {
		t.Errorf("numbers %v, %v", numbers, err)
	}
	r, err := w.client(t).Revision(t.Context(), name, 10)
	if err != nil || r.Number != 10 || r.Plan != "plan 9" || r.User != "jane" || r.Fence != l.Fence() || r.Version != "1.0.0" ||
		!r.Time.Equal(w.Now()) || r.SpecDigest != store.Digest([]byte(r.Spec)) || strings.Count(r.Spec, "kind: InstanceGroup") != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Revision(t.Context(), name, 13); !fault.Is(err, fault.Gone) {
		t.Errorf("one that is not: %v", err)
	}
	if err := w.client(t).Break(t.Context(), clusterstore.Holder{}, name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), l, c, clusterstore.Revision{Result: "done"}); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("without the lease: %v", err)
	}
	var raw map[string]any
	if err := json.Unmarshal([]byte(w.get(t, ".kops/"+name+"/revisions/00000012.json")), &raw); err != nil || raw["message"] != "no quota" {
		t.Errorf("stored as %v, %v", raw, err)
	}
	w.put(t, ".kops/"+name+"/revisions/00000011.json", `{"number":`)
	if _, err := s.Revision(t.Context(), name, 11); err == nil || !strings.Contains(err.Error(), "/revisions/00000011.json: ") || fault.Remedy(err) == "" {
		t.Errorf("a damaged one: %v", err)
	}
}
