package etcd_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/store"
)

const spec, record = "control/etcd-cluster-spec", ".kops/cluster"

// between is a store that calls happens before each operation.
type between struct {
	store.Store
	happens func()
}

func (b between) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	b.happens()
	return b.Store.Get(ctx, key)
}

func (b between) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	b.happens()
	return b.Store.List(ctx, prefix)
}

func (b between) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	b.happens()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return b.Store.Put(ctx, key, data, o)
}

func (b between) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	b.happens()
	return b.Store.Delete(ctx, key, o)
}

// deletionSteps delete a cluster: they list and remove objects, twice. Writes between the first
// list and the removals make no difference: the second list shows them.
func deletionSteps(t *testing.T, s store.Store) []func() {
	var seen []string
	list := func() {
		for info, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, info.Key)
		}
	}
	remove := func() {
		if err := store.DeleteAll(t.Context(), s, seen); err != nil {
			t.Fatal(err)
		}
		seen = nil
	}
	return []func(){func() { list(); remove() }, list, remove}
}

// snapshot is a Source.
type snapshot []byte

func (s snapshot) Snapshot(_ context.Context, w io.Writer) (backup.Origin, error) {
	_, err := w.Write(s)
	return backup.Origin{EtcdVersion: "3.6.12"}, err
}

// TestADeletedClusterStaysDeleted checks all writes of a manager, with a deletion of the
// cluster between any two of its operations; also if the manager is stopped at the end of the
// deletion.
func TestADeletedClusterStaysDeleted(t *testing.T) {
	now := time.Date(2026, 8, 1, 10, 15, 0, 0, time.UTC)
	pages := snapshot(etcdtest.Snapshot(t, "/registry/namespaces/default"))
	writes := map[string]func(ctx context.Context, s store.Store, c etcd.Control) error{
		"status": func(ctx context.Context, s store.Store, _ etcd.Control) error {
			return etcd.WriteStatus(ctx, s, etcd.Status{At: now})
		},
		"answer": func(ctx context.Context, s store.Store, _ etcd.Control) error {
			return etcd.WriteAnswer(ctx, s, etcd.Answer{Request: "R"})
		},
		"refusal": func(ctx context.Context, s store.Store, _ etcd.Control) error {
			return etcd.WriteRefusal(ctx, s, etcd.Refusal{At: now})
		},
		"created": func(ctx context.Context, s store.Store, _ etcd.Control) error { return etcd.WriteCreated(ctx, s, now) },
		"spec": func(ctx context.Context, s store.Store, _ etcd.Control) error {
			return etcd.WriteSpec(ctx, s, etcd.Spec{MemberCount: 3})
		},
		"record": func(ctx context.Context, s store.Store, c etcd.Control) error {
			return c.SaveRecord(ctx, s, etcd.Record{Token: "T"})
		},
		"backup": func(ctx context.Context, s store.Store, _ etcd.Control) error {
			a := backup.Archive{Store: s, Now: func() time.Time { return now }}
			_, _, err := a.Take(ctx, pages, etcd.Spec{}, now)
			return err
		},
	}
	objects := []string{".kops/status", ".kops/answer", ".kops/refused", "control/etcd-cluster-created", record}
	for what, write := range writes {
		for _, before := range [][]string{{spec}, {spec, record}, append(objects, spec)} {
			attempt := func(at []int, stopped bool) (operations int, left []string) {
				s := store.NewMemory("etcd")
				for _, key := range before {
					if _, err := s.Put(t.Context(), key, []byte("{}"), store.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				c, err := etcd.ReadControl(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				steps := deletionSteps(t, s)
				err = write(ctx, etcd.Guard(between{s, func() {
					for ; len(at) > 0 && at[0] == operations; at = at[1:] {
						steps[0]()
						steps = steps[1:]
						if stopped && len(steps) == 0 {
							stop()
						}
					}
					operations++
				}}), c)
				if len(steps) == 3 && err != nil && len(at) == 0 {
					t.Fatalf("%s where nothing is deleted: %v", what, err)
				}
				for _, step := range steps {
					step()
				}
				for info := range s.List(t.Context(), "") {
					left = append(left, info.Key)
				}
				return operations, left
			}
			n, _ := attempt(nil, false)
			for _, at := range ascendingSequences(3, n) {
				for _, stopped := range []bool{false, true} {
					if _, left := attempt(slices.Clone(at), stopped); left != nil {
						t.Errorf("%s, where the store holds %q, and the steps of the deletion come before operations %v, manager stopped: %v: %q stays", what, before, at, stopped, left)
					}
				}
			}
		}
	}
}

// ascendingSequences returns the ascending sequences of n numbers from 0 to most.
func ascendingSequences(n, most int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, o := range ascendingSequences(n-1, most) {
		first := 0
		if len(o) > 0 {
			first = o[len(o)-1]
		}
		for i := first; i <= most; i++ {
			out = append(out, append(slices.Clone(o), i))
		}
	}
	return out
}

func TestGuardKeepsWhatPutPromises(t *testing.T) {
	s := store.NewMemory("etcd")
	g := etcd.Guard(s)
	put := func(key, text string, o store.PutOptions) (store.Version, error) {
		return g.Put(t.Context(), key, []byte(text), o)
	}
	if _, err := put("a", "1", store.PutOptions{}); !fault.Is(err, fault.Gone) || fault.Remedy(err) == "" {
		t.Fatalf("in a store without the cluster: %v", err)
	}
	if _, err := s.Put(t.Context(), spec, nil, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := put("a", "1", store.PutOptions{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put("a", "2", store.PutOptions{IfAbsent: true}); !fault.Is(err, fault.Conflict) {
		t.Errorf("an object that exists is created: %v", err)
	}
	for i := range 3 {
		if _, err := put("a", fmt.Sprint(i), store.PutOptions{}); err != nil {
			t.Errorf("replace an object: %v", err)
		}
	}
	if _, err := put("a", "5", store.PutOptions{IfVersion: v}); !fault.Is(err, fault.Conflict) {
		t.Errorf("another version is replaced: %v", err)
	}
	if data, _, err := g.Get(t.Context(), "a"); err != nil || string(data) != "2" {
		t.Errorf("the object is %s, %v", data, err)
	}
}
