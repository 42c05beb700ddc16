package newcluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/versions"
)

// everywhere are all addresses.
func everywhere() []string { return []string{"0.0.0.0/0", "::/0"} }

// New returns the short spec of a new cluster and its groups: control planes, API
// servers, nodes, bastions. With findings that are errors they must not be used.
func New(o Options, w World) (*api.Cluster, []*api.InstanceGroup, diag.List) {
	b := &builder{Options: o, world: w}
	b.defaults()
	for _, step := range []func(){
		b.setCloud, b.setBasics, b.setAccess, b.setNetworking, b.setFeatureGates,
		b.setNetwork, b.setSubnets, b.setDNS, b.setAPI, b.setDiscovery, b.setHardening, b.checkCounts, b.warnUnbuilt,
	} {
		step()
	}
	if b.findings.Err() != nil {
		return b.cluster, nil, b.findings
	}
	b.setGroups()
	b.setEtcd()
	b.setFields()
	b.assign()
	return b.cluster, b.groups, b.findings
}

// builder is a cluster in the making.
type builder struct {
	Options
	world    World
	cloud    api.CloudProviderID
	cluster  *api.Cluster
	spec     *api.ClusterSpec
	groups   []*api.InstanceGroup
	findings diag.List
	// zones are those of nodes and of the control plane, sorted.
	zones []string
}

// defaults fills the options that have one.
func (b *builder) defaults() {
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
	b.cloud = api.CloudProviderID(strings.ToLower(b.CloudProvider))
	if b.cloud == api.CloudLocal {
		b.localDefaults()
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

func (b *builder) setBasics() {
	b.spec.Channel = b.Channel
	b.spec.ConfigStore.Base = b.ConfigBase
	b.spec.KubernetesVersion = b.KubernetesVersion
	if _, err := versions.ParseVersion(b.KubernetesVersion); b.KubernetesVersion != "" && err != nil {
		b.fail("--kubernetes-version", b.KubernetesVersion, "is not a version", "write one such as 1.36.3, or the URL of a release")
	}
	b.spec.IAM = &api.IAMSpec{AllowContainerRegistry: true}
	b.spec.Kubelet = &api.KubeletConfigSpec{AnonymousAuth: new(bool)}
	switch strings.ToLower(b.Authorization) {
	case "rbac":
		b.spec.Authorization = &api.AuthorizationSpec{RBAC: &api.RBACAuthorizationSpec{}}
	case "alwaysallow":
		b.spec.Authorization = &api.AuthorizationSpec{AlwaysAllow: &api.AlwaysAllowAuthorizationSpec{}}
	default:
		b.fail("--authorization", b.Authorization, "unknown authorization", "use RBAC or AlwaysAllow")
	}
	labels, err := parseLabels(b.CloudLabels)
	if err != "" {
		b.fail("--cloud-labels", b.CloudLabels, err, "write k=v, divided by commas; quote values that have commas")
	}
	b.spec.CloudLabels = labels
	switch b.InstanceManager {
	case "cloudgroups":
	case "karpenter":
		b.spec.Karpenter = &api.KarpenterConfig{Enabled: true}
		if b.DiscoveryStore == "" {
			b.fail("--instance-manager", "karpenter", "Karpenter needs permissions of its own", "publish the service account issuer with --discovery-store")
		}
	default:
		b.fail("--instance-manager", b.InstanceManager, "unknown instance manager", "use cloudgroups or karpenter")
	}
}

func (b *builder) setAccess() {
	b.spec.API.Access = b.AdminAccess
	b.spec.SSHAccess = b.SSHAccess
}

func (b *builder) setFeatureGates() {
	gates := map[string]string{}
	for name, on := range complete.ParseGates(strings.Join(b.KubernetesFeatureGates, ",")) {
		gates[name] = map[bool]string{true: "true", false: "false"}[on]
	}
	if len(gates) == 0 {
		return
	}
	s := b.spec
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
func (b *builder) setDiscovery() {
	if b.DiscoveryService != "" {
		b.fail("--discovery-service", b.DiscoveryService, "clusters are not registered with discovery services yet", "publish the documents in a bucket with --discovery-store")
	}
	if b.DiscoveryStore == "" {
		return
	}
	d := &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryStore: strings.TrimSuffix(b.DiscoveryStore, "/") + "/" + b.ClusterName}
	if b.cloud == api.CloudAWS {
		d.EnableAWSOIDCProvider = true
		on := true
		b.spec.IAM.UseServiceAccountExternalPermissions = &on
	}
	b.spec.ServiceAccountIssuerDiscovery = d
}

// setHardening follows the CIS benchmark. On this host most of it is set whenever
// the cluster is completed; that its etcd is encrypted is said of new clusters alone,
// as an older one has no key.
func (b *builder) setHardening() {
	on := true
	if b.Hardened {
		complete.Harden(b.spec, complete.Baseline)
		b.cluster.Annotations = map[string]string{api.AnnotationHardened: "true"}
	}
	if b.Hardened || b.cloud == api.CloudLocal {
		b.spec.EncryptionConfig = &on
	}
}

// setFields applies the user's own assignments, and what follows from them.
func (b *builder) setFields() {
	cluster, findings := Assign(b.cluster, b.Sets, b.Unsets)
	b.findings = append(b.findings, findings...)
	if cluster.Name != b.ClusterName { // its groups and its folder have the name already
		b.fail("metadata.name", cluster.Name, "is not the name "+b.ClusterName+" that was asked for", "name the cluster with --name")
	}
	b.cluster, b.spec = cluster, &cluster.Spec
	if c := b.spec.Networking.Calico; c != nil && c.BPFEnabled {
		b.disableKubeProxy()
	}
}

// assign fills what is stored of completion.
func (b *builder) assign() {
	in := complete.Input{
		Cluster: b.cluster, Groups: b.groups, Facts: b.world.Facts, Channel: b.world.Channel,
		KopsVersion: b.world.KopsVersion, ConfigBase: b.ConfigBase, Features: b.world.Features,
	}
	cluster, findings := complete.AssignStored(in)
	b.findings = append(b.findings, findings...)
	b.cluster, b.spec, in.Cluster = cluster, &cluster.Spec, cluster
	if b.spec.KubernetesVersion == "" {
		b.fail("--kubernetes-version", "", "the channel "+b.spec.Channel+" names no version for new clusters", "write one such as 1.36.3")
	}
	for i, g := range b.groups {
		done, findings := complete.AssignGroup(in, g)
		b.groups[i] = done
		b.findings = append(b.findings, findings...)
	}
}

// fail notes an error about an option.
func (b *builder) fail(flag, value, message, remedy string) {
	b.findings = append(b.findings, diag.Finding{Path: flag, Value: value, Rule: "option", Message: message, Remedy: remedy})
}

// mostControlPlanes is far above the members of any etcd, and far below what would take long to describe.
const mostControlPlanes = 99

// checkCounts refuses numbers of machines that nobody means.
func (b *builder) checkCounts() {
	if n := b.ControlPlaneCount; n > mostControlPlanes {
		b.fail("--control-plane-count", fmt.Sprint(n), "is more control planes than an etcd can have members", "use 1, 3 or 5")
	}
	for _, o := range []struct {
		flag  string
		count int32
	}{{"--control-plane-count", b.ControlPlaneCount}, {"--node-count", b.NodeCount}, {"--api-server-count", b.APIServerCount}} {
		if o.count < 0 {
			b.fail(o.flag, fmt.Sprint(o.count), "is less than 0", "ask for one machine or more, or leave it out")
		}
	}
}

// warnUnbuilt tells that some options have no effect yet.
func (b *builder) warnUnbuilt() {
	for _, o := range []struct {
		flag  string
		count int32
	}{{"--etcd-count", b.EtcdCount}, {"--kcm-count", b.KubeControllerManagerCount}, {"--scheduler-count", b.SchedulerCount}} {
		if o.count > 0 {
			b.findings = append(b.findings, diag.Finding{
				Path: o.flag, Value: fmt.Sprint(o.count), Rule: "option", Message: "groups of this role are not made yet",
				Remedy: "the control plane runs the program", Warning: true,
			})
		}
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: api.Group + "/" + api.V1Alpha2, Kind: kind}
}
