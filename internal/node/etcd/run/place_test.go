package run

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/opentest"
)

// source returns the source of disks that the options define.
func source(t *testing.T, o Options) volume.Source {
	t.Helper()
	s, err := o.source(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNamesAndPathsOfThisPeer(t *testing.T) {
	o := Options{Containerized: true}
	if got := o.host("/mnt/disks"); got != "/rootfs/mnt/disks" {
		t.Errorf("the machine's files are at %s", got)
	}
	p := place{host: "etcd-events-a.internal.c.example.com"}
	if got := p.name([]string{"https://__name__:2381"})[0]; got != "https://etcd-events-a.internal.c.example.com:2381" {
		t.Errorf("the peer is at %s", got)
	}
}

func TestAPlaceIsFound(t *testing.T) {
	dir := t.TempDir()
	o := Options{Cluster: "etcd", DataDir: filepath.Join(dir, "data"), Address: "fd00::1"}
	disks := source(t, o)
	first, err := o.place(t.Context(), disks)
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.place(t.Context(), disks)
	if err != nil || first != again || !strings.HasPrefix(first.id, "etcd-") {
		t.Errorf("the place is %v, then %v, %v", first, again, err)
	}
	if got := first.name([]string{"https://__name__:1"})[0]; got != "https://[fd00::1]:1" {
		t.Errorf("the URL is %s", got)
	}
	o.VolumeProvider = "vsphere"
	if _, err := o.source(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), `"vsphere" is not known`) {
		t.Errorf("a cloud's volumes: %v", err)
	}
}

// The name of a platform in kOps' manifests of etcd-manager may be another one.
func TestAPlatformIsFoundByTheNameOfItsVolumes(t *testing.T) {
	named := ""
	cloud := func(name, volumes string) onmachine.Platform {
		return onmachine.Platform{Name: name, VolumeProvider: volumes, Volumes: func(onmachine.World, volume.Request) volume.Source { named += name; return volume.Source{} }}
	}
	o := Options{Platforms: []onmachine.Platform{cloud("first", "1st"), cloud("second", ""), {Name: "third"}}}
	for provider, want := range map[string]string{"1st": "first", "second": "second", "first": "", "third": ""} {
		named, o.VolumeProvider = "", provider
		_, err := o.source(slog.New(slog.DiscardHandler))
		if named != want || (err == nil) != (want != "") || err != nil && !strings.Contains(fault.Remedy(err), "use 1st, second, external") {
			t.Errorf("%q finds %q, %v; %s", provider, named, err, fault.Remedy(err))
		}
	}
}

func TestADiskIsFoundByItsTag(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"c--main--0", "c--events--0", "c--events--1", "backups"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := (volume.Request{Disks: dir, Tags: []string{"c--main--"}}).Folder(); err != nil || got != filepath.Join(dir, "c--main--0") {
		t.Errorf("found %s, %v", got, err)
	}
	if _, err := (volume.Request{Disks: dir}).Folder(); err == nil || err.Error() != "the volume provider needs one --volume-tag, not 0" {
		t.Errorf("without a tag: %v", err)
	}
	for _, tags := range [][]string{{"c--events--"}, {"c--cilium--"}, {"*"}, nil} {
		if got, err := (volume.Request{Disks: dir, Tags: tags}).Folder(); err == nil {
			t.Errorf("%v is %s", tags, got)
		}
	}
}

func TestALocalMachineIsWhoItsDiskSays(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("disks/demo.k8s.local--events--a/x", "")
	o := Options{Cluster: "etcd-events", VolumeProvider: "local", VolumeTags: []string{"demo.k8s.local--events--"}, Disks: filepath.Join(dir, "disks"),
		Machines: filepath.Join(dir, "machines"), Port: 3997, DNSSuffix: ".internal.demo.k8s.local", Platforms: nodes.All()}
	disks := source(t, o)
	if _, err := o.place(t.Context(), disks); !fault.Is(err, fault.NotYet) {
		t.Errorf("a machine that is not registered: %v", err)
	}
	write("machines/a.json", `{"address": "127.0.0.1", "labels": {"role": "control-plane"}}`)
	write("machines/b.json", `{"address": "192.0.2.7", "labels": {"role": "control-plane"}}`)
	got, err := o.place(t.Context(), disks)
	want := place{id: "etcd-events-a", dir: filepath.Join(dir, "disks/demo.k8s.local--events--a"), address: "127.0.0.1", host: "etcd-events-a.internal.demo.k8s.local"}
	if err != nil || got != want {
		t.Errorf("the place is %+v, %v", got, err)
	}
	all, err := o.discovery(disks)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all.Discover(t.Context()); err != nil || !slices.Equal(got, []etcd.Sighting{{Endpoint: "127.0.0.1:3997"}, {Endpoint: "192.0.2.7:3997"}}) {
		t.Errorf("the managers are at %v, %v", got, err)
	}
	o.PeerID = strings.Repeat("a", 64)
	if _, err := o.place(t.Context(), disks); err == nil || !strings.Contains(err.Error(), "63 characters") || !strings.Contains(fault.Remedy(err), "shorter name") {
		t.Errorf("a name that no host can have: %v", err)
	}
}

func TestMissingResourcesAreAwaited(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	tries := 0
	err := retryWhileTemporary(t.Context(), log, time.Millisecond, func() error {
		if tries++; tries < 3 {
			return fault.New(fault.Conflict, "another manager uses it")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	if err := retryWhileTemporary(t.Context(), log, time.Millisecond, func() error { tries++; return errors.New("broken") }); err == nil || tries != 1 {
		t.Errorf("what will not go away by itself: %d tries, %v", tries, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retryWhileTemporary(ended, log, time.Millisecond, func() error { return fault.New(fault.NotYet, "no disk") }); err == nil {
		t.Error("the end of the program was waited out")
	}
}

// volumes is a cloud that also mounts its volumes.
type volumes []volume.Volume

func (v volumes) Volumes(context.Context) ([]volume.Volume, error) { return v, nil }

func (volumes) Attach(context.Context, volume.Volume) error { return nil }

func (volumes) Mount(_ context.Context, v volume.Volume) (string, error) {
	return "/mnt/master-" + v.ID, nil
}

func TestAMachineOfACloudIsWhoItsVolumeSays(t *testing.T) {
	o := Options{Cluster: "etcd", VolumeProvider: "x", VolumeTags: []string{"k8s.io/etcd/main", "k8s.io/role/control-plane=1"}, NameTag: "k8s.io/etcd/main", Port: 3996,
		DNSSuffix: ".internal.c.example.com"}
	mine := volume.Volume{ID: "vol-1", Peer: "etcd-a", Machine: "i-1", Attached: true, Addresses: []string{"10.0.0.1"}}
	cloud := volumes{mine, {ID: "vol-2", Peer: "etcd-b", Machine: "i-2", Addresses: []string{"10.0.0.2"}}}
	o.Platforms = []onmachine.Platform{{Name: "x", Volumes: func(_ onmachine.World, r volume.Request) volume.Source {
		if !slices.Equal(r.Tags, o.VolumeTags) {
			t.Errorf("volumes with the tags %q", r.Tags)
		}
		r.Mounter = cloud
		return volume.Attached(cloud, r)
	}}}
	disks := source(t, o)
	got, err := o.place(t.Context(), disks)
	want := place{id: "etcd-a", dir: "/mnt/master-vol-1", address: "10.0.0.1", host: "etcd-a.internal.c.example.com"}
	if err != nil || got != want {
		t.Errorf("the place is %+v, %v", got, err)
	}
	all, err := o.discovery(disks)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all.Discover(t.Context()); err != nil || !slices.Equal(got, []etcd.Sighting{{ID: "etcd-a", Endpoint: "10.0.0.1:3996"}, {ID: "etcd-b", Endpoint: "10.0.0.2:3996"}}) {
		t.Errorf("the managers are at %v, %v", got, err)
	}
	cloud[0].Peer = ""
	if _, err := o.place(t.Context(), disks); err == nil || !strings.Contains(err.Error(), "k8s.io/etcd/main") {
		t.Errorf("a volume that names nobody: %v", err)
	}
}

func TestTheStoresOfEtcdManager(t *testing.T) {
	opentest.Run(t, func(env func(string) string) store.Backends {
		o := Options{Environment: map[string]string{}, Platforms: nodes.All()}
		for _, name := range opentest.Variables() {
			o.Environment[name] = env(name)
		}
		return o.stores()
	})
}

func TestNothingIsWrittenForADeletedCluster(t *testing.T) {
	o := Options{BackupStore: "file://" + t.TempDir()}
	a, _, err := o.archive(t.Context(), place{}, volume.Source{}, peer.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := etcd.WriteStatus(t.Context(), a.Store, etcd.Status{}); !fault.Is(err, fault.Gone) {
		t.Errorf("in the store of a deleted cluster a status is written: %v", err)
	}
}
