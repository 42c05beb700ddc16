package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/store"
)

func listing(t *testing.T, s *suite) {
	all := []string{"a-b", "a/b", "a/c/d", "a0", "b", "config", "instancegroup/master-a", "instancegroup/nodes", "instancegroups"}
	for _, key := range []int{5, 0, 8, 3, 1, 7, 2, 6, 4} {
		s.put(t, all[key], "x")
	}
	tests := []struct {
		prefix string
		want   []string
	}{
		{"", all},
		{"a", []string{"a-b", "a/b", "a/c/d", "a0"}},
		{"a/", []string{"a/b", "a/c/d"}},
		{"a/c", []string{"a/c/d"}},
		{"a/c/d", []string{"a/c/d"}},
		{"a/c/d/", nil},
		{"inst", all[6:]},
		{"instancegroup/", []string{"instancegroup/master-a", "instancegroup/nodes"}},
		{"instancegroup/n", []string{"instancegroup/nodes"}},
		{"/", nil},
		{"../", nil},
		{"c", []string{"config"}},
		{"z", nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, keys(t, s, tt.prefix)); diff != "" {
			t.Errorf("prefix %q (-want +got):\n%s", tt.prefix, diff)
		}
	}
}

func describesItself(t *testing.T, s *suite) {
	contents := map[string]string{"config": "kind: Cluster\n", "empty": "", "pki/private/ca/keyset.yaml": string(make([]byte, 1<<20))}
	for key, data := range contents {
		s.put(t, key, data)
	}
	s.put(t, "config", contents["config"]) // the same content again
	seen := 0
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		data := contents[info.Key]
		if v := s.expect(t, info.Key, data); v != info.Version || info.Size != int64(len(data)) {
			t.Errorf("%s is listed as %+v; it has version %q and %d bytes", info.Key, info, v, len(data))
		}
		if want := store.Digest([]byte(data)); info.Digest != want && (s.Digests || info.Digest != "") {
			t.Errorf("%s is listed with digest %q, want %q", info.Key, info.Digest, want)
		}
	}
	if seen != len(contents) {
		t.Errorf("%d objects listed, want %d", seen, len(contents))
	}
}

// putMany writes n objects, several at a time, and returns their keys in order.
func putMany(t *testing.T, s *suite, n int) []string {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	var all []string
	for i := range n {
		key := numbered(i)
		all = append(all, key)
		g.Go(func() error {
			_, err := s.Put(ctx, key, []byte(key), store.PutOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

func pages(t *testing.T, s *suite) {
	all := putMany(t, s, 1003)
	if got := keys(t, s, "many/"); !slices.Equal(got, all) {
		t.Errorf("%d objects listed of %d, or in another order", len(got), len(all))
	}
	if err := store.DeleteAll(t.Context(), s, append(all, "many/absent")); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, s, ""); got != nil {
		t.Errorf("left after deletion: %d objects, the first is %q", len(got), got[0])
	}
}

func stopEarly(t *testing.T, s *suite) {
	all := putMany(t, s, 5)
	n := 0
	for info, err := range s.List(t.Context(), "") {
		if err != nil || info.Key != all[n] {
			t.Fatalf("object %d is %q, %v", n, info.Key, err)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d objects before leaving", n)
	}
}

func cancelled(t *testing.T, s *suite) {
	s.put(t, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, getErr := s.Get(ctx, "a")
	_, putErr := s.Put(ctx, "a", []byte("y"), store.PutOptions{})
	delErr := s.Delete(ctx, "a", store.DeleteOptions{})
	var listErr error
	for _, err := range s.List(ctx, "") {
		listErr = err
	}
	for call, err := range map[string]error{"get": getErr, "put": putErr, "delete": delErr, "list": listErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; want context.Canceled", call, err)
		}
	}
	s.expect(t, "a", "x")
}
