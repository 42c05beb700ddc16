package clusterstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/store/clusterstore"
)

// One that waits for the other stops for good, which the bubble notices.
func TestRevisionsAreReadTogether(t *testing.T) { synctest.Test(t, revisionsAreReadTogether) }

func revisionsAreReadTogether(t *testing.T) {
	w := inMemory()
	const n = 5
	for i := range n {
		w.put(t, fmt.Sprintf(".kops/%s/revisions/%08d.json", name, i+1), fmt.Sprintf(`{"number": %d}`, i+1))
	}
	wait := &sync.WaitGroup{}
	wait.Add(n)
	s := w.client(t, func(c *clusterstore.Config) { c.State = together{c.State, "/revisions/", wait} })
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

// TestEditsDoNotHideWhatWasApplied: however many changes of the objects came since, few
// revisions are read to find the one that was applied.
func TestEditsDoNotHideWhatWasApplied(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	_, l := acquire(t, s, "jane")
	for _, r := range []clusterstore.Revision{{Plan: "p", Result: "done"}, {Plan: "q", Result: "failed"}, {Result: "done", Message: "a key was added"}} {
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
	if err != nil || len(numbers) != 12 {
		t.Fatalf("%v, %v", numbers, err)
	}
	r, older, err := s.LastApplied(t.Context(), name, numbers)
	if err != nil || r == nil || r.Number != 1 || len(older) != 0 {
		t.Errorf("%+v, %v, %v", r, older, err)
	}
	last, err := s.Revision(t.Context(), name, 12)
	if want := []clusterstore.Change{{Object: "Cluster", Field: "spec.networkCIDR"}}; err != nil || !slices.Equal(last.Changes, want) || last.Result != clusterstore.Stored || last.User != "joe" {
		t.Errorf("%+v, %v", last, err)
	}
}
