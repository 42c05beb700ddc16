package complete

import (
	"slices"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Input is the input of completion, which does not change it.
type Input struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Platform is the cluster's platform.
	Platform Platform
	// Facts are the results of look-ups; nil if nothing was looked up.
	Facts *facts.Facts
	// Channel recommends versions and images; nil recommends none.
	Channel *versions.Channel
	// KopsVersion is the version of this program, which a channel may restrict.
	KopsVersion string
	// ConfigBase is the folder of the cluster's files unless its spec sets another.
	ConfigBase string
	// Issuer is the issuer of service account tokens that the cluster has, if its documents are in a
	// store: it stays, whatever the endpoint. Empty if it is not known.
	Issuer string
	// Endpoint is the server of S3 buckets, if it is not Amazon's.
	Endpoint string
	// RunningVersion is the Kubernetes version of the oldest running control-plane machine, or "".
	RunningVersion string
	// Features are the feature flags that are on.
	Features Features
	// Addons is the catalogue of add-ons; nil means this program's own.
	Addons *catalogue.Catalogue
}

// Cluster is a completed cluster.
type Cluster struct {
	// Spec is the whole object, completed.
	Spec *api.Cluster
	// Groups are completed, in the order given. The kubelet of a group has all labels and taints
	// with which its nodes register.
	Groups []*api.InstanceGroup
	// NodeVersion is the Kubernetes version of the kubelets of groups without an
	// API server: the spec's, or the older one that the control plane still runs.
	NodeVersion string
	// Provenance records which rule set which values.
	Provenance Provenance
}

// Complete returns the completed cluster. If some findings are errors, the result is incomplete and
// must not be used.
func Complete(in Input) (*Cluster, diag.List) {
	p := newPass(in)
	p.run(storedRules(p.platform))
	version, err := versions.ParseVersion(p.Spec.KubernetesVersion)
	if err != nil {
		message := "is not a version"
		if p.Spec.KubernetesVersion == "" {
			message = "is required, because the channel recommends no version"
		}
		p.Fail("spec.kubernetesVersion", p.Spec.KubernetesVersion, "kubernetes-version", message, "write a version such as 1.36.3")
		return p.result(), p.findings
	}
	p.Version = version
	p.run(clusterRules(p.platform, in.Addons))
	p.runGroups(groupRules(p.platform))
	return p.result(), p.findings
}

// AssignStored fills only the values that are kept in the stored spec, so that
// later releases with other defaults do not change a cluster: ranges, versions,
// names and retention.
func AssignStored(in Input) (*api.Cluster, diag.List) {
	p := newPass(in)
	p.run(storedRules(p.platform))
	return p.Cluster, p.findings
}

// AssignGroup fills what is kept in the stored spec of a group of in.Cluster: its
// size, machine type and image.
func AssignGroup(in Input, g *api.InstanceGroup) (*api.InstanceGroup, diag.List) {
	in.Groups = []*api.InstanceGroup{g}
	p := newPass(in)
	if v, err := versions.ParseVersion(p.Spec.KubernetesVersion); err == nil {
		p.Version = v
	}
	p.runGroups(storedGroupRules())
	return p.groups[0], p.findings
}

// Platform is what completion needs to know about a platform.
type Platform struct {
	*traits.Traits
	Rules
}

// Rules are the rules of one platform, by when they run.
type Rules struct {
	// Early fill the stored network settings, before the ranges of pods and services.
	Early []Rule
	// Ranges fill the stored ranges, before subnets get theirs.
	Ranges []Rule
	// Before run before the components get their defaults, and After run afterwards.
	Before, After []Rule
	// Group run once a group has its machines, before the cluster's settings are merged into its
	// own.
	Group []GroupRule
}

// Rule fills some values of the cluster.
type Rule struct {
	Name string
	// Why tells the user where the values come from.
	Why string
	Do  func(*Pass)
}

// GroupRule fills some values of one group.
type GroupRule struct {
	Name, Why string
	Do        func(*Pass, *api.InstanceGroup)
}

// Pass is the state of one completion, on which rules operate.
type Pass struct {
	// Cluster is what the rules fill in, and Spec is its spec.
	Cluster *api.Cluster
	Spec    *api.ClusterSpec
	// Facts are the facts of the cluster's platform; never nil.
	Facts *facts.Cloud
	// Version is the version of Kubernetes.
	Version semver.Version

	input      Input
	platform   Platform
	groups     []*api.InstanceGroup
	provenance Provenance
	findings   diag.List
}

func newPass(in Input) *Pass {
	p := &Pass{input: in, platform: in.Platform, Cluster: in.Cluster.DeepCopy(), Facts: in.Facts.Of(string(in.Cluster.CloudProviderID()))}
	p.Spec = &p.Cluster.Spec
	if p.platform.Traits == nil {
		p.platform.Traits = &traits.Traits{}
	}
	for _, g := range in.Groups {
		p.groups = append(p.groups, g.DeepCopy())
	}
	p.provenance = Provenance{Cluster: map[string]Origin{}, Groups: map[string]map[string]Origin{}}
	return p
}

func (p *Pass) result() *Cluster {
	return &Cluster{Spec: p.Cluster, Groups: p.groups, NodeVersion: p.nodeVersion(), Provenance: p.provenance}
}

// nodeVersion returns the older one of the spec's version and the running one.
func (p *Pass) nodeVersion() string {
	running, err := versions.ParseVersion(p.input.RunningVersion)
	if err == nil && running.LT(p.Version) {
		return running.String()
	}
	return p.Spec.KubernetesVersion
}

func (p *Pass) run(rules []Rule) {
	before := leavesOf(p.Cluster.Spec)
	for _, r := range rules {
		r.Do(p)
		after := leavesOf(p.Cluster.Spec)
		record(p.provenance.Cluster, before, after, Origin{Rule: r.Name, Why: r.Why})
		before = after
	}
}

func (p *Pass) runGroups(rules []GroupRule) {
	for _, g := range p.groups {
		origins := map[string]Origin{}
		before := leavesOf(g.Spec)
		for _, r := range rules {
			r.Do(p, g)
			after := leavesOf(g.Spec)
			record(origins, before, after, Origin{Rule: r.Name, Why: r.Why})
			before = after
		}
		p.provenance.Groups[g.Name] = origins
	}
}

// Fail records an error about the cluster.
func (p *Pass) Fail(path, value, rule, message, remedy string) {
	p.findings = append(p.findings, diag.Finding{
		Object: api.KindCluster + "/" + p.Cluster.Name, Path: path, Value: value, Rule: rule, Message: message, Remedy: remedy,
	})
}

// FailGroup records an error about a group.
func (p *Pass) FailGroup(g *api.InstanceGroup, path, value, rule, message, remedy string) {
	p.findings = append(p.findings, diag.Finding{
		Object: api.KindInstanceGroup + "/" + g.Name, Path: path, Value: value, Rule: rule, Message: message, Remedy: remedy,
	})
}

// IPv6 reports whether pods and services have IPv6 addresses only.
func (p *Pass) IPv6() bool { return p.Spec.IPv6Only() }

// dns returns where the cluster's names are published.
func (p *Pass) dns() api.DNSType { return p.Spec.DNSType() }

// publicName returns the DNS name of the API server for users, or "" if it has none.
func (p *Pass) publicName() string {
	if p.Spec.API.PublicName != "" || p.dns() == api.DNSNone {
		return p.Spec.API.PublicName
	}
	return "api." + p.Cluster.Name
}

// OlderThan reports whether the cluster's Kubernetes is older than 1.minor.
func (p *Pass) OlderThan(minor uint64) bool { return !versions.AtLeast(p.Version, 1, minor) }

// Subnet returns the subnet with that name, or nil.
func (p *Pass) Subnet(name string) *api.ClusterSubnetSpec {
	all := p.Spec.Networking.Subnets
	if i := slices.IndexFunc(all, func(s api.ClusterSubnetSpec) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// failed reports whether a rule has recorded an error.
func (p *Pass) failed(rule string) bool {
	return slices.ContainsFunc(p.findings, func(f diag.Finding) bool { return f.Rule == rule })
}
