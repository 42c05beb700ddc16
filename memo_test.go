package kops

import (
	"testing"
	"time"

	"kops.local/kops/internal/store"
)

func TestAMemoIsForgotten(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := store.Backends{store.Memories()}
	c, err := New(t.Context(), Config{State: "memory://x", Backends: b, Cache: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	m := c.memo("a.example.com", false)
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
	if _, ok := c.memo("b.example.com", false).Get("k"); ok {
		t.Error("another cluster has it, too")
	}
	m = c.memo("a.example.com", false)
	want("in another run", "k", "v3", true)
	m = c.memo("a.example.com", true)
	want("when refreshed", "k", "", false)
	if c, err = New(t.Context(), Config{State: "memory://x", Backends: b, Now: time.Now}); err != nil || c.memo("a", false) != nil {
		t.Errorf("without a cache folder there is a memo, or %v", err)
	}
}
