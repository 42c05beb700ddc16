// Package storetest is the conformance suite that every backend of package store passes.
//
// It must not know any backend: what they may differ in are the Traits.
package storetest

import (
	"cmp"
	"fmt"
	"testing"

	"kops.local/kops/internal/store"
)

// Traits are the ways in which backends may differ.
type Traits struct {
	// Nested is true when an object "a" and an object "a/b" can both exist. Otherwise
	// the second of them is refused and the first is untouched.
	Nested bool
	// Atomic is true when the server checks the condition of a write and writes in one
	// step, so that exactly one of many racing writers wins.
	Atomic bool
	// Digests is true when a listing gives the digest of every object of up to 1 MiB.
	Digests bool
	// Slashes is true when a server takes a backslash for a slash, so that keys with one are refused.
	Slashes bool
	// Racers is the number of clients that do the same at once; zero: a dozen.
	Racers int
	// Strangers is true when a listing made during a write may show unfinished objects of the server's own.
	Strangers bool
}

// Clients returns another client of one set of objects at each call: two values
// of it behave as two processes do.
type Clients func() store.Store

// Run runs the suite. For each part of it, fresh makes an empty store.
func Run(t *testing.T, traits Traits, fresh func(t *testing.T) Clients) {
	parts := []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"what was written is read", roundTrip},
		{"an absent object is gone", absent},
		{"odd keys", oddKeys},
		{"bad keys are refused", badKeys},
		{"an object below an object", nested},
		{"a large object", large},
		{"listing is in order and by prefix", listing},
		{"listing describes what get returns", described},
		{"listing goes on after a page", pages},
		{"a listing can be left early", leftEarly},
		{"if absent", ifAbsent},
		{"if absent: one of many wins", ifAbsentRace},
		{"if version", ifVersion},
		{"if version: no update is lost", lostUpdate},
		{"a server that ignores conditions is found out", proven},
		{"delete", remove},
		{"delete many", removeMany},
		{"concurrent writers leave whole objects", wholeObjects},
		{"a cancelled context ends every call", cancelled},
		{"a part of a store is a store", part},
		{"addresses", addresses},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			clients, traits := fresh(t), traits
			traits.Racers = cmp.Or(traits.Racers, 12)
			p.run(t, &suite{Traits: traits, clients: clients, Store: clients()})
		})
	}
}

// suite is one part's store and what it needs to know of it.
type suite struct {
	Traits
	store.Store
	clients Clients
}

func (s *suite) put(t *testing.T, key, data string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, []byte(data), store.PutOptions{})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	if v == "" {
		t.Fatalf("put %q: no version", key)
	}
	return v
}

func (s *suite) wants(t *testing.T, key, data string) store.Version {
	t.Helper()
	got, v, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	if string(got) != data {
		t.Fatalf("get %q: %d bytes %.40q, want %d bytes %.40q", key, len(got), got, len(data), data)
	}
	return v
}

func keys(t *testing.T, s store.Store, prefix string) []string {
	t.Helper()
	var out []string
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		out = append(out, info.Key)
	}
	return out
}

func numbered(n int) string { return fmt.Sprintf("many/%05d", n) }
