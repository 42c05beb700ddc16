package kops

import (
	"slices"
	"testing"

	"kops.local/kops/api"
)

func TestAFolderElsewhereIsOpenedOnce(t *testing.T) {
	backups := func(url string) api.EtcdClusterSpec {
		return api.EtcdClusterSpec{Backups: &api.EtcdBackupSpec{BackupStore: url}}
	}
	s := &api.ClusterSpec{
		ServiceAccountIssuerDiscovery: &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: "s3://open/keys/"},
		EtcdClusters: []api.EtcdClusterSpec{backups("s3://b/c/"), backups("s3://b/c"), backups("s3://b/c/"), backups(""), {},
			backups("s3://state/c.example.com/backups/etcd/main"), backups("s3://state/c.example.com-backups")},
	}
	want := []string{"s3://open/keys", "s3://b/c", "s3://state/c.example.com-backups"}
	if got := elsewhere(s, "s3://state/c.example.com/"); !slices.Equal(got, want) {
		t.Errorf("opened %q, want %q", got, want)
	}
}
