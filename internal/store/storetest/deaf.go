package storetest

import (
	"context"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Deaf is a store whose server ignores the conditions of writes.
type Deaf struct {
	store.Store
	// Match says that it ignores IfVersion only.
	Match bool
}

// Put writes an object whether the conditions hold or not.
func (d Deaf) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	o.IfVersion, o.IfAbsent = "", o.IfAbsent && d.Match
	return d.Store.Put(ctx, key, data, o)
}

func proven(t *testing.T, s *suite) {
	for range 2 { // the second time the object of the proof is there
		p := store.Proven(s.clients(), &store.Proof{})
		v, err := p.Put(t.Context(), "config", []byte("one"), store.PutOptions{})
		if err == nil {
			_, err = p.Put(t.Context(), "config", []byte("two"), store.PutOptions{IfVersion: v})
		}
		if err != nil {
			t.Errorf("a server that keeps conditions: %v", err)
		}
	}
	for _, deaf := range []store.Store{Deaf{Store: s.Store}, Deaf{s.Store, true}} {
		_, err := store.Proven(deaf, &store.Proof{Remedy: "use another"}).Put(t.Context(), "config", []byte("three"), store.PutOptions{IfAbsent: true})
		if !fault.Is(err, fault.Permanent) || fault.Remedy(err) != "use another" {
			t.Errorf("a server that ignores conditions: %v", err)
		}
		s.wants(t, "config", "two")
	}
}
