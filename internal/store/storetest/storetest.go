// Package storetest is the conformance suite for all backends of package store.
//
// It must not know any backend: their differences are described by the Traits.
package storetest

import (
	"cmp"
	"fmt"
	"testing"

	"kops.local/kops/internal/store"
)

// Traits are the ways in which backends may differ.
type Traits struct {
	// Nested is true if an object "a" and an object "a/b" can both exist. Otherwise
	// the second of them is rejected and the first is unchanged.
	Nested bool
	// Atomic is true if the server checks the condition of a write and writes in one
	// step, so that exactly one of many racing writers wins.
	Atomic bool
	// Digests is true if a listing contains the digest of every object of up to 1 MiB.
	Digests bool
	// Slashes is true if a server treats a backslash as a slash, so that keys with one are rejected.
	Slashes bool
	// Racers is the number of clients that race; zero: a dozen.
	Racers int
	// Strangers is true if a listing made during a write may contain the server's own unfinished objects.
	Strangers bool
}

// Clients returns another client of one set of objects on each call: two clients
// behave like two processes.
type Clients func() store.Store

// Run runs the suite. For each part of it, fresh creates an empty store.
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
		{"listing describes what get returns", describesItself},
		{"listing goes on after a page", pages},
		{"a listing can be left early", stopEarly},
		{"if absent", ifAbsent},
		{"if absent: one of many wins", ifAbsentRace},
		{"if version", ifVersion},
		{"if version: no update is lost", lostUpdate},
		{"a server that ignores conditions is found out", provenConditions},
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

// suite is the store of one part of the suite, with its traits and clients.
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

func (s *suite) expect(t *testing.T, key, data string) store.Version {
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
