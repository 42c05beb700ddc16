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

// allAddresses returns the ranges of all addresses.
func allAddresses() []string { return []string{"0.0.0.0/0", "::/0"} }

// New returns the short spec of a new cluster and its groups: control planes, API servers, nodes,
// bastions. If some findings are errors, they must not be used.
func New(o Options, w World) (*api.Cluster, []*api.InstanceGroup, diag.List) {
	b := &Builder{Options: o, World: w, platform: w.Platform, Facts: w.Facts.Of(strings.ToLower(o.CloudProvider))}
	if b.platform.Traits == nil {
		b.platform.Traits = &traits.Traits{}
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

// Builder is a cluster that is being described.
type Builder struct {
	Options
	World World
	// Cluster is the cluster being described, and Spec is its spec.
	Cluster *api.Cluster
	Spec    *api.ClusterSpec
	// Facts are the facts of the platform; never nil.
	Facts *facts.Cloud

	platform Platform
	groups   []*api.InstanceGroup
	findings diag.List
	// zones are the zones of nodes and of the control plane, sorted.
	zones []string
}

// defaults fills in the options that have a default.
func (b *Builder) defaults() {
	for _, list := range []*[]string{
		&b.Zones, &b.ControlPlaneZones, &b.ControlPlaneSizes, &b.NodeSizes, &b.APIServerSizes,
		&b.NetworkCIDRs, &b.SubnetIDs, &b.UtilitySubnetIDs, &b.AdminAccess, &b.SSHAccess, &b.EtcdClusters,
		&b.ControlPlaneSecurityGroups, &b.NodeSecurityGroups,
	} {
		*list = nonBlank(*list)
	}
	fill := func(p *string, value string) {
		if *p == "" {
			*p = value
		}
	}
	fill(&b.Channel, versions.Stable)
	fill(&b.Authorization, "RBAC")
	if b.platform.Defaults != nil {
		b.platform.Defaults(b)
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
		b.AdminAccess = allAddresses()
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

// nonBlank returns the texts that are not blank, trimmed.
func nonBlank(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// setVersion sets the version of Kubernetes. For a minor version, it is the release that the
// channel recommends.
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
		b.Fail(path, asked, "the channel "+b.Channel+" recommends no release of this minor version", "specify the release, such as "+first.String())
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
		switch {
		case !b.platform.Has.Karpenter:
			b.Fail("option:InstanceManager", "karpenter", "does not exist on "+b.platform.Title, "use cloudgroups; spec.clusterAutoscaler adds machines to groups")
		case b.DiscoveryStore == "":
			b.Fail("option:InstanceManager", "karpenter", "Karpenter needs its own IAM role", "publish the service account issuer with option:DiscoveryStore")
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
		b.Fail("option:DiscoveryService", b.DiscoveryService, "kops cannot register clusters with discovery services yet", "publish the documents in a bucket with option:DiscoveryStore")
	}
	if b.DiscoveryStore == "" {
		return
	}
	d := &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: strings.TrimSuffix(b.DiscoveryStore, "/") + "/" + b.ClusterName}
	b.Spec.ServiceAccountIssuerDiscovery = d
}

// setOwn adds the platform's own settings once the rest is known.
func (b *Builder) setOwn() {
	if b.platform.Finish != nil {
		b.platform.Finish(b)
	}
}

// setHardening follows the CIS benchmark. On a shared host most of it is set whenever the cluster
// is completed; encryption of etcd is only set for new clusters, as older ones have no key.
func (b *Builder) setHardening() {
	on := true
	if b.Hardened {
		complete.Harden(b.Spec, complete.Baseline)
		b.Cluster.Annotations = map[string]string{api.AnnotationHardened: "true"}
	}
	if b.Hardened || b.platform.Machines.Shared {
		b.Spec.EncryptionConfig = &on
	}
}

// setFields applies the user's own assignments, and what follows from them.
func (b *Builder) setFields() {
	cluster, findings := Assign(b.Cluster, b.Sets, b.Unsets)
	b.findings = append(b.findings, findings...)
	if cluster.Name != b.ClusterName { // its groups and its folder already have the name
		b.Fail("metadata.name", cluster.Name, "differs from the name "+b.ClusterName+" in option:ClusterName", "specify the name only with option:ClusterName")
	}
	b.Cluster, b.Spec = cluster, &cluster.Spec
	if c := b.Spec.Networking.Calico; c != nil && c.BPFEnabled {
		b.disableKubeProxy()
	}
}

// assign sets the values of completion that are stored.
func (b *Builder) assign() {
	in := complete.Input{
		Cluster: b.Cluster, Groups: b.groups, Facts: b.World.Facts, Channel: b.World.Channel,
		Platform: b.World.Complete, KopsVersion: b.World.KopsVersion, ConfigBase: b.ConfigBase, Features: b.World.Features,
	}
	cluster, findings := complete.AssignStored(in)
	b.findings = append(b.findings, findings...)
	b.Cluster, b.Spec, in.Cluster = cluster, &cluster.Spec, cluster
	if b.Spec.KubernetesVersion == "" {
		b.Fail("option:KubernetesVersion", "", "the channel "+b.Spec.Channel+" recommends no version for new clusters", "write one such as 1.36.3")
	}
	for i, g := range b.groups {
		done, findings := complete.AssignGroup(in, g)
		b.groups[i] = done
		b.findings = append(b.findings, findings...)
	}
}

// Fail records an error about an option.
func (b *Builder) Fail(option, value, message, remedy string) {
	b.findings = append(b.findings, diag.Finding{Path: option, Value: value, Rule: "option", Message: message, Remedy: remedy})
}

// maxControlPlanes is far above the number of members of any etcd, and far below what would take
// long to describe.
const maxControlPlanes = 99

// checkCounts rejects implausible numbers of machines.
func (b *Builder) checkCounts() {
	if n := b.ControlPlaneCount; n > maxControlPlanes {
		b.Fail("option:ControlPlaneCount", fmt.Sprint(n), "is more than etcd can have members", "use 1, 3 or 5")
	}
	if n := b.ControlPlaneCount; n > 0 && n%2 == 0 {
		b.Fail("option:ControlPlaneCount", fmt.Sprint(n), "is an even number; it tolerates no more failures than one machine fewer", "use 1, 3 or 5")
	}
	for _, o := range []struct {
		option string
		count  int32
	}{{"option:ControlPlaneCount", b.ControlPlaneCount}, {"option:NodeCount", b.NodeCount}, {"option:APIServerCount", b.APIServerCount}} {
		if o.count < 0 {
			b.Fail(o.option, fmt.Sprint(o.count), "is less than 0", "specify 1 or more, or leave it out")
		}
	}
}

// warnUnbuilt warns that some options have no effect yet.
func (b *Builder) warnUnbuilt() {
	for _, o := range []struct {
		option string
		count  int32
	}{{"option:EtcdCount", b.EtcdCount}, {"option:KubeControllerManagerCount", b.KubeControllerManagerCount}, {"option:SchedulerCount", b.SchedulerCount}} {
		if o.count > 0 {
			b.findings = append(b.findings, diag.Finding{
				Path: o.option, Value: fmt.Sprint(o.count), Rule: "option", Message: "groups of this role are not supported yet",
				Remedy: "leave it out; the control plane runs the program", Warning: true,
			})
		}
	}
	for _, o := range []struct {
		option string
		sizes  []string
	}{{"option:EtcdSizes", b.EtcdSizes}, {"option:KubeControllerManagerSizes", b.KubeControllerManagerSizes}, {"option:SchedulerSizes", b.SchedulerSizes}} {
		if len(o.sizes) > 0 {
			b.findings = append(b.findings, diag.Finding{
				Path: o.option, Value: strings.Join(o.sizes, ","), Rule: "option", Message: "has no effect, because groups of this role are not supported yet",
				Remedy: "leave it out; option:ControlPlaneSizes sets the machine type of the control plane", Warning: true,
			})
		}
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: api.Group + "/" + api.V1Alpha2, Kind: kind}
}
