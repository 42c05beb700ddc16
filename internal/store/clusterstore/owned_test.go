package clusterstore_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// twoClusters returns a store with the cluster other.example.com, and backends with another store: it
// has the cluster far.example.com of a third one, and the files of near.example.com.
func twoClusters(t *testing.T) (*world, store.Backends) {
	backends := store.Backends{store.Memories()}
	state, err := backends.Open(t.Context(), "memory://state/kops")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(func() store.Store { return state })
	create(t, w.client(t), demo("other.example.com", 1))
	for _, key := range []string{"cluster-completed.spec", "pki/private/kubernetes-ca/keyset.yaml", "secrets/admin", "backups/etcd/main/control/etcd-cluster-spec"} {
		w.put(t, "other.example.com/"+key, "x")
	}
	far, err := backends.Open(t.Context(), "memory://far")
	if err != nil {
		t.Fatal(err)
	}
	for key, cluster := range map[string]string{"third/far.example.com/config": "far.example.com", "near/cluster-completed.spec": "near.example.com", "mine/cluster-completed.spec": name} {
		if _, err := far.Put(t.Context(), key, []byte("kind: Cluster\nmetadata:\n  name: "+cluster+"\n"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := far.Put(t.Context(), "config", []byte("a: 1\n"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return w, backends
}

func TestFoldersOfOtherClusters(t *testing.T) {
	w, backends := twoClusters(t)
	var listings atomic.Int32
	s := w.client(t, func(c *clusterstore.Config) { c.State, c.Backends = countingStore{c.State, &listings}, backends })
	create(t, s, demo(name, 1))
	listings.Store(0)
	const state = "memory://state/kops/"
	for _, c := range []struct {
		base, keys, secrets string
		want                []string
	}{
		{},
		{base: state + name},
		{base: "memory://state/kops//" + name + "/x", keys: state + name + "/k", secrets: state + name + "/s"},
		{base: "memory://far/mine", keys: "memory://far/mine/keys", secrets: "memory://elsewhere"},
		{base: "memory://far/new", keys: "memory://far/third/far"},
		{base: state + "other.example.com", want: []string{
			`Cluster/` + name + `: spec.configBase: is the folder of cluster other.example.com, got "` + state + `other.example.com"; write a folder that no other cluster uses, such as ` + state + name}},
		{base: "memory://state/kops//other.example.com/", want: []string{"spec.configBase: is the folder of cluster other.example.com"}},
		{base: state + "other.example.com/a/b", want: []string{"spec.configBase: is in the folder of cluster other.example.com"}},
		{base: "memory://state/kops", want: []string{"spec.configBase: contains the folder of cluster other.example.com"}},
		{base: "memory://state", want: []string{"spec.configBase: contains the folder of cluster other.example.com"}},
		{base: state + ".kops/other.example.com", want: []string{"spec.configBase: is in the folder of kops' own files"}},
		{keys: state + "other.example.com/pki", secrets: state + "other.example.com/secrets/", want: []string{
			"spec.keyStore: is in the folder of cluster other.example.com", "such as " + state + name + "/pki",
			"spec.secretStore: is in the folder of cluster other.example.com", "such as " + state + name + "/secrets"}},
		{base: "memory://far/mine", keys: "memory://far/third/far.example.com/pki", want: []string{"spec.keyStore: is in the folder of cluster far.example.com"}},
		{base: "memory://far/third", want: []string{"spec.configBase: contains the folder of cluster far.example.com"}},
		{secrets: "memory://far/near/secrets", want: []string{"spec.secretStore: is in the folder of cluster near.example.com"}},
	} {
		spec := demo(name, 1).Spec
		spec.Spec.ConfigStore = api.ConfigStoreSpec{Base: c.base, Keypairs: c.keys, Secrets: c.secrets}
		err := folders(t, s, spec).CheckOwned(t.Context(), true)
		if (err != nil) != (len(c.want) > 0) || err != nil && slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%q, %q and %q: %v; want %q", c.base, c.keys, c.secrets, err, c.want)
		}
		elsewhere := strings.Contains(c.base+c.keys+c.secrets, "memory://far")
		if err := folders(t, s, spec).CheckOwned(t.Context(), false); (err != nil) != (len(c.want) > 0 && !elsewhere) {
			t.Errorf("%q, %q and %q, without other stores: %v", c.base, c.keys, c.secrets, err)
		}
		if c.base == state+name && listings.Load() > 0 {
			t.Error("the cluster's own folder was listed")
		}
	}
	spec := demo(name, 1).Spec
	spec.Spec.ServiceAccountIssuerDiscovery = &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: state + "other.example.com"}
	spec.Spec.EtcdClusters = []api.EtcdClusterSpec{{Name: "main", Backups: &api.EtcdBackupSpec{BackupStore: state + "other.example.com/backups/etcd/main"}}}
	err := folders(t, s, spec).CheckOwned(t.Context(), true)
	for _, want := range []string{"spec.serviceAccountIssuerDiscovery.discoveryStore: is the folder of cluster other.example.com", "spec.etcdClusters[0].backups.backupStore: is in the folder of cluster other.example.com"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	spec.Spec.ServiceAccountIssuerDiscovery.DiscoveryStore, spec.Spec.EtcdClusters[0].Backups.BackupStore = "memory://state/kops", "memory://far/near"
	if err := folders(t, s, spec).CheckOwned(t.Context(), true); err != nil {
		t.Errorf("outside of the folders of clusters: %v", err)
	}
}

func TestDeletionKeepsWhatBelongsToAnotherCluster(t *testing.T) {
	const other = "memory://state/kops/other.example.com"
	for _, c := range []struct {
		name   string
		change func(*api.ClusterSpec)
		want   []string
	}{
		{"all", func(s *api.ClusterSpec) { s.ConfigStore.Base = other }, []string{"spec.configBase: is kept, because it is the folder of cluster other.example.com"}},
		{"keys and secrets", func(s *api.ClusterSpec) {
			s.ConfigStore = api.ConfigStoreSpec{Keypairs: other + "/pki", Secrets: other + "/secrets"}
		}, []string{"spec.keyStore: is kept, because it is in the folder of cluster other.example.com", "spec.secretStore: is kept"}},
		{"the whole store", func(s *api.ClusterSpec) { s.ConfigStore.Base = "memory://state/kops" },
			[]string{"spec.configBase: is kept, because it contains the folder of cluster other.example.com", "if it has files of cluster " + name + ", delete them yourself"}},
		{"an issuer", func(s *api.ClusterSpec) {
			s.ServiceAccountIssuerDiscovery = &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: other}
		}, []string{"discoveryStore: is kept"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, backends := twoClusters(t)
			w.put(t, "other.example.com/.well-known/openid-configuration", "x")
			s := w.client(t, func(c *clusterstore.Config) { c.Backends = backends })
			before := w.raw(t)
			made := demo(name, 1)
			c.change(&made.Spec.Spec)
			created := create(t, s, made)
			w.put(t, name+"/"+sshKeyFile, ed25519)
			_, l := acquire(t, s, "jane")
			d, err := s.Deletion(t.Context(), created)
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			for _, k := range d.Kept {
				if kept = append(kept, k.String()); !k.Warning {
					t.Errorf("%s is no warning", k)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(strings.Join(kept, "\n"), want) {
					t.Errorf("kept %q; want %q", kept, want)
				}
			}
			if slices.ContainsFunc(d.URLs, func(u string) bool { return strings.Contains(u, "other.example.com") }) {
				t.Errorf("to delete: %q", d.URLs)
			}
			if err := d.Run(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, w.raw(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
