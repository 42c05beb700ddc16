package newcluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// everywhere are all addresses.
func everywhere() []string { return []string{"0.0.0.0/0", "::/0"} }

// New returns the short spec of a new cluster and its groups: control planes, API
// servers, nodes, bastions. With findings that are errors they must not be used.
func New(o Options, w World) (*api.Cluster, []*api.InstanceGroup, diag.List) {
	b := &Builder{Options: o, World: w, on: w.Platform, Facts: w.Facts.Of(strings.ToLower(o.CloudProvider))}
	if b.on.Traits == nil {
		b.on.Traits = &traits.Traits{}
	}
	b.defaults()
	for _, step := range []func(){
		b.setPlatform, b.setBasics, b.setAccess, b.setNetworking, b.setFeatureGates,
		b.setNetwork, b.setSubnets, b.setDNS, b.setAPI, b.setDiscovery, b.setOwn, b.setHardening, b.checkCounts, b.warnUnbuilt,
	} {
		step()
	}
	if b.findings.Err() != nil {
		return b.Cluster, nil, b.findings
	}
	b.setGroups()
	b.setEtcd()
	b.setFields()
	b.assign()
	return b.Cluster, b.groups, b.findings
}

// Builder is a cluster in the making.
type Builder struct {
	Options
	World World
	// Cluster is the cluster being made, and Spec is its spec.
	Cluster *api.Cluster
	Spec    *api.ClusterSpec
	// Facts are the facts of the platform; never nil.
	Facts *facts.Cloud

	on       Platform
	groups   []*api.InstanceGroup
	findings diag.List
	// zones are the zones of nodes and of the control plane, sorted.
	zones []string
}

// defaults fills the options that have one.
func (b *Builder) defaults() {
	for _, list := range []*[]string{
		&b.Zones, &b.ControlPlaneZones, &b.ControlPlaneSizes, &b.NodeSizes, &b.APIServerSizes,
		&b.NetworkCIDRs, &b.SubnetIDs, &b.UtilitySubnetIDs, &b.AdminAccess, &b.SSHAccess, &b.EtcdClusters,
		&b.ControlPlaneSecurityGroups, &b.NodeSecurityGroups,
	} {
		*list = named(*list)
	}
	fill := func(p *string, value string) {
		if *p == "" {
			*p = value
		}
	}
	fill(&b.Channel, versions.Stable)
	fill(&b.Authorization, "RBAC")
	if b.on.Defaults != nil {
		b.on.Defaults(b)
	}
	if len(b.NetworkCIDRs) == 0 && b.Facts.FreeNetwork != "" {
		b.NetworkCIDRs = []string{b.Facts.FreeNetwork}
	}
	fill(&b.Options.Networking, "cilium")
	fill(&b.InstanceManager, "cloudgroups")
	topology := "public"
	if b.IPv6 {
		topology = "private"
	}
	fill(&b.Topology, topology)
	b.Topology = strings.ToLower(b.Topology)
	dns := "none"
	if b.DNSZone != "" {
		dns = "public"
	}
	fill(&b.DNSType, dns)
	if len(b.AdminAccess) == 0 {
		b.AdminAccess = everywhere()
	}
	if len(b.SSHAccess) == 0 {
		b.SSHAccess = b.AdminAccess
	}
	if len(b.EtcdClusters) == 0 {
		b.EtcdClusters = []string{"main", "events"}
	}
	b.zones = slices.Concat(b.Zones, b.ControlPlaneZones)
	slices.Sort(b.zones)
	b.zones = slices.Compact(b.zones)
}

// named are the texts that are not blank, without the blanks around them.
func named(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// setVersion sets the version of Kubernetes. Of a minor version it is the release that the channel recommends.
func (b *Builder) setVersion() {
	const path = "option:KubernetesVersion"
	asked := b.KubernetesVersion
	b.Spec.KubernetesVersion = asked
	if _, err := versions.ParseVersion(asked); asked == "" || err == nil {
		return
	}
	first, ok := versions.ParseMinor(asked)
	if !ok {
		b.Fail(path, asked, "is not a version", "write one such as 1.36.3 or 1.36, or the URL of a release")
		return
	}
	v, ok := b.World.Channel.Newest(first.Major, first.Minor)
	if !ok {
		v = first
		b.Fail(path, asked, "the channel "+b.Channel+" recommends no release of this minor version", "name the release, such as "+first.String())
	}
	b.Spec.KubernetesVersion = v.String()
}

func (b *Builder) setBasics() {
	b.Spec.Channel = b.Channel
	b.Spec.ConfigStore.Base = b.ConfigBase
	b.setVersion()
	b.Spec.IAM = &api.IAMSpec{AllowContainerRegistry: true}
	b.Spec.Kubelet = &api.KubeletConfigSpec{AnonymousAuth: new(bool)}
	switch strings.ToLower(b.Authorization) {
	case "rbac":
		b.Spec.Authorization = &api.AuthorizationSpec{RBAC: &api.RBACAuthorizationSpec{}}
	case "alwaysallow":
		b.Spec.Authorization = &api.AuthorizationSpec{AlwaysAllow: &api.AlwaysAllowAuthorizationSpec{}}
	default:
		b.Fail("option:Authorization", b.Authorization, "unknown authorization", "use RBAC or AlwaysAllow")
	}
	labels, err := parseLabels(b.CloudLabels)
	if err != "" {
		b.Fail("option:CloudLabels", b.CloudLabels, err, "write comma-separated k=v; quote values that contain commas")
	}
	b.Spec.CloudLabels = labels
	switch b.InstanceManager {
	case "cloudgroups":
	case "karpenter":
		b.Spec.Karpenter = &api.KarpenterConfig{Enabled: true}
		if b.DiscoveryStore == "" {
			b.Fail("option:InstanceManager", "karpenter", "Karpenter needs permissions of its own", "publish the service account issuer with option:DiscoveryStore")
		}
	default:
		b.Fail("option:InstanceManager", b.InstanceManager, "unknown instance manager", "use cloudgroups or karpenter")
	}
}

func (b *Builder) setAccess() {
	b.Spec.API.Access = b.AdminAccess
	b.Spec.SSHAccess = b.SSHAccess
}

func (b *Builder) setFeatureGates() {
	gates := map[string]string{}
	for name, on := range complete.ParseGates(strings.Join(b.KubernetesFeatureGates, ",")) {
		gates[name] = map[bool]string{true: "true", false: "false"}[on]
	}
	if len(gates) == 0 {
		return
	}
	s := b.Spec
	if s.KubeProxy == nil {
		s.KubeProxy = &api.KubeProxyConfig{}
	}
	s.KubeAPIServer, s.KubeControllerManager, s.KubeScheduler = &api.KubeAPIServerConfig{}, &api.KubeControllerManagerConfig{}, &api.KubeSchedulerConfig{}
	for _, m := range []*map[string]string{
		&s.Kubelet.FeatureGates, &s.KubeProxy.FeatureGates,
		&s.KubeAPIServer.FeatureGates, &s.KubeControllerManager.FeatureGates, &s.KubeScheduler.FeatureGates,
	} {
		*m = gates
	}
}

// setDiscovery publishes the documents of the service account issuer.
func (b *Builder) setDiscovery() {
	if b.DiscoveryService != "" {
		b.Fail("option:DiscoveryService", b.DiscoveryService, "clusters are not registered with discovery services yet", "publish the documents in a bucket with option:DiscoveryStore")
	}
	if b.DiscoveryStore == "" {
		return
	}
	d := &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: strings.TrimSuffix(b.DiscoveryStore, "/") + "/" + b.ClusterName}
	b.Spec.ServiceAccountIssuerDiscovery = d
}

// setOwn is what the platform adds once the rest is known.
func (b *Builder) setOwn() {
	if b.on.Finish != nil {
		b.on.Finish(b)
	}
}

// setHardening follows the CIS benchmark. On a host that others use most of it is set
// whenever the cluster is completed; that its etcd is encrypted is said of new clusters
// alone, as an older one has no key.
func (b *Builder) setHardening() {
	on := true
	if b.Hardened {
		complete.Harden(b.Spec, complete.Baseline)
		b.Cluster.Annotations = map[string]string{api.AnnotationHardened: "true"}
	}
	if b.Hardened || b.on.Machines.Shared {
		b.Spec.EncryptionConfig = &on
	}
}

// setFields applies the user's own assignments, and what follows from them.
func (b *Builder) setFields() {
	cluster, findings := Assign(b.Cluster, b.Sets, b.Unsets)
	b.findings = append(b.findings, findings...)
	if cluster.Name != b.ClusterName { // its groups and its folder have the name already
		b.Fail("metadata.name", cluster.Name, "is not the name "+b.ClusterName+" that was asked for", "name the cluster with option:ClusterName")
	}
	b.Cluster, b.Spec = cluster, &cluster.Spec
	if c := b.Spec.Networking.Calico; c != nil && c.BPFEnabled {
		b.disableKubeProxy()
	}
}

// assign fills what is stored of completion.
func (b *Builder) assign() {
	in := complete.Input{
		Cluster: b.Cluster, Groups: b.groups, Facts: b.World.Facts, Channel: b.World.Channel,
		Platform: b.World.Complete, KopsVersion: b.World.KopsVersion, ConfigBase: b.ConfigBase, Features: b.World.Features,
	}
	cluster, findings := complete.AssignStored(in)
	b.findings = append(b.findings, findings...)
	b.Cluster, b.Spec, in.Cluster = cluster, &cluster.Spec, cluster
	if b.Spec.KubernetesVersion == "" {
		b.Fail("option:KubernetesVersion", "", "the channel "+b.Spec.Channel+" names no version for new clusters", "write one such as 1.36.3")
	}
	for i, g := range b.groups {
		done, findings := complete.AssignGroup(in, g)
		b.groups[i] = done
		b.findings = append(b.findings, findings...)
	}
}

// Fail notes an error about an option.
func (b *Builder) Fail(option, value, message, remedy string) {
	b.findings = append(b.findings, diag.Finding{Path: option, Value: value, Rule: "option", Message: message, Remedy: remedy})
}

// mostControlPlanes is far above the members of any etcd, and far below what would take long to describe.
const mostControlPlanes = 99

// checkCounts refuses numbers of machines that nobody means.
func (b *Builder) checkCounts() {
	if n := b.ControlPlaneCount; n > mostControlPlanes {
		b.Fail("option:ControlPlaneCount", fmt.Sprint(n), "is more control planes than an etcd can have members", "use 1, 3 or 5")
	}
	if n := b.ControlPlaneCount; n > 0 && n%2 == 0 {
		b.Fail("option:ControlPlaneCount", fmt.Sprint(n), "is an even number of control planes, whose etcd survives no more losses than with one fewer", "use 1, 3 or 5")
	}
	for _, o := range []struct {
		option string
		count  int32
	}{{"option:ControlPlaneCount", b.ControlPlaneCount}, {"option:NodeCount", b.NodeCount}, {"option:APIServerCount", b.APIServerCount}} {
		if o.count < 0 {
			b.Fail(o.option, fmt.Sprint(o.count), "is less than 0", "ask for one machine or more, or leave it out")
		}
	}
}

// warnUnbuilt tells that some options have no effect yet.
func (b *Builder) warnUnbuilt() {
	for _, o := range []struct {
		option string
		count  int32
	}{{"option:EtcdCount", b.EtcdCount}, {"option:KubeControllerManagerCount", b.KubeControllerManagerCount}, {"option:SchedulerCount", b.SchedulerCount}} {
		if o.count > 0 {
			b.findings = append(b.findings, diag.Finding{
				Path: o.option, Value: fmt.Sprint(o.count), Rule: "option", Message: "groups of this role are not made yet",
				Remedy: "the control plane runs the program", Warning: true,
			})
		}
	}
	for _, o := range []struct {
		option string
		sizes  []string
	}{{"option:EtcdSizes", b.EtcdSizes}, {"option:KubeControllerManagerSizes", b.KubeControllerManagerSizes}, {"option:SchedulerSizes", b.SchedulerSizes}} {
		if len(o.sizes) > 0 {
			b.findings = append(b.findings, diag.Finding{
				Path: o.option, Value: strings.Join(o.sizes, ","), Rule: "option", Message: "has no effect, as groups of this role are not made yet",
				Remedy: "leave it out; option:ControlPlaneSizes is the machine type of the control plane", Warning: true,
			})
		}
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: api.Group + "/" + api.V1Alpha2, Kind: kind}
}
