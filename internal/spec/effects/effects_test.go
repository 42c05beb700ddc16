package effects_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/spec/effects"
)

func TestTheLongestPathCounts(t *testing.T) {
	for _, c := range []struct {
		kind, path string
		want       effects.Effect
		known      bool
	}{
		{api.KindInstanceGroup, "spec.kubelet.maxPods", effects.Restart, true},
		{api.KindInstanceGroup, "spec.kubelet.taints", effects.Live, true},
		{api.KindInstanceGroup, "spec.nodeLabels[example.com/team.x]", effects.Live, true},
		{api.KindInstanceGroup, "spec.rootVolume.size", effects.Replace, true},
		{api.KindInstanceGroup, "spec.cloudLabels[team]", effects.Replace, true},
		{api.KindCluster, "spec.cloudLabels[team]", effects.Replace, true},
		{api.KindInstanceGroup, "spec.min", effects.Replace, false},
		{api.KindCluster, "spec.etcdClusters[main].version", effects.Restart, true},
		{api.KindCluster, "spec.etcdClusters[0].etcdMembers[1].volumeSize", effects.Replace, true},
		{api.KindCluster, "spec.kubernetesVersion", effects.Replace, true},
		{api.KindCluster, "spec.networking.cilium", effects.Replace, true},
		{api.KindCluster, "spec.networking.cilium.hubble.enabled", effects.Live, true},
		{"Host", "spec.publicKey", effects.Replace, false},
	} {
		if got, known := (effects.Table{}).Of(c.kind, c.path); got != c.want || known != c.known {
			t.Errorf("%s %s: %v %v, want %v %v", c.kind, c.path, got, known, c.want, c.known)
		}
	}
	if e := (effects.Table{}).OfAny("spec.machineType"); e != effects.Replace {
		t.Errorf("machine type: %v", e)
	}
	if e := (effects.Table{}).OfAny("spec.kubeProxy.proxyMode"); e != effects.Restart {
		t.Errorf("a field of the cluster: %v", e)
	}
}

// TestEffectsAreWords checks the words with which effects are shown.
func TestEffectsAreWords(t *testing.T) {
	shown := map[effects.Effect]status.Effect{effects.None: status.NoEffect, effects.Live: status.Live, effects.Restart: status.Restart, effects.Replace: status.Replace}
	for e, word := range shown {
		if e.String() != string(word) {
			t.Errorf("%v, want %s", e, word)
		}
	}
	if e := effects.Replace + 1; e.String() != "effect 4" {
		t.Errorf("what is no effect is called %v", e)
	}
}
