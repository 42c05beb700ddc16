package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/etcdversion"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform/traits"
)

func (b *builder) etcd() error {
	for _, e := range b.spec().EtcdClusters {
		text, err := etcdSpec(e)
		if err != nil {
			return err
		}
		at, key := b.backupPlace(e)
		b.nodes = append(b.nodes, at.Node("etcd-cluster-spec-"+e.Name, key+"control/etcd-cluster-spec", resource.Text(resource.Lit(string(text))), false))
		for _, g := range memberGroups(e) {
			p, err := b.etcdManager(e, g)
			if err != nil {
				return err
			}
			if text, err = p.Encode(); err != nil {
				return err
			}
			b.file("manifests-etcdmanager-"+e.Name+"-"+g, layout.EtcdManifest(e.Name, g), text)
		}
	}
	return nil
}

// etcdSpec returns the spec of an etcd cluster, which its managers read.
func etcdSpec(e api.EtcdClusterSpec) ([]byte, error) {
	text, err := json.MarshalIndent(struct {
		MemberCount int    `json:"memberCount"`
		EtcdVersion string `json:"etcdVersion"`
	}{len(e.EtcdMembers), e.Version}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the spec of etcd %s: %w", e.Name, err)
	}
	return text, nil // without a final newline, as its managers write it too
}

// backupStore returns where an etcd cluster's back-ups are stored.
func (in Input) backupStore(e api.EtcdClusterSpec) string {
	if e.Backups != nil && e.Backups.BackupStore != "" {
		return strings.TrimSuffix(e.Backups.BackupStore, "/")
	}
	return in.url(layout.EtcdBackups(e.Name))
}

// backupPlace returns the store of the back-ups, and the folder in it: the cluster's own store if
// they are in it.
func (b *builder) backupPlace(e api.EtcdClusterSpec) (at managedfile.Location, folder string) {
	url := b.backupStore(e) + "/"
	if below, ok := strings.CutPrefix(url, strings.TrimSuffix(b.spec().ConfigStore.Base, "/")+"/"); ok {
		return b.base, below
	}
	return b.Buckets.Location(url), ""
}

// memberGroups lists the groups that have members, in the members' order.
func memberGroups(e api.EtcdClusterSpec) []string {
	var out []string
	for _, m := range e.EtcdMembers {
		if m.InstanceGroup != nil && !slices.Contains(out, *m.InstanceGroup) {
			out = append(out, *m.InstanceGroup)
		}
	}
	return out
}

// etcdManager returns the pod that runs a member of an etcd cluster on a group's machines.
func (in Input) etcdManager(e api.EtcdClusterSpec, group string) (staticpod.Pod, error) {
	flags, err := in.etcdFlags(e, group)
	if err != nil {
		return staticpod.Pod{}, err
	}
	name := "etcd-manager-" + e.Name
	yes := true
	c := staticpod.Container{
		Name:            "etcd-manager",
		Image:           in.ownImage(programs.EtcdManager),
		Command:         append([]string{"/go-runner", "--log-file=/var/log/etcd.log", "--also-stdout", "/ko-app/etcd-manager"}, flags...),
		Env:             in.etcdEnvironment(e),
		Resources:       staticpod.Resources{Requests: map[string]string{"cpu": quantity(e.CPURequest, "200m"), "memory": quantity(e.MemoryRequest, "100Mi")}},
		SecurityContext: &staticpod.SecurityContext{Privileged: &yes},
		VolumeMounts: []staticpod.VolumeMount{{Name: "rootfs", MountPath: "/rootfs"}, {Name: "run", MountPath: "/run"},
			{Name: "pki", MountPath: paths.EtcdManagerPod}, {Name: "varlogetcd", MountPath: "/var/log/etcd.log"}, trustMount()},
	}
	if e.Manager != nil && e.Manager.Image != "" {
		c.Image = e.Manager.Image
	}
	volumes := []any{
		staticpod.Volume{Name: "rootfs", HostPath: &staticpod.HostPath{Path: "/", Type: "Directory"}},
		staticpod.Volume{Name: "run", HostPath: &staticpod.HostPath{Path: "/run", Type: "DirectoryOrCreate"}},
		staticpod.Volume{Name: "pki", HostPath: &staticpod.HostPath{Path: paths.EtcdManager(e.Name), Type: "DirectoryOrCreate"}},
		staticpod.Volume{Name: "varlogetcd", HostPath: &staticpod.HostPath{Path: "/var/log/" + hostnames.EtcdCluster(e.Name) + ".log", Type: "FileOrCreate"}},
		trust(),
	}
	binaries := in.etcdBinaries(e)
	for _, version := range slices.Sorted(maps.Keys(binaries)) {
		v := "etcd-v" + strings.ReplaceAll(version, ".", "-")
		volumes = append(volumes, staticpod.Volume{Name: v, Image: &staticpod.Image{Reference: binaries[version], PullPolicy: "IfNotPresent"}})
		c.VolumeMounts = append(c.VolumeMounts, staticpod.VolumeMount{Name: v, MountPath: "/opt/etcd-v" + version})
	}
	meta := staticpod.Metadata{Name: name, Namespace: "kube-system", Labels: map[string]string{"k8s-app": name}}
	if n := in.etcdName(e); n != "" {
		meta.Annotations = map[string]string{"dns.alpha.kubernetes.io/internal": n}
	}
	return staticpod.Pod{
		Metadata: meta,
		Spec: staticpod.Spec{Containers: []any{c}, Volumes: volumes, HostNetwork: true, HostPID: true,
			PriorityClassName: "system-cluster-critical", Tolerations: staticpod.Critical()},
	}, nil
}

// etcdName returns the name by which machines with an API server but no etcd reach an etcd cluster;
// "" if there are none.
func (in Input) etcdName(e api.EtcdClusterSpec) string {
	apart := slices.ContainsFunc(in.Groups, func(g *api.InstanceGroup) bool { return g.Spec.Role == api.RoleAPIServer })
	if !apart || e.Name == "cilium" {
		return ""
	}
	return hostnames.Etcd(e.Name, in.Cluster.Name)
}

// etcdBinaries returns the image of each version of etcd that the manager may run. The newest patch
// of a minor version also serves older ones.
func (in Input) etcdBinaries(e api.EtcdClusterSpec) map[string]string {
	if e.Image != "" {
		return map[string]string{e.Version: e.Image}
	}
	out := map[string]string{}
	for _, release := range etcdversion.All() {
		newest := release.String()
		image := in.image("registry.k8s.io/etcd:v" + newest)
		out[newest] = image
		if minor := newest[:strings.LastIndexByte(newest, '.')+1]; strings.HasPrefix(e.Version, minor) {
			out[e.Version] = image
		}
	}
	return out
}

func (in Input) etcdEnvironment(e api.EtcdClusterSpec) []api.ContainerEnvVar {
	out := in.storeEnvironment()
	m := e.Manager
	if m == nil {
		m = &api.EtcdManagerSpec{}
	}
	days := uint32(90)
	if m.BackupRetentionDays != nil {
		days = *m.BackupRetentionDays
	}
	out = append(out, api.ContainerEnvVar{Name: "ETCD_MANAGER_DAILY_BACKUPS_RETENTION", Value: strconv.FormatUint(uint64(days), 10) + "d"})
	if len(m.ListenMetricsURLs) > 0 {
		out = append(out, api.ContainerEnvVar{Name: "ETCD_LISTEN_METRICS_URLS", Value: strings.Join(m.ListenMetricsURLs, ",")})
	}
	if len(m.ListenClientHTTPURLs) > 0 {
		out = append(out, api.ContainerEnvVar{Name: "ETCD_LISTEN_CLIENT_HTTP_URLS", Value: strings.Join(m.ListenClientHTTPURLs, ",")})
	}
	for _, v := range m.Env {
		out = append(out, api.ContainerEnvVar{Name: v.Name, Value: v.Value})
	}
	return out
}

// etcdFlags returns the manager's flags, sorted.
func (in Input) etcdFlags(e api.EtcdClusterSpec, group string) ([]string, error) {
	p, ok := ports.OfEtcd(e.Name)
	if !ok {
		return nil, fmt.Errorf("there is no etcd cluster called %q; use main, events, cilium or leases", e.Name)
	}
	scheme := "https"
	if in.plainEtcd(e, p) {
		scheme = "http"
	}
	at := func(host string, port int) string { return scheme + "://" + host + ":" + strconv.Itoa(port) }
	const own = "__name__" // the manager replaces it with its own name
	client := at(cmp.Or(in.etcdName(e), own), p.Client)
	if e.Name == "cilium" {
		client = at(hostnames.API(in.Cluster.Name), p.Client)
	}
	level := "6"
	flags := map[string]string{
		"backup-store": in.backupStore(e), "client-urls": client, "cluster-name": hostnames.EtcdCluster(e.Name), "containerized": "true",
		"dns-suffix": hostnames.Suffix(in.Cluster.Name), "grpc-port": strconv.Itoa(p.Manager), "peer-urls": at(own, p.Peer),
		"quarantine-client-urls": at(own, p.Quarantine),
	}
	if scheme == "http" {
		flags["etcd-insecure"] = "true"
	}
	if m := e.Manager; m != nil {
		if m.BackupInterval != nil {
			flags["backup-interval"] = m.BackupInterval.Duration.String()
		}
		if m.DiscoveryPollInterval != nil {
			flags["discovery-poll-interval"] = m.DiscoveryPollInterval.Duration.String()
		}
		if m.LogLevel != nil {
			level = strconv.Itoa(int(*m.LogLevel))
		}
	}
	flags["v"] = level
	var v traits.Volumes
	if of := in.Traits.Model.Volumes; of != nil {
		v = of(in.Cluster, e.Name, group)
	}
	if v.Provider != "" {
		flags["volume-provider"] = v.Provider
	}
	if v.NameTag != "" {
		flags["volume-name-tag"] = v.NameTag
	}
	maps.Copy(flags, v.Flags)
	var out []string
	for n, value := range flags {
		out = append(out, "--"+n+"="+value)
	}
	for _, tag := range v.Tags {
		out = append(out, "--volume-tag="+tag)
	}
	slices.Sort(out)
	return out, nil
}

// plainEtcd reports whether the API server connects to its machine's etcd cluster without TLS, as
// with the feature EtcdEventsHTTP for events: etcd then serves without TLS.
func (in Input) plainEtcd(e api.EtcdClusterSpec, p ports.Etcd) bool {
	c := in.spec().KubeAPIServer
	at := "#http://127.0.0.1:" + strconv.Itoa(p.Client)
	return e.Name != "main" && c != nil && slices.ContainsFunc(c.EtcdServersOverrides, func(o string) bool { return strings.HasSuffix(o, at) })
}

// quantity formats an amount, or the default if it is not given.
func quantity(q interface{ String() string }, usual string) string {
	if s := q.String(); s != "<nil>" {
		return s
	}
	return usual
}
