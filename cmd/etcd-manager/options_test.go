package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
)

// manifest returns the arguments with which the manifests of control planes start the program.
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
	if o.Cluster != "etcd-events" || o.Port != 3997 || o.BackupInterval != 10*time.Minute || o.Discover != 30*time.Second {
		t.Errorf("read %+v", o)
	}
	if want := (etcd.Retention{Hourly: 7 * 24 * time.Hour, Daily: 90 * 24 * time.Hour}); o.Retention != want {
		t.Errorf("retention %v", o.Retention)
	}
	if !slices.Equal(o.EtcdEnvironment, []string{"ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:8082"}) {
		t.Errorf("etcd gets %v", o.EtcdEnvironment)
	}
	if !o.Containerized || o.DNSSuffix != ".internal.c.example.com" || !slices.Equal(o.PeerURLs, []string{"https://__name__:2381"}) ||
		!slices.Equal(o.VolumeTags, []string{"c.example.com--events--"}) || o.NameTag != "k8s.io/etcd/events" {
		t.Errorf("read %+v", o)
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
		{append(least, "--etcd-manager-metrics-port=65536"), nil, "--etcd-manager-metrics-port: 65536 is not a port"},
		{least, []string{"ETCD_MANAGER_METRICS_PORT=http"}, `ETCD_MANAGER_METRICS_PORT: "http" is not a port`},
		{append(least, "word"), nil, `unexpected argument "word"`},
		{least, []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=long"}, `ETCD_MANAGER_DAILY_BACKUPS_RETENTION: "long" is not a duration; use 90d, 2y or 12h30m`},
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

func TestTheEnvironmentOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# comment\nETCD_QUOTA_BACKEND_BYTES=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--cluster-name=etcd", "--backup-store=file:///b", "--env-file=" + file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.EtcdEnvironment, []string{"ETCD_QUOTA_BACKEND_BYTES=5"}) {
		t.Errorf("etcd gets %v", o.EtcdEnvironment)
	}
	if o, err = parse([]string{"--cluster-name=etcd", "--backup-store=file:///b"}, []string{"ETCD_MANAGER_METRICS_PORT=8081"}); err != nil || o.MetricsPort != 8081 || len(o.EtcdEnvironment) != 0 {
		t.Errorf("read %+v, %v", o, err)
	}
	if o.Commands != 3*time.Second {
		t.Errorf("a folder is looked at for commands each %s", o.Commands)
	}
}
