package effects_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/spec/effects"
)

// specs returns the kinds whose fields affect machines.
func specs() map[string]reflect.Type {
	return map[string]reflect.Type{api.KindCluster: reflect.TypeFor[api.ClusterSpec](), api.KindInstanceGroup: reflect.TypeFor[api.InstanceGroupSpec]()}
}

// TestEveryFieldHasAnEffect checks that the table is complete: every field has an effect on running
// machines, and every entry belongs to a field.
func TestEveryFieldHasAnEffect(t *testing.T) {
	for kind, spec := range specs() {
		var paths []string
		walk(spec, "spec", func(path string) {
			paths = append(paths, path)
			if _, ok := effects.Of(kind, path); !ok {
				t.Errorf("%s %s: what its change takes is not in the table", kind, path)
			}
		})
		if len(paths) < 100 {
			t.Errorf("%s has only %d fields", kind, len(paths))
		}
		seen := map[string]bool{}
		for _, e := range effects.Table(kind) {
			if !slices.ContainsFunc(paths, func(path string) bool { return effects.Why(kind, path) == e }) {
				t.Errorf("%s has no field that goes by %s", kind, e.Path)
			}
			if seen[e.Path] {
				t.Errorf("%s: %s is said twice", kind, e.Path)
			}
			seen[e.Path] = true
		}
	}
}

// walk visits the leaves of a spec.
func walk(t reflect.Type, path string, visit func(string)) {
	switch {
	case t.Kind() == reflect.Pointer:
		walk(t.Elem(), path, visit)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walk(t.Elem(), path+"[0]", visit)
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[resource.Quantity]() && t != reflect.TypeFor[metav1.Duration]() && t != reflect.TypeFor[intstr.IntOrString]() && t != reflect.TypeFor[time.Time]():
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			walk(t.Field(i).Type, path+"."+name, visit)
		}
		if t.NumField() == 0 {
			visit(path)
		}
	default:
		visit(strings.TrimSuffix(path, "[0]"))
	}
}

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
		if got, known := effects.Of(c.kind, c.path); got != c.want || known != c.known {
			t.Errorf("%s %s: %v %v, want %v %v", c.kind, c.path, got, known, c.want, c.known)
		}
	}
	if e := effects.OfAny("spec.machineType"); e != effects.Replace {
		t.Errorf("machine type: %v", e)
	}
	if e := effects.OfAny("spec.kubeProxy.proxyMode"); e != effects.Restart {
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
