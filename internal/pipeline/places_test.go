package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store"
)

// Machines read what speaks S3, and the stores that give access to their identity.
func TestStoresThatMachinesRead(t *testing.T) {
	on := func(scheme string) (p platform.Provider) {
		p.Store.Fetch = map[string]string{scheme: "fetch"}
		return p
	}
	buckets, blobs, neither := on("s3"), on("blobs"), platform.Provider{}
	for _, c := range []struct {
		machines      platform.Provider
		endpoint, url string
		want          bool
	}{
		{buckets, "", "s3://b", true}, {blobs, "", "s3://b", false}, {neither, "", "s3://b", false}, {neither, "https://s3.example.com", "s3://b", true},
		{blobs, "", "blobs://b", true}, {neither, "", "blobs://b", false}, {buckets, "https://s3.example.com", "blobs://b", false},
		{neither, "https://s3.example.com", "hos://b", true}, {neither, "", "memfs://b", true}, {buckets, "", "file:///b", false}, {neither, "", "/b", false},
	} {
		w := World{Clouds: []platform.Provider{buckets, blobs, neither}, Environment: map[string]string{storekeys.Endpoint: c.endpoint}}
		if got := w.isReadBy(c.machines, c.url); got != c.want {
			t.Errorf("%s, with the server %q: %v", c.url, c.endpoint, got)
		}
	}
}

func TestAFolderElsewhereIsOpenedOnce(t *testing.T) {
	backups := func(url string) api.EtcdClusterSpec {
		return api.EtcdClusterSpec{Backups: &api.EtcdBackupSpec{BackupStore: url}}
	}
	s := &api.ClusterSpec{
		ServiceAccountIssuerDiscovery: &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: "s3://open/keys/"},
		EtcdClusters: []api.EtcdClusterSpec{backups("s3://b/c/"), backups("s3://b/c"), backups("s3://b/c/"), backups(""), {},
			backups("s3://state/c.example.com/backups/etcd/main"), backups("s3://state/c.example.com-backups")},
	}
	want := []place{
		{"spec.serviceAccountIssuerDiscovery.discoveryStore", "s3://open/keys"}, {"spec.etcdClusters[0].backups.backupStore", "s3://b/c"},
		{"spec.etcdClusters[6].backups.backupStore", "s3://state/c.example.com-backups"},
	}
	if got := foldersElsewhere(s, "s3://state/c.example.com/"); !slices.Equal(got, want) {
		t.Errorf("opened %q, want %q", got, want)
	}
}

// policedStore is a store whose access depends on a policy of its own.
type policedStore struct {
	store.Store
	public func(context.Context) (bool, error)
}

func (p policedStore) About() store.About { return store.About{Public: p.public} }

func TestDocumentsAreReadableOneByOneWhereTheirBucketIsNot(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name   string
		issuer store.Store
		want   bool
		err    error
	}{
		{"no documents", nil, false, nil},
		{"a store without readers", policedStore{}, false, nil},
		{"a public bucket", policedStore{public: func(context.Context) (bool, error) { return true, nil }}, false, nil},
		{"another bucket", policedStore{public: func(context.Context) (bool, error) { return false, nil }}, true, nil},
		{"no answer", policedStore{public: func(context.Context) (bool, error) { return false, refused }}, false, refused},
	} {
		p := Places{issuer: c.issuer}
		if got, err := p.private(t.Context(), nil, false); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}
