package storetest

import (
	"context"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// UnconditionalStore is a store whose server ignores the conditions of writes.
type UnconditionalStore struct {
	store.Store
	// Match means that only IfVersion is ignored.
	Match bool
}

// Put writes an object regardless of the conditions.
func (d UnconditionalStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	o.IfVersion, o.IfAbsent = "", o.IfAbsent && d.Match
	return d.Store.Put(ctx, key, data, o)
}

func provenConditions(t *testing.T, s *suite) {
	for range 2 { // the second time the proof's object exists
		p := store.WithProof(s.clients(), &store.Proof{})
		v, err := p.Put(t.Context(), "config", []byte("one"), store.PutOptions{})
		if err == nil {
			_, err = p.Put(t.Context(), "config", []byte("two"), store.PutOptions{IfVersion: v})
		}
		if err != nil {
			t.Errorf("a server that keeps conditions: %v", err)
		}
	}
	for _, deaf := range []store.Store{UnconditionalStore{Store: s.Store}, UnconditionalStore{s.Store, true}} {
		_, err := store.WithProof(deaf, &store.Proof{Remedy: "use another"}).Put(t.Context(), "config", []byte("three"), store.PutOptions{IfAbsent: true})
		if !fault.Is(err, fault.Permanent) || fault.Remedy(err) != "use another" {
			t.Errorf("a server that ignores conditions: %v", err)
		}
		s.expect(t, "config", "two")
	}
}
