package clusterstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// fill adds what an apply leaves in the store.
func fill(t *testing.T, w *world) {
	for _, key := range []string{"cluster-completed.spec", "kops-version.txt", "cluster.spec", "addons/bootstrap-channel.yaml",
		"addons/coredns.addons.k8s.io/k8s-1.12.yaml", "pki/private/kubernetes-ca/keyset.yaml", sshKeyFile, "secrets/admin",
		"igconfig/node/nodes/nodeupconfig.yaml", "manifests/etcd/main-a.yaml", "backups/etcd/main/control/etcd-cluster-spec"} {
		w.put(t, name+"/"+key, "x")
	}
}

func deletion(t *testing.T, w *world) {
	s := w.client(t)
	create(t, s, demo("demo.example.com.au", 1))
	other := w.raw(t)
	c := create(t, s, demo(name, 2))
	fill(t, w)
	w.put(t, name+"/"+store.ProofKey, "x") // from a folder that was opened as a store
	ctx, l := acquire(t, s, "jane")
	if _, err := s.Append(ctx, l, c, clusterstore.Revision{Result: "done"}); err != nil {
		t.Fatal(err)
	}
	d, err := s.Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	all := len(w.raw(t)) - len(other) - 1 // without the lease
	if len(d.URLs) != all || !slices.Contains(d.URLs, s.URL()+"/"+name+"/secrets/admin") || !slices.Contains(d.URLs, s.URL()+"/.kops/"+name+"/pack") {
		t.Errorf("%d of %d objects to delete: %q", len(d.URLs), all, d.URLs)
	}
	if err := d.Run(ctx, l); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(other, w.raw(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release after a deletion: %v", err)
	}
	if diff := cmp.Diff(other, w.raw(t)); diff != "" {
		t.Errorf("left after the release (-want +got):\n%s", diff)
	}
	if got := create(t, s, demo(name, 1)); len(got.Groups) != 1 {
		t.Errorf("a new cluster of the name: %+v", got)
	}
}

func deletionGuard(t *testing.T, w *world) {
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	fill(t, w)
	w.put(t, name+"/photos/holiday.jpg", "x")
	before := w.raw(t)
	_, err := s.Deletion(t.Context(), c)
	if want := "refusing to delete: unknown file found: " + s.URL() + "/" + name + "/photos/holiday.jpg"; err == nil || err.Error() != want || fault.Remedy(err) == "" {
		t.Errorf("%v, remedy %q; want %s", err, fault.Remedy(err), want)
	}
	if diff := cmp.Diff(before, w.raw(t)); diff != "" {
		t.Errorf("something was deleted (-before +after):\n%s", diff)
	}
}

// A deletion that is interrupted anywhere can be repeated until nothing is left.
func TestDeletionCanBeRepeated(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 2))
	fill(t, w)
	tries := 0
	for {
		tries++
		limited := &limitedStore{Store: w.open(), left: 2}
		s := w.client(t, func(c *clusterstore.Config) { c.State = limited })
		c, err := s.Load(t.Context(), name)
		if fault.Is(err, fault.Gone) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Deletion(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_, l, err := s.Acquire(t.Context(), name, holder("jane"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Run(t.Context(), l); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tries > 50 {
			t.Fatal("it does not come to an end")
		}
	}
	if tries < 5 {
		t.Fatalf("%d tries: the deletion was not cut off", tries)
	}
	if left := w.raw(t); left != nil {
		t.Errorf("left: %q", left)
	}
}

// limitedStore allows some deletions, and then none.
type limitedStore struct {
	store.Store
	left int
}

func (l *limitedStore) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if l.left--; l.left < 0 {
		return errCut
	}
	return l.Store.Delete(ctx, key, o)
}

// A machine that still runs writes while the cluster is being deleted, until it finds that the cluster is
// gone.
func TestDeletionRemovesWhatIsWrittenMeanwhile(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	fill(t, w)
	_, l := acquire(t, s, "jane")
	writing := &losingStore{Store: w.open(), at: name + "/backups/etcd/main/control/etcd-cluster-spec", lose: func() {
		for _, key := range []string{"2026-08-01T10:15:00Z-000001/etcd.backup.gz", ".kops/status"} {
			w.put(t, name+"/backups/etcd/main/"+key, "x")
		}
	}}
	d, err := w.client(t, func(c *clusterstore.Config) { c.State = writing }).Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if left := w.raw(t); left != nil {
		t.Errorf("left: %q", left)
	}
}

func TestDeletionFollowsTheSpec(t *testing.T) {
	w := inMemory()
	backends := store.Backends{store.Memories()}
	keys := func(url string) []string {
		s, err := backends.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for info := range s.List(t.Context(), "") {
			out = append(out, info.Key)
		}
		return out
	}
	put := func(url, key string) {
		t.Helper()
		s, err := backends.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, []byte("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := w.client(t, func(c *clusterstore.Config) { c.Backends = backends })
	made := demo(name, 1)
	made.Spec.Spec.ConfigStore = api.ConfigStoreSpec{Base: "memory://far/base", Keypairs: "memory://far/base/my-keys", Secrets: "memory://third/secrets"}
	made.Spec.Spec.ServiceAccountIssuerDiscovery = &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: "memory://public/" + name}
	c := create(t, s, made)
	w.put(t, name+"/"+sshKeyFile, ed25519)
	put("memory://far", "base/kops-version.txt")
	put("memory://far", "base/my-keys/private/ca/keyset.yaml")
	put("memory://far", "unrelated")
	put("memory://third", "unrelated")
	put("memory://public", name+"/.well-known/openid-configuration")
	put("memory://public", name+"/openid/v1/jwks")
	put("memory://public", name+"/index.html")
	f := folders(t, s, c.Spec)
	if err := f.PutSecret(t.Context(), "admin", pki.NewSecret("x"), true); err != nil {
		t.Fatal(err)
	}
	d, err := s.Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, l := acquire(t, s, "jane")
	if err := d.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string][]string{"memory://far": {"unrelated"}, "memory://third": {"unrelated"}, "memory://public": {name + "/index.html"}} {
		if got := keys(url); !slices.Equal(got, want) {
			t.Errorf("left in %s: %q", url, got)
		}
	}
	if got := w.raw(t); got != nil {
		t.Errorf("left in the state store: %q", got)
	}

	c = create(t, s, made)
	put("memory://third", "secrets/a/b")
	if _, err := s.Deletion(t.Context(), c); err == nil || !strings.Contains(err.Error(), "unknown file found: memory://third/secrets/a/b") {
		t.Errorf("an unknown file among the secrets: %v", err)
	}
}

func TestDeletionNeedsTheLease(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	_, l := acquire(t, s, "jane")
	d, err := s.Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.client(t).Break(t.Context(), clusterstore.Holder{}, name); err != nil {
		t.Fatal(err)
	}
	before := w.raw(t)
	if err := d.Run(t.Context(), l); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("a deletion by who lost the lease: %v", err)
	}
	if diff := cmp.Diff(before, w.raw(t)); diff != "" {
		t.Errorf("something was deleted (-before +after):\n%s", diff)
	}
}

// The lease may be lost while the last request but one is in progress.
func TestDeletionEndsWithTheLease(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	held, l := acquire(t, s, "jane")
	ctx, lose := context.WithCancelCause(held)
	losing := &losingStore{Store: w.open(), at: ".kops/" + name + "/pack", lose: func() { lose(clusterstore.ErrLost) }}
	d, err := w.client(t, func(c *clusterstore.Config) { c.State = losing }).Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx, l); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("a deletion by who lost the lease: %v", err)
	}
	if keys := w.raw(t); !slices.Contains(keys, name+"/config") || !slices.Contains(keys, leaseFile) {
		t.Errorf("left: %q", keys)
	}
}

// losingStore calls lose once an object has been deleted.
type losingStore struct {
	store.Store
	at   string
	lose func()
}

func (l *losingStore) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	err := l.Store.Delete(ctx, key, o)
	if key == l.at {
		l.lose()
	}
	return err
}

// Files in a bucket that does not exist need not be deleted.
func TestMissingStoresHoldNothing(t *testing.T) {
	w := inMemory()
	gone := store.Backend{Schemes: []string{"gone"}, Open: func(context.Context, string, string) (store.Store, error) { return missingStore{}, nil }}
	s := w.client(t, func(c *clusterstore.Config) { c.Backends = store.Backends{gone} })
	made := demo(name, 1)
	made.Spec.Spec.ConfigStore = api.ConfigStoreSpec{Keypairs: "gone://keys", Secrets: "gone://secrets"}
	made.Spec.Spec.ServiceAccountIssuerDiscovery = &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: "gone://public"}
	c := create(t, s, made)
	d, err := s.Deletion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, l := acquire(t, s, "jane")
	if err := d.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if left := w.raw(t); left != nil {
		t.Errorf("left: %q", left)
	}
}
