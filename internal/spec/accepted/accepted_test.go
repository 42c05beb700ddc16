package accepted_test

import (
	"testing"

	"github.com/blang/semver/v4"

	"kops.local/kops/internal/spec/accepted"
)

func TestWhatEachMinorVersionAccepts(t *testing.T) {
	of := func(minor uint64) accepted.Release {
		r, ok := accepted.Of(semver.Version{Major: 1, Minor: minor})
		if !ok {
			t.Fatalf("nothing is known of 1.%d", minor)
		}
		return r
	}
	for minor := uint64(32); minor <= 36; minor++ {
		r := of(minor)
		for what, got := range map[string]bool{
			"NodeRestriction": r.Plugin("NodeRestriction"), "ImageVolume": r.Gate("ImageVolume"), "AllAlpha": r.Gate("AllAlpha"),
			"etcd-servers": r.Flag("kube-apiserver", "etcd-servers"), "v": r.Flag("kube-scheduler", "v"), "feature-gates": r.Flag("kubelet", "feature-gates"),
			"allocate-node-cidrs": r.Flag("kube-controller-manager", "allocate-node-cidrs"), "proxy-mode": r.Flag("kube-proxy", "proxy-mode"),
		} {
			if !got {
				t.Errorf("%s does not accept %s", r, what)
			}
		}
		for what, got := range map[string]bool{
			"Initializers": r.Plugin("Initializers"), "PersistentVolumeLabel": r.Plugin("PersistentVolumeLabel"), "CSIMigrationAWS": r.Gate("CSIMigrationAWS"),
			"insecure-port": r.Flag("kube-apiserver", "insecure-port"), "etcd-quorum-read": r.Flag("kube-apiserver", "etcd-quorum-read"),
			"cloud-provider": minor > 32 && r.Flag("kube-apiserver", "cloud-provider"),
		} {
			if got {
				t.Errorf("%s accepts %s", r, what)
			}
		}
	}
	if _, ok := accepted.Of(semver.Version{Major: 1, Minor: 31}); ok {
		t.Error("1.31 is known")
	}
}
