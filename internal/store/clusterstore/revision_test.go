package clusterstore_test

import (
	"fmt"
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
