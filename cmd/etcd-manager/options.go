package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/run"
)

// parse parses flags and environment. Flags that only concern another program
// of the same manifests are accepted.
func parse(args, environment []string) (*run.Options, error) {
	o := &run.Options{Environment: map[string]string{}}
	f := pflag.NewFlagSet("etcd-manager", pflag.ContinueOnError)
	f.SortFlags = true
	f.StringVar(&o.Cluster, "cluster-name", "", "name of the etcd cluster, such as etcd or etcd-events")
	f.StringVar(&o.PeerID, "peer-id", "", "name of this peer and its member; by default the name of its volume, or the name in DATA-DIR/myid, which is generated at the first start")
	f.StringVar(&o.BackupStore, "backup-store", "", "where the spec, the commands and the backups of the cluster are: s3://bucket/folder or file:///folder")
	f.StringSliceVar(&o.ClientURLs, "client-urls", []string{"https://__name__:4001"}, "where clients reach etcd; __name__ is this peer's host name")
	f.StringSliceVar(&o.PeerURLs, "peer-urls", []string{"https://__name__:2380"}, "where other members reach etcd")
	f.StringSliceVar(&o.QuarantineURLs, "quarantine-client-urls", []string{"https://__name__:8001"}, "where only managers reach etcd, until the cluster is ready")
	f.IntVar(&o.Port, "grpc-port", 8000, "port on which managers talk to each other")
	f.StringVar(&o.DNSSuffix, "dns-suffix", "", "what follows the peer's name in its host name, such as .internal.example.com; empty uses addresses")
	f.StringVar(&o.HostsFile, "hosts-file", "/etc/hosts", "file to keep the host names of the peers in; empty for none")
	f.StringVar(&o.Address, "address", "", "address of this machine; by default its first non-local address")
	f.StringVar(&o.Listen, "listen-address", "0.0.0.0", "address on which to listen for other managers")
	f.StringVar(&o.EtcdListen, "etcd-address", "0.0.0.0", "address on which etcd listens")
	f.StringVar(&o.NetworkCIDR, "network-cidr", "", "network that the address of this machine must be in")
	f.BoolVar(&o.Containerized, "containerized", false, "the machine's own files are below /rootfs")
	f.StringVar(&o.PKIDir, "pki-dir", paths.EtcdManagerPod, "folder of etcd-manager-ca, etcd-peers-ca and etcd-clients-ca, .crt and .key")
	f.StringVar(&o.DataDir, "data-dir", "", "folder for the member's data when no volume provider is given; by default /var/lib/CLUSTER-NAME")
	f.StringVar(&o.Programs, "programs", "/opt", "folder with a subfolder etcd-vVERSION for each version of etcd")
	f.StringVar(&o.VolumeProvider, "volume-provider", "", "how the member's disk is found: the name of a cloud, a volume with all of the volume tags, which is attached and mounted; external or local, a folder of DISKS-PATH whose name starts with the volume tag; with local, other managers are found by the machines of MACHINES-PATH")
	f.StringArrayVar(&o.VolumeTags, "volume-tag", nil, "what the volumes of the cluster have in common; in a cloud a tag, KEY=VALUE or KEY; repeatable")
	f.StringVar(&o.Disks, "disks-path", "/mnt/disks", "folder of the volumes of a machine without a cloud")
	f.StringVar(&o.Machines, "machines-path", "/etc/kops/machines", "folder with a file NAME.json for each machine of a local cluster: its address, and the label role")
	f.StringSliceVar(&o.Seeds, "seeds", nil, "host:port of other managers")
	f.StringVar(&o.SeedsPath, "seeds-path", "/etc/kubernetes/etcd-manager/seeds", "file, or folder of files, with host:port of other managers, one per line")
	f.StringSliceVar(&o.DNS, "discovery-dns", nil, "names that resolve to the machines of the managers")
	f.StringVar(&o.StaticConfig, "static-config", "", `other managers as {"nodes":[{"id":"…","ip":["…"]}]}`)
	f.DurationVar(&o.BackupInterval, "backup-interval", 15*time.Minute, "time between two backups")
	f.DurationVar(&o.Discover, "discovery-poll-interval", time.Minute, "time between two searches for other managers")
	f.DurationVar(&o.Meet, "greeting-interval", 5*time.Second, "time between two greetings of the other managers")
	f.DurationVar(&o.PeerTimeout, "peer-timeout", 20*time.Second, "time without contact after which another manager counts as gone")
	f.DurationVar(&o.Soon, "progress-interval", 300*time.Millisecond, "time between two checks while a change is in progress")
	f.DurationVar(&o.Commands, "command-interval", 0, "time between two checks for commands in the backup store; by default 30s, or 3s if it is a folder")
	f.DurationVar(&o.Replace, "replace-after", time.Minute, "time after which an unhealthy member may be replaced")
	f.IntVarP(&o.Verbosity, "v", "v", 2, "8 and more shows every attempt")
	metrics := f.String("listen-metrics-urls", "", "where etcd itself serves its metrics and its health; the same as ETCD_LISTEN_METRICS_URLS")
	envFile := f.String("env-file", "", "file with further environment, NAME=value on each line")
	plainEtcd := f.Bool("etcd-insecure", false, "etcd uses no TLS; the URLs must be http://")
	plain := f.Bool("insecure", false, "not supported: managers always use TLS")
	f.StringVar(&o.NameTag, "volume-name-tag", "", "tag of a cloud's volumes whose value, up to a slash, names the member")
	f.IntVar(&o.MetricsPort, "etcd-manager-metrics-port", 0, "port, on LISTEN-ADDRESS, of /metrics of the manager itself, without TLS; 0: none. The same as ETCD_MANAGER_METRICS_PORT")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.Commands == 0 {
		o.Commands = 30 * time.Second
		if strings.HasPrefix(o.BackupStore, "file://") {
			o.Commands = 3 * time.Second // requests are free
		}
	}
	if *envFile != "" {
		more, err := readEnvironment(*envFile)
		if err != nil {
			return nil, err
		}
		environment = append(environment, more...)
	}
	if *metrics != "" {
		environment = append(environment, "ETCD_LISTEN_METRICS_URLS="+*metrics)
	}
	if err := takeEnvironment(o, environment); err != nil {
		return nil, err
	}
	return o, check(o, *plain, *plainEtcd)
}

func check(o *run.Options, plain, plainEtcd bool) error {
	switch {
	case o.Cluster == "":
		return errors.New("--cluster-name is missing")
	case o.BackupStore == "":
		return errors.New("--backup-store is missing")
	case plain:
		return errors.New("--insecure is not supported: managers always use TLS")
	}
	if p := o.MetricsPort; p < 0 || p > 65535 {
		return fmt.Errorf("--etcd-manager-metrics-port: %d is not a port", p)
	}
	for _, u := range append(append(append([]string{}, o.ClientURLs...), o.PeerURLs...), o.QuarantineURLs...) {
		if plainEtcd && strings.HasPrefix(u, "https:") {
			return fmt.Errorf("--etcd-insecure needs URLs that start with http://, not %s", u)
		}
	}
	return nil
}

// takeEnvironment reads our variables and etcd's: variables that start with ETCD_ but not with
// ETCD_MANAGER_ go to etcd, and override the manager's own values.
func takeEnvironment(o *run.Options, environment []string) error {
	o.Retention = etcd.DefaultRetention()
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		o.Environment[name] = value
		if strings.HasPrefix(name, "ETCD_") && !strings.HasPrefix(name, "ETCD_MANAGER_") {
			o.EtcdEnvironment = append(o.EtcdEnvironment, v)
		}
	}
	for _, x := range []struct {
		name string
		to   *time.Duration
	}{
		{"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", &o.Retention.Hourly},
		{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION", &o.Retention.Daily},
		{"ETCD_MANAGER_CERT_DURATION", &o.Certificates},
	} {
		if value := o.Environment[x.name]; value != "" {
			d, err := parseDuration(value)
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			*x.to = d
		}
	}
	if value := o.Environment["ETCD_MANAGER_METRICS_PORT"]; value != "" && o.MetricsPort == 0 {
		port, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("ETCD_MANAGER_METRICS_PORT: %q is not a port", value)
		}
		o.MetricsPort = port
	}
	return nil
}

// readEnvironment reads NAME=value lines; empty lines and those that start with # are ignored.
func readEnvironment(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	defer file.Close() // only read
	var out []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the environment %s: %w", path, err)
	}
	return out, nil
}

// parseDuration parses what Go does, and whole days (90d) and years of 365 days (2y).
func parseDuration(s string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "y": 365 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseUint(digits, 10, 16)
			if err != nil {
				return 0, fmt.Errorf("%q is not a duration; use 90d, 2y or 12h30m", s)
			}
			return time.Duration(n) * unit, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration; use 90d, 2y or 12h30m", s)
	}
	return d, nil
}
