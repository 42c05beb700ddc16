package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

func ifAbsent(t *testing.T, s *suite) {
	absent := store.PutOptions{IfAbsent: true}
	if _, err := s.Put(t.Context(), "a/lease", []byte("one"), absent); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "a/lease", []byte("two"), absent)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fmt.Sprint(err), store.URL(s, "a/lease")) {
		t.Errorf("a second write: %v; want a conflict that names the object", err)
	}
	if _, err := s.Put(t.Context(), "a/lease", []byte("one"), absent); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second write of the same content: %v; want a conflict", err)
	}
	s.expect(t, "a/lease", "one")
	if err := s.Delete(t.Context(), "a/lease", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/lease", []byte("three"), absent); err != nil {
		t.Errorf("a write after deletion: %v", err)
	}
}

func ifAbsentRace(t *testing.T, s *suite) {
	for round := range 5 {
		key := fmt.Sprintf("race/%d", round)
		var won atomic.Int32
		winner := make(chan string, s.Racers)
		s.race(t, func(client store.Store, n int) error {
			me := fmt.Sprintf("client %d", n)
			_, err := client.Put(t.Context(), key, []byte(me), store.PutOptions{IfAbsent: true})
			if err == nil {
				won.Add(1)
				winner <- me
			} else if !fault.Is(err, fault.Conflict) {
				return err
			}
			return nil
		})
		if n := won.Load(); n < 1 || (n > 1 && s.Atomic) {
			t.Errorf("%d of %d writers won", n, s.Racers)
		}
		if s.Atomic {
			s.expect(t, key, <-winner)
		}
	}
}

func ifVersion(t *testing.T, s *suite) {
	first := s.put(t, "config", "one")
	second, err := s.Put(t.Context(), "config", []byte("two"), store.PutOptions{IfVersion: first})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "config", []byte("three"), store.PutOptions{IfVersion: first})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fmt.Sprint(err), store.URL(s, "config")) {
		t.Errorf("a write with an old version: %v; want a conflict that names the object", err)
	}
	if v := s.expect(t, "config", "two"); v != second {
		t.Errorf("the version is %q, put gave %q", v, second)
	}
	if _, err := s.Put(t.Context(), "absent", []byte("x"), store.PutOptions{IfVersion: first}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a write with a version where there is nothing: %v; want a conflict", err)
	}
	if got := keys(t, s, ""); !slices.Equal(got, []string{"config"}) {
		t.Errorf("listing: %q", got)
	}
}

func lostUpdate(t *testing.T, s *suite) {
	const each = 4
	s.put(t, "counter", "0")
	s.race(t, func(client store.Store, _ int) error {
		for done := 0; done < each; {
			data, v, err := client.Get(t.Context(), "counter")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			_, err = client.Put(t.Context(), "counter", []byte(strconv.Itoa(n+1)), store.PutOptions{IfVersion: v})
			switch {
			case err == nil:
				done++
			case !fault.Is(err, fault.Conflict):
				return err
			}
		}
		return nil
	})
	data, _, err := s.Get(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(each * s.Racers); s.Atomic && string(data) != want {
		t.Errorf("the counter is %s after %s updates", data, want)
	}
}

func remove(t *testing.T, s *suite) {
	first := s.put(t, "x/a", "one")
	second := s.put(t, "x/a", "two")
	if err := s.Delete(t.Context(), "x/a", store.DeleteOptions{IfVersion: first}); !fault.Is(err, fault.Conflict) {
		t.Errorf("delete of an old version: %v; want a conflict", err)
	}
	s.expect(t, "x/a", "two")
	if err := s.Delete(t.Context(), "x/a", store.DeleteOptions{IfVersion: second}); err != nil {
		t.Errorf("delete of the version that is there: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "x/a"); !fault.Is(err, fault.Gone) {
		t.Errorf("get after delete: %v", err)
	}
	for _, o := range []store.DeleteOptions{{}, {IfVersion: second}} {
		for _, key := range []string{"x/a", "never/was/here"} {
			if err := s.Delete(t.Context(), key, o); err != nil {
				t.Errorf("delete of absent %q with %+v: %v", key, o, err)
			}
		}
	}
	s.put(t, "x/a", "again")
	s.expect(t, "x/a", "again")
}

func removeMany(t *testing.T, s *suite) {
	for name, all := range map[string]func(context.Context, store.Store, []string) error{"delete": store.DeleteAll, "purge": store.Purge} {
		s.put(t, "a/1", "x")
		s.put(t, "a/1", "y")
		s.put(t, "a/2 &<", "x")
		s.put(t, "a/3/ü", "x")
		s.put(t, "b", "kept")
		if err := all(t.Context(), store.Sub(s, "a"), []string{"3/ü", "1", "absent", "2 &<"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := all(t.Context(), s, nil); err != nil {
			t.Errorf("%s: nothing: %v", name, err)
		}
		if err := all(t.Context(), s, []string{"../a"}); !fault.Is(err, fault.Permanent) {
			t.Errorf("%s: a bad key: %v", name, err)
		}
		if got := keys(t, s, ""); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s: left: %q", name, got)
		}
	}
}

func wholeObjects(t *testing.T, s *suite) {
	content := func(n int) string { return strings.Repeat(string(rune('a'+n)), 20_000+n) }
	s.put(t, "folder/shared", content(0))
	s.race(t, func(client store.Store, n int) error {
		own := fmt.Sprintf("folder/below/%d", n)
		for range 3 {
			if _, err := client.Put(t.Context(), "folder/shared", []byte(content(n)), store.PutOptions{}); err != nil {
				return err
			}
			data, _, err := client.Get(t.Context(), "folder/shared")
			if err != nil {
				return err
			}
			if got := string(data); len(got) < 20_000 || got != content(int(got[0]-'a')) {
				return fmt.Errorf("a mixed object of %d bytes", len(got))
			}
			if _, err := client.Put(t.Context(), own, []byte("x"), store.PutOptions{}); err != nil {
				return err
			}
			for info, err := range client.List(t.Context(), "folder/") {
				if err != nil {
					return err
				}
				if info.Key != "folder/shared" && !strings.HasPrefix(info.Key, "folder/below/") && !s.Strangers {
					return fmt.Errorf("%q is listed, which nobody wrote", info.Key)
				}
			}
			if err := client.Delete(t.Context(), own, store.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if got := keys(t, s, ""); !slices.Equal(got, []string{"folder/shared"}) {
		t.Errorf("left: %q", got)
	}
}

// race calls f concurrently, each with its own client.
func (s *suite) race(t *testing.T, f func(client store.Store, n int) error) {
	t.Helper()
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := range s.Racers {
		client := s.clients()
		all.Go(func() {
			<-start
			if err := f(client, n); err != nil {
				t.Errorf("client %d: %v", n, err)
			}
		})
	}
	close(start)
	all.Wait()
}
