package model_test

import (
	"strings"
	"testing"

	"kops.local/kops/api"
)

func TestEtcdOfALocalClusterIsOnFoldersOfItsMachines(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	in.Cluster.Spec.CloudProvider = api.CloudProviderSpec{Local: &api.LocalSpec{}}
	all, _ := build(t, in)
	found := 0
	for name, f := range all {
		etcd, ok := strings.CutPrefix(name, "manifests-etcdmanager-")
		if !ok {
			continue
		}
		found++
		etcd, _, _ = strings.Cut(etcd, "-")
		text, _ := f.Content.Value().Known()
		for _, flag := range []string{"--volume-provider=local", "--volume-tag=" + in.Cluster.Name + "--" + etcd + "--", "--containerized=true", "--dns-suffix=.internal." + in.Cluster.Name} {
			if !strings.Contains(text, "- "+flag+"\n") {
				t.Errorf("%s has no %s:\n%s", name, flag, text)
			}
		}
		if strings.Contains(text, "volume-name-tag") {
			t.Errorf("%s names a tag, which no folder has", name)
		}
	}
	if found != 2 {
		t.Errorf("%d manifests of etcd-manager", found)
	}
}
