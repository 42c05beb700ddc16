package pipeline

import (
	"crypto/rand"
	"testing"
	"time"

	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

func TestAMemoIsForgotten(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := clusterstore.Open(clusterstore.Config{State: store.NewMemory("memory://x"), Now: time.Now, Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Store: s, Cache: t.TempDir(), Now: func() time.Time { return now }}
	m := w.observations("a.example.com", false)
	want := func(what, key, value string, there bool) {
		t.Helper()
		if got, ok := m.Get(key); ok != there || string(got) != value {
			t.Errorf("%s: Get(%s) = %q, %v", what, key, got, ok)
		}
	}
	want("at first", "k", "", false)
	m.Put("k", []byte("v"))
	m.Put("l", []byte("w"))
	want("when put", "k", "v", true)
	now = now.Add(24 * time.Hour)
	want("after a day", "k", "v", true)
	now = now.Add(time.Second)
	want("after more than a day", "k", "", false)
	m.Put("k", []byte("v2"))
	want("when put again", "k", "v2", true)
	m.Put("k", nil)
	want("when forgotten", "k", "", false)
	m.Put("k", []byte("v3"))
	if _, ok := w.observations("b.example.com", false).Get("k"); ok {
		t.Error("another cluster has it, too")
	}
	m = w.observations("a.example.com", false)
	want("in another run", "k", "v3", true)
	m = w.observations("a.example.com", true)
	want("when refreshed", "k", "", false)
	if (&World{Store: s, Now: time.Now}).observations("a", false) != nil {
		t.Error("without a cache folder there is a memo")
	}
}
