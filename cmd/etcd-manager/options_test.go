package main

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
	"kops.local/kops/internal/node/etcd/volume"
)

// manifest is how the manifests of control planes start the program.
func manifest() []string {
	return []string{"--backup-interval=10m0s", "--backup-store=s3://bucket/c.example.com/backups/etcd/events", "--client-urls=https://__name__:4002",
		"--cluster-name=etcd-events", "--containerized=true", "--discovery-poll-interval=30s", "--dns-suffix=.internal.c.example.com", "--grpc-port=3997",
		"--network-cidr=10.0.0.0/8", "--peer-urls=https://__name__:2381", "--quarantine-client-urls=https://__name__:3995", "--v=6",
		"--volume-name-tag=k8s.io/etcd/events", "--volume-provider=external", "--volume-tag=c.example.com--events--"}
}

func TestAManifestIsUnderstood(t *testing.T) {
	o, err := parse(manifest(), []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=90d", "ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:8082", "S3_ENDPOINT=https://s3.example.com", "HOME=/root"})
	if err != nil {
		t.Fatal(err)
	}
	if o.cluster != "etcd-events" || o.grpcPort != 3997 || o.backupInterval != 10*time.Minute || o.discover != 30*time.Second {
		t.Errorf("read %+v", o)
	}
	if want := (etcd.Retention{Hourly: 7 * 24 * time.Hour, Daily: 90 * 24 * time.Hour}); o.retention != want {
		t.Errorf("retention %v", o.retention)
	}
	if !slices.Equal(o.etcdEnvironment, []string{"ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:8082"}) {
		t.Errorf("etcd gets %v", o.etcdEnvironment)
	}
	if got := o.host("/mnt/disks"); got != "/rootfs/mnt/disks" {
		t.Errorf("the machine's files are at %s", got)
	}
	p := place{id: "etcd-events-a", host: "etcd-events-a" + o.dnsSuffix}
	if got := p.name(o.peerURLs)[0]; got != "https://etcd-events-a.internal.c.example.com:2381" {
		t.Errorf("the peer is at %s", got)
	}
}

func TestBadCommandLines(t *testing.T) {
	least := []string{"--cluster-name=etcd", "--backup-store=file:///b"}
	for _, x := range []struct {
		args []string
		env  []string
		want string
	}{
		{nil, nil, "--cluster-name is missing"},
		{[]string{"--cluster-name=etcd"}, nil, "--backup-store is missing"},
		{append(least, "--insecure"), nil, "--insecure is not supported: managers always use TLS"},
		{append(least, "--etcd-insecure"), nil, "--etcd-insecure needs URLs that start with http://, not https://__name__:4001"},
		{append(least, "--no-such-flag"), nil, "unknown flag: --no-such-flag"},
		{append(least, "word"), nil, `unexpected argument "word"`},
		{least, []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=long"}, `ETCD_MANAGER_DAILY_BACKUPS_RETENTION: "long" is no duration; use 90d, 2y or 12h30m`},
		{append(least, "--env-file=/no/such/file"), nil, "read the environment: open /no/such/file: no such file or directory"},
	} {
		if _, err := parse(x.args, x.env); err == nil || err.Error() != x.want {
			t.Errorf("%v: %v, want %s", x.args, err, x.want)
		}
	}
	if _, err := parse(append(least, "--etcd-insecure", "--client-urls=http://a:1", "--peer-urls=http://a:2", "--quarantine-client-urls=http://a:3"), nil); err != nil {
		t.Error(err)
	}
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "2y": 730 * 24 * time.Hour, "36h": 36 * time.Hour, "15m": 15 * time.Minute} {
		if got, err := parseDuration(s); err != nil || got != want {
			t.Errorf("%s is %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "1.5d", "-1h", "99999999y"} {
		if got, err := parseDuration(s); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
}

func TestAPlaceIsFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "env")
	if err := os.WriteFile(file, []byte("# comment\nETCD_QUOTA_BACKEND_BYTES=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--cluster-name=etcd", "--backup-store=file://" + dir, "--data-dir=" + filepath.Join(dir, "data"), "--address=fd00::1", "--env-file=" + file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.etcdEnvironment, []string{"ETCD_QUOTA_BACKEND_BYTES=5"}) {
		t.Errorf("etcd gets %v", o.etcdEnvironment)
	}
	first, err := o.place(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.place(t.Context())
	if err != nil || first != again || !strings.HasPrefix(first.id, "etcd-") {
		t.Errorf("the place is %v, then %v, %v", first, again, err)
	}
	if got := first.name([]string{"https://__name__:1"})[0]; got != "https://[fd00::1]:1" {
		t.Errorf("the URL is %s", got)
	}
	o.volumeProvider = "vsphere"
	if _, err := o.place(t.Context()); err == nil || !strings.Contains(err.Error(), `"vsphere" is not known`) {
		t.Errorf("a cloud's volumes: %v", err)
	}
}

func TestADiskIsFoundByItsTag(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"c--main--0", "c--events--0", "c--events--1", "backups"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findDisk(dir, []string{"c--main--"}); err != nil || got != filepath.Join(dir, "c--main--0") {
		t.Errorf("found %s, %v", got, err)
	}
	if _, err := findDisk(dir, nil); err == nil || err.Error() != "the volume provider needs one --volume-tag, not 0" {
		t.Errorf("without a tag: %v", err)
	}
	for _, tags := range [][]string{{"c--events--"}, {"c--cilium--"}, {"*"}, nil} {
		if got, err := findDisk(dir, tags); err == nil {
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
	o, err := parse([]string{"--cluster-name=etcd-events", "--backup-store=file://" + dir, "--volume-provider=local", "--volume-tag=demo.k8s.local--events--",
		"--disks-path=" + filepath.Join(dir, "disks"), "--machines-path=" + filepath.Join(dir, "machines"), "--grpc-port=3997", "--dns-suffix=.internal.demo.k8s.local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.commands != 3*time.Second {
		t.Errorf("a folder is looked at for commands each %s", o.commands)
	}
	if _, err := o.place(t.Context()); !fault.Is(err, fault.NotYet) {
		t.Errorf("a machine that is not registered: %v", err)
	}
	write("machines/a.json", `{"address": "127.0.0.1", "labels": {"role": "control-plane"}}`)
	write("machines/b.json", `{"address": "192.0.2.7", "labels": {"role": "control-plane"}}`)
	got, err := o.place(t.Context())
	want := place{id: "etcd-events-a", dir: filepath.Join(dir, "disks/demo.k8s.local--events--a"), address: "127.0.0.1", host: "etcd-events-a.internal.demo.k8s.local"}
	if err != nil || got != want {
		t.Errorf("the place is %+v, %v", got, err)
	}
	all, err := o.discovery()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all.Discover(t.Context()); err != nil || !slices.Equal(got, []etcd.Sighting{{Endpoint: "127.0.0.1:3997"}, {Endpoint: "192.0.2.7:3997"}}) {
		t.Errorf("the managers are at %v, %v", got, err)
	}
	o.peerID = strings.Repeat("a", 64)
	if _, err := o.place(t.Context()); err == nil || !strings.Contains(err.Error(), "63 letters") || !strings.Contains(fault.Remedy(err), "shorter name") {
		t.Errorf("a name that no host can have: %v", err)
	}
}

func TestWhatIsNotThereYetIsWaitedFor(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	tries := 0
	err := patiently(t.Context(), log, time.Millisecond, func() error {
		if tries++; tries < 3 {
			return fault.New(fault.Conflict, "another manager uses it")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	if err := patiently(t.Context(), log, time.Millisecond, func() error { tries++; return errors.New("broken") }); err == nil || tries != 1 {
		t.Errorf("what will not go away by itself: %d tries, %v", tries, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := patiently(ended, log, time.Millisecond, func() error { return fault.New(fault.NotYet, "no disk") }); err == nil {
		t.Error("the end of the program was waited out")
	}
}

// volumes is a cloud, and mounts what it has.
type volumes []volume.Volume

func (v volumes) Volumes(context.Context) ([]volume.Volume, error) { return v, nil }

func (volumes) Attach(context.Context, volume.Volume) error { return nil }

func (volumes) Mount(_ context.Context, v volume.Volume) (string, error) {
	return "/mnt/master-" + v.ID, nil
}

func TestAMachineOfACloudIsWhoItsVolumeSays(t *testing.T) {
	o, err := parse([]string{"--cluster-name=etcd", "--backup-store=s3://b/c", "--volume-provider=aws", "--volume-tag=k8s.io/etcd/main", "--volume-tag=k8s.io/role/control-plane=1",
		"--volume-name-tag=k8s.io/etcd/main", "--grpc-port=3996", "--dns-suffix=.internal.c.example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.volumeTags, []string{"k8s.io/etcd/main", "k8s.io/role/control-plane=1"}) || o.nameTag != "k8s.io/etcd/main" {
		t.Errorf("tags %q and %q", o.volumeTags, o.nameTag)
	}
	mine := volume.Volume{ID: "vol-1", Peer: "etcd-a", Machine: "i-1", Here: true, Addresses: []string{"10.0.0.1"}}
	cloud := volumes{mine, {ID: "vol-2", Peer: "etcd-b", Machine: "i-2", Addresses: []string{"10.0.0.2"}}}
	o.cloud, o.mounter = cloud, cloud
	got, err := o.place(t.Context())
	want := place{id: "etcd-a", dir: "/mnt/master-vol-1", address: "10.0.0.1", host: "etcd-a.internal.c.example.com"}
	if err != nil || got != want {
		t.Errorf("the place is %+v, %v", got, err)
	}
	all, err := o.discovery()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all.Discover(t.Context()); err != nil || !slices.Equal(got, []etcd.Sighting{{ID: "etcd-a", Endpoint: "10.0.0.1:3996"}, {ID: "etcd-b", Endpoint: "10.0.0.2:3996"}}) {
		t.Errorf("the managers are at %v, %v", got, err)
	}
	cloud[0].Peer = ""
	if _, err := o.place(t.Context()); err == nil || !strings.Contains(err.Error(), "k8s.io/etcd/main") {
		t.Errorf("a volume that names nobody: %v", err)
	}
}
