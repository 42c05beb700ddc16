package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

func roundTrip(t *testing.T, s *suite) {
	first := s.put(t, "cluster/config", "one")
	if v := s.expect(t, "cluster/config", "one"); v != first {
		t.Errorf("get gives version %q, put gave %q", v, first)
	}
	second := s.put(t, "cluster/config", "two, longer")
	if v := s.expect(t, "cluster/config", "two, longer"); v != second || v == first {
		t.Errorf("after another write the version is %q; put gave %q, then %q", v, first, second)
	}
	binary := string([]byte{0, 255, '\n', 0x80, '\r'})
	s.put(t, "binary", binary)
	s.expect(t, "binary", binary)
	s.put(t, "empty", "")
	s.expect(t, "empty", "")
	if _, err := s.Put(t.Context(), "private", []byte("key"), store.PutOptions{Private: true}); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "private", "key")
}

func absent(t *testing.T, s *suite) {
	s.put(t, "a/b", "x")
	for _, key := range []string{"nothing", "a", "a/c", "a/b/c"} {
		if data, v, err := s.Get(t.Context(), key); !fault.Is(err, fault.Gone) || data != nil || v != "" {
			t.Errorf("get %q: %q, version %q, error %v; want class gone", key, data, v, err)
		}
	}
	if got := keys(t, s, "nothing/"); got != nil {
		t.Errorf("listing of nothing: %q", got)
	}
}

func oddKeys(t *testing.T, s *suite) {
	odd := []string{
		"with space/and another", " lead and trail ", "plus+and%25percent%2F", "dots.and..more/.hidden", "...",
		"ünïcödé/日本/🙂", "a&b<c>d\"e'f", "q?x=1&y=2#frag", "colon:semi;comma,at@eq=", "[list]*{x}|~^`$!()",
		strings.Repeat("long/", 60) + strings.Repeat("n", 200),
	}
	if !s.Slashes {
		odd = append(odd, backslash)
	}
	for _, key := range odd {
		s.put(t, key, "content of "+key)
	}
	for _, key := range odd {
		s.expect(t, key, "content of "+key)
	}
	slices.Sort(odd)
	if diff := cmp.Diff(odd, keys(t, s, "")); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
	for _, key := range odd {
		if got := keys(t, s, key); len(got) != 1 || got[0] != key {
			t.Errorf("listing with prefix %q: %q", key, got)
		}
		if err := s.Delete(t.Context(), key, store.DeleteOptions{}); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if got := keys(t, s, ""); got != nil {
		t.Errorf("left after deletion: %q", got)
	}
}

const backslash = "back\\slash"

func badKeys(t *testing.T, s *suite) {
	bad := []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\x00b", "a\nb", "\xff", strings.Repeat("x", store.MaxKey+1)}
	if s.Slashes {
		bad = append(bad, backslash)
	}
	for _, key := range bad {
		_, _, getErr := s.Get(t.Context(), key)
		_, putErr := s.Put(t.Context(), key, []byte("x"), store.PutOptions{})
		delErr := s.Delete(t.Context(), key, store.DeleteOptions{})
		allErr := store.DeleteAll(t.Context(), s, []string{key})
		for call, err := range map[string]error{"get": getErr, "put": putErr, "delete": delErr, "delete all": allErr} {
			if !fault.Is(err, fault.Permanent) {
				t.Errorf("%s %q: %v; want a permanent error", call, key, err)
			}
		}
	}
	if got := keys(t, s, ""); got != nil {
		t.Errorf("refused writes left %q", got)
	}
}

func nested(t *testing.T, s *suite) {
	s.put(t, "a", "parent")
	_, err := s.Put(t.Context(), "a/b", []byte("child"), store.PutOptions{})
	s.expect(t, "a", "parent")
	if !s.Nested {
		if !fault.Is(err, fault.Permanent) && !fault.Is(err, fault.Conflict) {
			t.Errorf("an object below an object: %v; want it refused", err)
		}
		s.put(t, "c/d", "child")
		if _, err := s.Put(t.Context(), "c", []byte("parent"), store.PutOptions{}); err == nil {
			t.Error("an object above an object was not refused")
		}
		s.expect(t, "c/d", "child")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "a/b", "child")
	if err := s.Delete(t.Context(), "a", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "a/b", "child")
}

func large(t *testing.T, s *suite) {
	data := strings.Repeat("0123456789abcdef", 6<<20/16)
	first := s.put(t, "backups/large", data)
	if v := s.expect(t, "backups/large", data); v != first {
		t.Errorf("get gives version %q, put gave %q", v, first)
	}
	for info, err := range s.List(t.Context(), "backups/") {
		if err != nil || info.Version != first || info.Size != int64(len(data)) {
			t.Errorf("listed as %+v, %v; want version %q", info, err, first)
		}
		if info.Digest != "" && info.Digest != store.Digest([]byte(data)) {
			t.Errorf("listed with digest %q", info.Digest)
		}
	}
	again, err := s.Put(t.Context(), "backups/large", []byte(data+"!"), store.PutOptions{IfVersion: first})
	if err != nil || again == first {
		t.Errorf("conditional write: version %q after %q, %v", again, first, err)
	}
	if _, err := s.Put(t.Context(), "backups/large", []byte("x"), store.PutOptions{IfVersion: first}); !fault.Is(err, fault.Conflict) {
		t.Errorf("conditional write with an old version: %v; want a conflict", err)
	}
}

func part(t *testing.T, s *suite) {
	s.put(t, "a/config", "a")
	s.put(t, "ab/config", "ab")
	sub := &suite{Traits: s.Traits, Store: store.Sub(s.Store, "a")}
	sub.expect(t, "config", "a")
	sub.put(t, "pki/x", "x")
	s.expect(t, "a/pki/x", "x")
	if got := keys(t, sub, ""); !slices.Equal(got, []string{"config", "pki/x"}) {
		t.Errorf("listing of the part: %q", got)
	}
	if _, _, err := sub.Get(t.Context(), "../ab/config"); !fault.Is(err, fault.Permanent) {
		t.Errorf("a way out of the part: %v", err)
	}
	if err := store.DeleteAll(t.Context(), sub, []string{"pki/x"}); err != nil {
		t.Fatal(err)
	}
	if err := sub.Delete(t.Context(), "config", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, s, ""); !slices.Equal(got, []string{"ab/config"}) {
		t.Errorf("left in the whole: %q", got)
	}
}

func addresses(t *testing.T, s *suite) {
	root := s.About().URL
	if !strings.Contains(root, "://") || strings.HasSuffix(root, "/") {
		t.Errorf("the store's URL is %q", root)
	}
	if got := store.URL(s, "a/b"); got != root+"/a/b" {
		t.Errorf("an object's URL is %q", got)
	}
	if got := store.URL(store.Sub(s, "x/"), "a"); got != root+"/x/a" {
		t.Errorf("the URL of an object of a part is %q", got)
	}
	if _, _, err := s.Get(t.Context(), "some/key"); err == nil || !strings.Contains(err.Error(), root+"/some/key") {
		t.Errorf("an error does not name the object: %v", err)
	}
}
