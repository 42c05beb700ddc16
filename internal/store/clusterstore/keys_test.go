package clusterstore_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// ed25519 is a public key, and fingerprint the output of ssh-keygen -l -E md5 for it.
const (
	ed25519     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICL7aKqY83UOAV7YVsPM8gCxSK1d4qPtyLU1AIaszE0e me@host\n"
	fingerprint = "93:fb:ff:e9:9e:cf:32:e1:ce:76:b6:cf:13:f2:1e:a2"
	sshKeyFile  = "pki/ssh/public/admin/93fbffe99ecf32e1ce76b6cf13f21ea2"
)

func folders(t *testing.T, s *clusterstore.Store, c *api.Cluster) *clusterstore.Folders {
	t.Helper()
	f, err := s.Folders(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// keyset returns a keyset with one small key.
func keyset(t *testing.T, name string) *pki.Keyset {
	t.Helper()
	issuer := pki.Issuer{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }, Rand: rand.Reader,
		Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	all, _, err := pki.Ensure(nil, []string{name}, issuer)
	if err != nil {
		t.Fatal(err)
	}
	return all[name]
}

func keysets(t *testing.T, w *world) {
	s := w.client(t)
	c := create(t, s, demo(name, 0))
	f := folders(t, s, c.Spec)
	if got, err := f.Keysets(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("none yet: %v, %v", got, err)
	}
	ca := keyset(t, pki.KubernetesCA)
	if err := f.PutKeyset(t.Context(), ca, true); err != nil {
		t.Fatal(err)
	}
	if err := f.PutKeyset(t.Context(), keyset(t, pki.KubernetesCA), true); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second keyset of the name: %v; want a conflict", err)
	}
	// Files that kOps writes beside them, and a keyset of an old name.
	w.put(t, name+"/pki/issued/kubernetes-ca/1.crt", "old")
	w.put(t, name+"/pki/private/kubernetes-ca/1.key", "old")
	w.put(t, name+"/pki/private/master/keyset.yaml", w.get(t, name+"/pki/private/kubernetes-ca/keyset.yaml"))
	for what, f := range map[string]*clusterstore.Folders{"a new reader": folders(t, w.client(t), c.Spec)} {
		got, err := f.Keysets(t.Context())
		if err != nil || len(got) != 2 || got["master"] == nil || got["master"].Name != "master" || got["master"].Primary != ca.Primary ||
			got[pki.KubernetesCA].Bundle() != ca.Bundle() {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	text := w.get(t, name+"/pki/private/kubernetes-ca/keyset.yaml")
	for _, want := range []string{"apiVersion: kops.k8s.io/v1alpha2\nkind: Keyset\n", "  primaryId: ", "    privateMaterial: ", "  type: Keypair\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the stored keyset lacks %q:\n%s", want, text)
		}
	}
	changesOfAKeyset(t, w, f, ca)
	w.put(t, name+"/pki/private/bad/keyset.yaml", "kind: Keyset")
	if _, err := folders(t, s, c.Spec).Keysets(t.Context()); err == nil || !strings.Contains(err.Error(), "pki/private/bad/keyset.yaml") {
		t.Errorf("a damaged keyset: %v", err)
	}
}

// changesOfAKeyset checks that changes are compared with what was read, even if kOps
// wrote it in another version, or under an old name.
func changesOfAKeyset(t *testing.T, w *world, f *clusterstore.Folders, ca *pki.Keyset) {
	t.Helper()
	got, version, err := f.Keyset(t.Context(), ca.Name)
	if err != nil || got.Primary != ca.Primary || version == "" {
		t.Fatalf("read one: %v", err)
	}
	other := keyset(t, ca.Name)
	if err := f.ReplaceKeyset(t.Context(), other, version); err != nil {
		t.Fatal(err)
	}
	if err := f.ReplaceKeyset(t.Context(), ca, version); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "your change was not made") {
		t.Errorf("a second change of what was read: %v", err)
	}
	text := strings.NewReplacer("v1alpha2", "v1alpha3", "primaryId:", "primaryID:").Replace(w.get(t, name+"/pki/private/kubernetes-ca/keyset.yaml"))
	w.put(t, name+"/pki/private/kubernetes-ca/keyset.yaml", text)
	if got, _, err := f.Keyset(t.Context(), ca.Name); err != nil || got.Primary != other.Primary || got.Bundle() != other.Bundle() {
		t.Errorf("one of v1alpha3: %v", err)
	}
	old, version, err := f.Keyset(t.Context(), pki.ServiceAccount) // it exists as master
	if err != nil || old == nil || old.Name != pki.ServiceAccount || version != "" {
		t.Fatalf("one of an old name: %v, %q", err, version)
	}
	if err := f.ReplaceKeyset(t.Context(), old, version); err != nil {
		t.Fatal(err)
	}
	if err := f.ReplaceKeyset(t.Context(), old, version); !fault.Is(err, fault.Conflict) {
		t.Errorf("it was there by then: %v", err)
	}
	if none, _, err := f.Keyset(t.Context(), "none-ca"); none != nil || err != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}

func secrets(t *testing.T, w *world) {
	s := w.client(t)
	c := create(t, s, demo(name, 0))
	f := folders(t, s, c.Spec)
	if err := f.PutSecret(t.Context(), "system:dns", pki.NewSecret("token"), true); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, name+"/secrets/system:dns"); got != `{"Data":"dG9rZW4="}` {
		t.Errorf("stored as %s", got)
	}
	if err := f.PutSecret(t.Context(), "system:dns", pki.NewSecret("another"), true); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second secret of the name: %v", err)
	}
	if err := f.PutSecret(t.Context(), "kube", pki.NewSecret("x"), false); err != nil {
		t.Fatal(err)
	}
	_, version, err := f.SecretAt(t.Context(), "kube")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if err := f.ReplaceSecret(t.Context(), "kube", pki.NewSecret("y"), version); (err == nil) != want || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("replaced against a version: %v", err)
		}
	}
	if err := f.ReplaceSecret(t.Context(), "kube", pki.NewSecret("z"), ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("replaced as if there were none: %v", err)
	}
	if err := f.PutSecret(t.Context(), "a/b", pki.NewSecret("x"), false); !fault.Is(err, fault.Permanent) {
		t.Errorf("a bad name: %v", err)
	}
	names, err := f.SecretNames(t.Context())
	if err != nil || !slices.Equal(names, []string{"kube", "system:dns"}) {
		t.Errorf("names %q, %v", names, err)
	}
	one, err := folders(t, w.client(t), c.Spec).Secret(t.Context(), "system:dns")
	if err != nil || one.Reveal() != "token" || strings.Contains(fmt.Sprintf("%v %+v %#v %s", one, one, one, one), "token") {
		t.Errorf("read back as %v, %v", one, err)
	}
	if err := f.DeleteSecret(t.Context(), "kube"); err != nil {
		t.Fatal(err)
	}
	all, err := f.AllSecrets(t.Context())
	if err != nil || len(all) != 1 || all["system:dns"].Reveal() != "token" {
		t.Errorf("all: %v, %v", all, err)
	}
	if _, err := f.Secret(t.Context(), "kube"); !fault.Is(err, fault.Gone) {
		t.Errorf("a deleted one: %v", err)
	}
}

func sshKeys(t *testing.T, w *world) {
	s := w.client(t)
	c := create(t, s, demo(name, 0))
	f := folders(t, s, c.Spec)
	key, err := clusterstore.NewSSHKey(ed25519)
	if err != nil || key.Fingerprint != fingerprint {
		t.Fatalf("%+v, %v", key, err)
	}
	for range 2 {
		if err := f.AddSSHKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.get(t, name+"/"+sshKeyFile); got != ed25519 {
		t.Errorf("stored as %q", got)
	}
	w.put(t, name+"/pki/ssh/public/admin/00:aa", "not a key")
	got, err := folders(t, w.client(t), c.Spec).SSHKeys(t.Context())
	want := []clusterstore.SSHKey{{Fingerprint: "00aa", Text: "not a key"}, key}
	slices.SortFunc(want, func(a, b clusterstore.SSHKey) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := folders(t, s, c.Spec).DeleteSSHKeys(t.Context(), "00:aa"); err != nil {
		t.Fatal(err)
	}
	if got, err := folders(t, s, c.Spec).SSHKeys(t.Context()); len(got) != 1 || got[0] != key || err != nil {
		t.Errorf("after deletion of one: %v, %v", got, err)
	}
	w.put(t, name+"/pki/ssh/public/admin/00:aa", "not a key")
	if err := folders(t, s, c.Spec).DeleteSSHKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := folders(t, s, c.Spec).SSHKeys(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("after deletion: %v, %v", got, err)
	}
	if _, err := clusterstore.NewSSHKey("ssh-rsa nonsense"); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("a bad key: %v", err)
	}
}

// The spec may put files into other stores.
func TestFoldersFollowTheSpec(t *testing.T) {
	w := inMemory()
	backends := store.Backends{store.Memories(), store.Folders()}
	folder := "file://" + t.TempDir()
	put := func(url, key, data string) {
		t.Helper()
		s, err := backends.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, []byte(data), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := api.ConfigStoreSpec{Base: "memory://other/base/", Secrets: "memory://third/s"}
	tests := []struct {
		name                string
		spec                api.ConfigStoreSpec
		offline             bool
		base, keys, secrets string
		reachable           bool
	}{
		{"all in its place", api.ConfigStoreSpec{}, false,
			"memory://state/" + name, "memory://state/" + name + "/pki", "memory://state/" + name + "/secrets", true},
		{"elsewhere", elsewhere, false, "memory://other/base", "memory://other/base/pki", "memory://third/s", true},
		{"elsewhere in the state store", api.ConfigStoreSpec{Base: "memory://state/files", Keypairs: "memory://state/keys"}, true,
			"memory://state/files", "memory://state/keys", "memory://state/files/secrets", true},
		{"elsewhere, without access", api.ConfigStoreSpec{Base: "s3://other/base/", Secrets: "gs://third/s"}, true,
			"s3://other/base", "memory://state/" + name + "/pki", "memory://state/" + name + "/secrets", false},
		{"in a folder elsewhere, without access", api.ConfigStoreSpec{Base: folder}, true, folder, folder + "/pki", folder + "/secrets", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := w.client(t, func(c *clusterstore.Config) { c.Backends, c.Offline = backends, tt.offline })
			c := demo(name, 0).Spec
			c.Spec.ConfigStore = tt.spec
			f := folders(t, s, c)
			if f.Base.URL != tt.base || f.Keys.URL != tt.keys || f.Secrets.URL != tt.secrets || (f.Base.Store != nil) != tt.reachable {
				t.Errorf("base %s (%v), keys %s, secrets %s", f.Base.URL, f.Base.Store != nil, f.Keys.URL, f.Secrets.URL)
			}
			if (f.Unreached == "") != tt.reachable {
				t.Errorf("not reached is %q", f.Unreached)
			}
			for _, folder := range []clusterstore.Folder{f.Base, f.Keys, f.Secrets} {
				if folder.Store != nil && folder.Store.About().URL != folder.URL {
					t.Errorf("the store at %s is %s", folder.URL, folder.Store.About().URL)
				}
			}
		})
	}

	c := demo(name, 0).Spec
	c.Spec.ConfigStore = elsewhere
	s := w.client(t, func(c *clusterstore.Config) { c.Backends = backends })
	f := folders(t, s, c)
	remote := w.client(t, func(c *clusterstore.Config) { c.State, c.Backends, c.Offline = bucketStore{c.State}, backends, true })
	if f := folders(t, remote, c); f.Keys.URL != "memory://other/base/pki" || f.Keys.Store == nil || f.Secrets.URL != "memory://third/s" || f.Unreached != "" {
		t.Errorf("offline, with a state store in a bucket, keys are in %s and secrets in %s", f.Keys.URL, f.Secrets.URL)
	}
	near, far := keyset(t, pki.KubernetesCA), keyset(t, pki.KubernetesCA)
	stored := func(k *pki.Keyset) string {
		data, err := clusterstore.EncodeKeyset(k)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	w.put(t, name+"/pki/private/kubernetes-ca/keyset.yaml", stored(near))
	w.put(t, name+"/pki/private/service-account/keyset.yaml", stored(near))
	put("memory://other/base/pki", "private/kubernetes-ca/keyset.yaml", stored(far))
	put("memory://other/base/pki", sshKeyFile[len("pki/"):], ed25519)
	got, err := f.Keysets(t.Context())
	if err != nil || len(got) != 2 || got["kubernetes-ca"].Primary != far.Primary || got["service-account"].Primary != near.Primary {
		t.Errorf("keysets of both places: %v, %v", got, err)
	}
	keys, err := f.SSHKeys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].Text != ed25519 {
		t.Errorf("ssh keys of both places: %v, %v", keys, err)
	}
	if err := f.AddSSHKey(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, name+"/"+sshKeyFile); got != ed25519 {
		t.Errorf("an ssh key is written beside the state: %q", got)
	}
	if err := f.DeleteSSHKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys, err := f.SSHKeys(t.Context()); len(keys) != 0 || err != nil {
		t.Errorf("left in one of the places: %v, %v", keys, err)
	}

	c.Spec.ConfigStore.Base = "gs://bucket"
	if _, err := s.Folders(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), `open spec.configStore.base: open state store gs://bucket: unknown / unhandled path type "gs"`) {
		t.Errorf("a store that is not known: %v", err)
	}
}

// Folders that Load has listed are not listed again.
func TestFoldersUseTheListingOfLoad(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 1))
	w.put(t, name+"/pki/private/x/keyset.yaml", "x")
	w.put(t, name+"/addons/a/b.yaml", "x")
	var listings atomic.Int32
	s := w.client(t, func(c *clusterstore.Config) { c.State = countingStore{c.State, &listings} })
	c := load(t, s)
	f, err := s.Folders(t.Context(), c.Spec, c)
	if err != nil {
		t.Fatal(err)
	}
	base, err := f.Base.Listing(t.Context())
	if err != nil || len(base) != 5 {
		t.Errorf("base: %v, %v", base, err)
	}
	keys, err := f.Keys.Listing(context.Background())
	if err != nil || len(keys) != 1 || keys[0].Key != "private/x/keyset.yaml" {
		t.Errorf("keys: %v, %v", keys, err)
	}
	if n := listings.Load(); n != 1 {
		t.Errorf("%d listings", n)
	}
	if err := f.PutSecret(t.Context(), "s", pki.NewSecret("x"), false); err != nil {
		t.Fatal(err)
	}
	if names, err := f.SecretNames(t.Context()); len(names) != 1 || err != nil {
		t.Errorf("a listing after a write: %q, %v", names, err)
	}
}
