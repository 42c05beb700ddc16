package etcd_test

import (
	"context"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
)

// meanwhile is a store in which something happens between a read and the write that
// follows it, once.
type meanwhile struct {
	store.Store
	happens func()
}

func (m *meanwhile) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if h := m.happens; h != nil {
		m.happens = nil
		h()
	}
	return m.Store.Put(ctx, key, data, o)
}

// TestATaskIsAskedForWhileAnotherEnds, whenever the manager that did the other removes it.
func TestATaskIsAskedForWhileAnotherEnds(t *testing.T) {
	ctx := t.Context()
	s := &meanwhile{Store: put(t, nil)}
	ask := func(id string) error {
		return etcd.Ask(ctx, s, etcd.Request{ID: id, Task: etcd.Defragment})
	}
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
	answered := func() { // a manager that has not come to remove the request
		if _, err := s.Store.Put(ctx, ".kops/answer", []byte(`{"request": "1", "done": true}`), store.PutOptions{}); err != nil {
			t.Error(err)
		}
	}
	answered()
	s.happens = func() { answer("1") }
	if err := ask("3"); err != nil {
		t.Fatalf("while another is removed: %v", err)
	}
	answer("3")
	s.happens = func() {
		if err := ask("4"); err != nil {
			t.Error(err)
		}
	}
	if err := ask("5"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "asked for another") {
		t.Fatalf("while somebody asks for another: %v", err)
	}
	if c, err := etcd.ReadControl(ctx, s); err != nil || c.Request == nil || c.Request.ID != "4" {
		t.Errorf("asked for is %+v: %v", c.Request, err)
	}
}
