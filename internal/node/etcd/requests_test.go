package etcd_test

import (
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/storetest"
)

// TestATaskIsRequestedWhileAnotherEnds requests a task while another one ends, whenever the
// manager removes that one.
func TestATaskIsRequestedWhileAnotherEnds(t *testing.T) {
	ctx := t.Context()
	s := put(t, nil)
	while := func(id string, happens func()) error { // between reading and writing in Ask
		return etcd.Ask(ctx, &storetest.RacingStore{Store: s, Before: happens}, etcd.Request{ID: id, Task: etcd.Defragment})
	}
	ask := func(id string) error { return while(id, func() {}) }
	answer := func(id string) {
		if err := etcd.WriteAnswer(ctx, s, etcd.Answer{Request: id, Done: true}); err != nil {
			t.Error(err)
		}
	}
	if err := ask("1"); err != nil {
		t.Fatal(err)
	}
	if err := ask("2"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "has been requested") {
		t.Fatalf("while another is asked for: %v", err)
	}
	// The manager has not yet removed the request.
	if _, err := s.Put(ctx, ".kops/answer", []byte(`{"request": "1", "done": true}`), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := while("3", func() { answer("1") }); err != nil {
		t.Fatalf("while another is removed: %v", err)
	}
	answer("3")
	other := func() {
		if err := ask("4"); err != nil {
			t.Error(err)
		}
	}
	if err := while("5", other); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "has been requested") {
		t.Fatalf("while somebody asks for another: %v", err)
	}
	if c, err := etcd.ReadControl(ctx, s); err != nil || c.Request == nil || c.Request.ID != "4" {
		t.Errorf("asked for is %+v: %v", c.Request, err)
	}
}

// A database that grows after the founding is reported at once; small changes are not.
func TestSizesThatHaveChangedAreNews(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := func(size, inUse int64) etcd.Status {
		return etcd.NewStatus(at, "etcd-a", 1, "", []etcd.Member{{ID: "1", Name: "etcd-a", Size: size, InUse: inUse}})
	}
	const mib = 1 << 20
	for _, x := range []struct {
		was, now etcd.Status
		news     bool
	}{
		{status(20<<10, 16<<10), status(2*mib, mib), true},
		{status(20<<10, 16<<10), status(100<<10, 90<<10), false},
		{status(800*mib, 700*mib), status(900*mib, 800*mib), false},
		{status(800*mib, 700*mib), status(800*mib, 300*mib), true},
	} {
		if got := x.now.IsNews(&x.was); got != x.news {
			t.Errorf("%+v after %+v: news %t", x.now.Members, x.was.Members, got)
		}
	}
}
