package local

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// script returns a boot script like that of machines, around a boot configuration.
func script(hash string) string {
	return "#!/bin/bash\nNODEUP_HASH_AMD64=aa\ncat > conf/kube_env.yaml << '__EOF_KUBE_ENV'\nNodeupConfigHash: " + hash + "\n__EOF_KUBE_ENV\n./nodeup\n"
}

func TestWhatMachinesWereMadeOf(t *testing.T) {
	at := site.Site{Root: t.TempDir(), Cluster: "a.example.com"}
	c := &api.Cluster{}
	c.Name = at.Cluster
	s := &platform.Session{Client: &kinds.Client{Root: at.Root}}
	was := machine.Machine{Group: "nodes", Image: "/images/1", CPUs: 2, MemoryMiB: 2048, Labels: map[string]string{"role": "node"}}
	for _, name := range []string{"nodes-1", "lost-1"} {
		was.Name = name
		if err := site.WriteJSON(at.Path(site.Machines, name, "machine.json"), was); err != nil {
			t.Fatal(err)
		}
		if err := site.Write(at.Path(site.Machines, name, "seed/var/lib/cloud/seed/nocloud/user-data"), []byte(script("one=")), 0o600); err != nil {
			t.Fatal(err)
		}
		was.Group = "lost"
	}
	made := func() map[string]platform.Drift {
		t.Helper()
		out, err := roll().Drift(t.Context(), s, c, nil, []platform.Machine{{Name: "nodes-1"}, {Name: "lost-1"}, {Name: "absent"}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	wish := keeper.Group{Name: "nodes", Size: 1, Image: "/images/1", CPUs: 2, MemoryMiB: 2048, Labels: map[string]string{"role": "node"}, UserData: script("two=")}
	for _, c := range []struct {
		name   string
		change func(*keeper.Group)
		want   []platform.Change
	}{
		{"nothing but the node configuration", func(*keeper.Group) {}, nil},
		{"all", func(g *keeper.Group) {
			g.Image, g.CPUs, g.MemoryMiB, g.DiskGiB, g.Labels = "/images/2", 0, 0, 30, nil
			g.Folders = []machine.Folder{{Host: "/a", Path: "/b"}}
		}, []platform.Change{
			{Field: "spec.image", Have: "/images/1", Want: "/images/2"}, {Field: "spec.machineType", Have: "2cpu-2gib", Want: "host"},
			{Field: "spec.rootVolume.size", Want: "30"}, {Field: "labels of the machine", Have: `{"role":"node"}`},
			{Field: "folders of the host", Want: `[{"Host":"/a","Path":"/b","ReadOnly":false}]`},
		}},
	} {
		g := wish
		c.change(&g)
		if err := site.WriteJSON(keeper.File(at, site.Groups, "nodes"), g); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]platform.Drift{"nodes-1": {Config: "one=", Wanted: "two=", Changes: c.want}}, made()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// A machine that no longer exists counts as terminated and as removed from every balancer,
// and cannot be detached.
func TestARollOfMachinesThatAreGone(t *testing.T) {
	at := site.Site{Root: t.TempDir(), Cluster: "a.example.com"}
	c := &api.Cluster{}
	c.Name = at.Cluster
	s, r := &platform.Session{Client: &kinds.Client{Root: at.Root, Now: time.Now}}, roll()
	gone := platform.Machine{Name: "nodes-1"}
	if err := r.Terminate(t.Context(), s, c, gone); err != nil {
		t.Error(err)
	}
	if err := r.Deregister(t.Context(), s, c, gone); err != nil {
		t.Error(err)
	}
	if err := r.Detach(t.Context(), s, c, gone); !fault.Is(err, fault.Gone) {
		t.Error(err)
	}
}

// TestRoomIsThatOfDisks: there is room for as many machines as their disks fit.
func TestRoomIsThatOfDisks(t *testing.T) {
	root := t.TempDir()
	small, huge := &api.InstanceGroup{}, &api.InstanceGroup{}
	small.Name, huge.Name = "small", "huge"
	size := int32(1 << 30) // GiB: no host has this much
	huge.Spec.RootVolume = &api.InstanceRootVolumeSpec{Size: &size}
	left, err := machine.AvailableDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := room(t.Context(), &platform.Session{Client: &kinds.Client{Root: root}}, &api.Cluster{}, []*api.InstanceGroup{small, huge})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	const least = 2 << 30
	if n := int(max(left, 0) / least); got[0].Group != "small" || got[0].Machines < n-1 || got[0].Machines > n+1 { // other programs use the disk meanwhile
		t.Errorf("%d bytes are room for %+v, and not for about %d", left, got[0], n)
	}
	if got[1].Machines != 0 || !strings.HasPrefix(got[1].Why, "each needs a disk of at least 1073741824 GiB, and ") || !strings.HasPrefix(got[1].Remedy, "free space, or lower spec.rootVolumeSize") {
		t.Errorf("for a disk that no host has: %+v", got[1])
	}
}
