package etcd_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/storetest"
)

// TestATaskIsAskedForWhileAnotherEnds, whenever the manager that did the other removes it.
func TestATaskIsAskedForWhileAnotherEnds(t *testing.T) {
	ctx := t.Context()
	s := put(t, nil)
	while := func(id string, happens func()) error { // between what asking reads and what it writes
		return etcd.Ask(ctx, &storetest.Overtaken{Store: s, By: happens}, etcd.Request{ID: id, Task: etcd.Defragment})
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
	if err := ask("2"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "asked for another") {
		t.Fatalf("while another is asked for: %v", err)
	}
	// A manager has not come to remove the request.
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
	if err := while("5", other); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "asked for another") {
		t.Fatalf("while somebody asks for another: %v", err)
	}
	if c, err := etcd.ReadControl(ctx, s); err != nil || c.Request == nil || c.Request.ID != "4" {
		t.Errorf("asked for is %+v: %v", c.Request, err)
	}
}
