package complete

import (
	"net/netip"
	"slices"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Input is what completion works on; nothing in it is changed.
type Input struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Facts are what the cloud knows; nil when nothing was looked up.
	Facts *facts.Facts
	// Channel recommends versions and images; nil recommends none.
	Channel *versions.Channel
	// KopsVersion is the version of this program, which a channel may ask for.
	KopsVersion string
	// ConfigBase is where the cluster's files stand when its spec does not say.
	ConfigBase string
	// RunningVersion is the Kubernetes version of the oldest control plane
	// machine that runs, or "".
	RunningVersion string
	// Features are the switches that are on.
	Features Features
}

// Cluster is a completed cluster.
type Cluster struct {
	// Spec is the whole object, completed.
	Spec *api.Cluster
	// Groups are completed, in the order given. The kubelet of a group holds all
	// labels and taints with which its nodes register.
	Groups []*api.InstanceGroup
	// NodeVersion is the Kubernetes version of the kubelets of groups without an
	// API server: the spec's, or the older one that the control plane still runs.
	NodeVersion string
	// Provenance says which rule filled what.
	Provenance Provenance
}

// Complete returns the completed cluster. With findings that are errors the
// result is as far as completion came, and must not be built.
func Complete(in Input) (*Cluster, diag.List) {
	p := newPass(in)
	p.run(storedRules())
	version, err := versions.ParseVersion(p.spec.KubernetesVersion)
	if err != nil {
		message := "is not a version"
		if p.spec.KubernetesVersion == "" {
			message = "is required, because the channel names none"
		}
		p.fail("spec.kubernetesVersion", p.spec.KubernetesVersion, "kubernetes-version", message, "write a version such as 1.36.3")
		return p.result(), p.findings
	}
	p.version = version
	p.run(clusterRules())
	p.runGroups(groupRules())
	return p.result(), p.findings
}

// AssignStored fills only the values that are kept in the stored spec, so that
// later releases with other defaults do not change a cluster: ranges, versions,
// names and retention.
func AssignStored(in Input) (*api.Cluster, diag.List) {
	p := newPass(in)
	p.run(storedRules())
	return p.cluster, p.findings
}

// AssignGroup fills what is kept in the stored spec of a group of in.Cluster: its
// size, machine type and image.
func AssignGroup(in Input, g *api.InstanceGroup) (*api.InstanceGroup, diag.List) {
	in.Groups = []*api.InstanceGroup{g}
	p := newPass(in)
	if v, err := versions.ParseVersion(p.spec.KubernetesVersion); err == nil {
		p.version = v
	}
	p.runGroups(storedGroupRules())
	return p.groups[0], p.findings
}

// rule fills some values of the cluster.
type rule struct {
	name string
	// why says to a user where the values come from.
	why string
	// on limits the rule to a cloud; "" is every cloud.
	on api.CloudProviderID
	do func(*pass)
}

// groupRule fills some values of one group.
type groupRule struct {
	name, why string
	on        api.CloudProviderID
	do        func(*pass, *api.InstanceGroup)
}

// pass is the state of one completion.
type pass struct {
	in         Input
	cluster    *api.Cluster
	spec       *api.ClusterSpec
	groups     []*api.InstanceGroup
	cloud      api.CloudProviderID
	version    semver.Version
	provenance Provenance
	findings   diag.List
}

func newPass(in Input) *pass {
	p := &pass{in: in, cluster: in.Cluster.DeepCopy(), cloud: in.Cluster.CloudProviderID()}
	p.spec = &p.cluster.Spec
	for _, g := range in.Groups {
		p.groups = append(p.groups, g.DeepCopy())
	}
	if p.in.Facts == nil {
		p.in.Facts = &facts.Facts{}
	}
	p.provenance = Provenance{Cluster: map[string]Origin{}, Groups: map[string]map[string]Origin{}}
	return p
}

func (p *pass) result() *Cluster {
	return &Cluster{Spec: p.cluster, Groups: p.groups, NodeVersion: p.nodeVersion(), Provenance: p.provenance}
}

// nodeVersion is the older one of the spec's version and the running one.
func (p *pass) nodeVersion() string {
	running, err := versions.ParseVersion(p.in.RunningVersion)
	if err == nil && running.LT(p.version) {
		return running.String()
	}
	return p.spec.KubernetesVersion
}

func (p *pass) run(rules []rule) {
	before := leavesOf(p.cluster.Spec)
	for _, r := range rules {
		if r.on != "" && r.on != p.cloud {
			continue
		}
		r.do(p)
		after := leavesOf(p.cluster.Spec)
		record(p.provenance.Cluster, before, after, Origin{Rule: r.name, Why: r.why})
		before = after
	}
}

func (p *pass) runGroups(rules []groupRule) {
	for _, g := range p.groups {
		origins := map[string]Origin{}
		before := leavesOf(g.Spec)
		for _, r := range rules {
			if r.on != "" && r.on != p.cloud {
				continue
			}
			r.do(p, g)
			after := leavesOf(g.Spec)
			record(origins, before, after, Origin{Rule: r.name, Why: r.why})
			before = after
		}
		p.provenance.Groups[g.Name] = origins
	}
}

// fail notes an error about the cluster.
func (p *pass) fail(path, value, rule, message, remedy string) {
	p.findings = append(p.findings, diag.Finding{
		Object: api.KindCluster + "/" + p.cluster.Name, Path: path, Value: value, Rule: rule, Message: message, Remedy: remedy,
	})
}

// failGroup notes an error about a group.
func (p *pass) failGroup(g *api.InstanceGroup, path, value, rule, message, remedy string) {
	p.findings = append(p.findings, diag.Finding{
		Object: api.KindInstanceGroup + "/" + g.Name, Path: path, Value: value, Rule: rule, Message: message, Remedy: remedy,
	})
}

// ipv6 reports whether pods and services have IPv6 addresses only.
func (p *pass) ipv6() bool { return IsIPv6(p.spec) }

// IsIPv6 reports whether a cluster's pods and services have IPv6 addresses only.
func IsIPv6(s *api.ClusterSpec) bool {
	r, err := netip.ParsePrefix(s.Networking.NonMasqueradeCIDR)
	return err == nil && r.Addr().Is6()
}

// dns is where the cluster's names are published.
func (p *pass) dns() api.DNSType { return DNS(p.spec) }

// DNS returns where a cluster's names are published; Public when the spec does not say.
func DNS(s *api.ClusterSpec) api.DNSType {
	if t := s.Networking.Topology; t != nil && t.DNS != "" {
		return t.DNS
	}
	return api.DNSPublic
}

// publicName is the DNS name of the API server for users, or "" when it has none.
func (p *pass) publicName() string {
	if p.spec.API.PublicName != "" || p.dns() == api.DNSNone {
		return p.spec.API.PublicName
	}
	return "api." + p.cluster.Name
}

// olderThan reports whether the cluster's Kubernetes is older than 1.minor.
func (p *pass) olderThan(minor uint64) bool { return !versions.AtLeast(p.version, 1, minor) }

// subnet returns the subnet of that name, or nil.
func (p *pass) subnet(name string) *api.ClusterSubnetSpec {
	all := p.spec.Networking.Subnets
	if i := slices.IndexFunc(all, func(s api.ClusterSubnetSpec) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}
