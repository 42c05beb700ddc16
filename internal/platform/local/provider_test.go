package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/kinds"
)

func TestProviderIsComplete(t *testing.T) {
	p := Provider(Options{})
	known := map[string]bool{}
	for _, k := range p.Kinds {
		if known[k.KindName()] {
			t.Errorf("two kinds are called %s", k.KindName())
		}
		known[k.KindName()] = true
		if p.Limits[k.KindAPI()] == 0 {
			t.Errorf("%s: the API %q has no limit", k.KindName(), k.KindAPI())
		}
	}
	if n := kinds.MachineGroups.New("x", kinds.MachineGroup{Name: "nodes"}); n.Kind.Group(n.Want) != "nodes" {
		t.Errorf("the group of a machine group is %q", n.Kind.Group(n.Want))
	}
	if n := kinds.Volumes.New("x", kinds.Volume{Name: "nodes"}); n.Kind.Group(n.Want) != "" {
		t.Errorf("the group of a volume is %q", n.Kind.Group(n.Want))
	}
}

// TestConnectLeavesNoTrace: listing the kinds of a cluster that does not exist creates nothing.
func TestConnectLeavesNoTrace(t *testing.T) {
	if err := ground.Check(ground.LocalHost()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CANNOT RUN: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	root := t.TempDir() + "/root"
	p := Provider(Options{Root: root, Cache: t.TempDir()})
	s, err := p.Connect(t.Context(), platform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range p.Kinds {
		list, err := k.Observe(t.Context(), s.Client, resource.Scope{Cluster: "none.k8s.local", All: true})
		if err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", k.KindName(), list, err)
		}
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("a listing makes folders")
	}
}

// Without a cache folder images would be created in the current folder.
func TestConnectNeedsACacheFolder(t *testing.T) {
	_, err := Provider(Options{Root: t.TempDir()}).Connect(t.Context(), platform.Config{})
	if err == nil || !strings.Contains(err.Error(), "cache folder") || !strings.Contains(fault.Remedy(err), "HOME") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
}

// The root is removed with the last cluster; its parent folder is not.
func TestTheRootNeedsNoFolderMade(t *testing.T) {
	if above := filepath.Dir(DefaultRoot); above != "/var/lib" {
		t.Errorf("%s would stay behind on a host that has no such folder", above)
	}
}
