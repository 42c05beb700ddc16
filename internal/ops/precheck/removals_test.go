package precheck

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var update = flag.Bool("update", false, "rewrite removals.txt")

// TestRemovalsMatchKubernetes compares the file with what the types of all APIs declare. The
// program reads a file, because it would otherwise have to register all these types at startup.
func TestRemovalsMatchKubernetes(t *testing.T) {
	kinds := map[string][]string{} // by version and release
	for gvk := range scheme.Scheme.AllKnownTypes() {
		o, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		l, ok := o.(interface{ APILifecycleRemoved() (major, minor int) })
		if !ok || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		major, minor := l.APILifecycleRemoved()
		key := fmt.Sprintf("%s %d.%d", gvk.GroupVersion(), major, minor)
		kinds[key] = append(kinds[key], gvk.Kind)
	}
	var want strings.Builder
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[key])
		fmt.Fprintln(&want, key, strings.Join(kinds[key], " "))
	}
	if *update {
		if err := os.WriteFile("removals.txt", []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want.String() != removals {
		t.Errorf("removals.txt is not that of k8s.io/api; rewrite it: go test ./internal/ops/precheck -run Removals -update\n%s", want.String())
	}
}

func TestKindsThatAnUpgradeRemoves(t *testing.T) {
	at := func(minor uint64) semver.Version { return semver.Version{Major: 1, Minor: minor} }
	gone, err := removedBy(at(21), at(25))
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[schema.GroupVersionKind]string{
		{Group: "networking.k8s.io", Version: "v1beta1", Kind: "Ingress"}:         "1.22",
		{Group: "batch", Version: "v1beta1", Kind: "CronJob"}:                     "1.25",
		{Group: "apps", Version: "v1beta1", Kind: "Deployment"}:                   "", // removed before
		{Group: "storage.k8s.io", Version: "v1beta1", Kind: "CSIStorageCapacity"}: "", // removed after
	} {
		if gone[kind] != want {
			t.Errorf("%v goes with %q, want %q", kind, gone[kind], want)
		}
	}
	if gone, err := removedBy(at(25), at(25)); err != nil || len(gone) > 0 {
		t.Errorf("without an upgrade: %v, %v", gone, err)
	}
}
