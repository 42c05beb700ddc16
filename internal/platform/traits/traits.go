// Package traits describes a platform, as data, to the stages that infer, check and model a
// cluster: what its network needs, the default machine types, and which fields of a spec it
// ignores.
//
// It must not know any platform; each fills these in its own folder.
package traits

import (
	"iter"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/spec/effects"
	"kops.local/kops/internal/spec/facts"
)

// Traits are the traits of one platform. The zero value is the usual case.
type Traits struct {
	// Name is the platform's name in v1alpha2.
	Name api.CloudProviderID
	// Title is its name in messages.
	Title string
	// Feature is the feature flag without which no cluster can be created there.
	Feature string
	// Terraform says whether clusters can be written as Terraform, and behind which feature flag.
	Terraform Terraform
	// Has are the capabilities that not all platforms have.
	Has Abilities
	// Unused are the fields that the platform accepts and ignores.
	Unused []Unused
	// Effects is what a change of the fields that only this platform uses does to running machines.
	Effects effects.Table
	// SSHKeys bounds the number of a cluster's SSH keys.
	SSHKeys SSHKeys
	// OwnStore: if the user names no state store, the user's own default store is used.
	OwnStore bool
	// OwnNetworking: the platform chooses the default pod network of new clusters.
	OwnNetworking bool
	// OwnersAdmin: the creator of a cluster may access all of it, and so becomes its administrator.
	OwnersAdmin bool
	// Rehearsed: kops-rehearse can emulate the platform on this host.
	Rehearsed bool
	// NameMax is the maximum length of a cluster's name; 0 is the maximum of a DNS name.
	NameMax int

	Network  Network
	Machines Machines
	Store    Store
	Model    Model
	Addons   Addons
}

// Addons is what the add-ons of several platforms need to know of this one.
type Addons struct {
	// DNSController and ExternalDNS are the names of the platform's DNS service in the flags of
	// dns-controller and external-dns; empty: the platform's name.
	DNSController, ExternalDNS string
	// SnapshotDriver is the CSI driver of the default class of volume snapshots; empty: there is no
	// such class.
	SnapshotDriver string
	// NodeNamesResolve: pods can resolve the names of nodes.
	NodeNamesResolve bool
	// ChecksSources: the network drops packets from addresses of pods unless a machine's check of
	// sources is disabled.
	ChecksSources bool
	// IPIPMode is Calico's mode of IP-in-IP; empty: CrossSubnet.
	IPIPMode string
}

// Terraform says whether clusters can be written as Terraform.
type Terraform struct {
	Never   bool
	Feature string // the feature flag that it needs
}

// Abilities are capabilities that only some platforms have.
type Abilities struct {
	// FurtherRanges: a network can have more than one range.
	FurtherRanges bool
	// IPv6: pods and services can be IPv6-only, and subnets have IPv6 ranges.
	IPv6 bool
	// PrefixLists: access can be granted to named lists of ranges.
	PrefixLists bool
	// SecurityGroups: load balancers have security groups, certificates, and access logs.
	SecurityGroups bool
	// BalancerClass: load balancers have a class.
	BalancerClass bool
	// BalancerSubnets: the user chooses the subnets of the API's load balancer.
	BalancerSubnets bool
	// FurtherVolumes: machines can have volumes in addition to the system's.
	FurtherVolumes bool
	// MixedInstances: a group can have several machine types, external load balancers, and instance
	// profiles.
	MixedInstances bool
	// WarmPools: groups can hold machines in reserve.
	WarmPools bool
	// Karpenter can create the machines.
	Karpenter bool
	// GPUDrivers are installed on machines that have GPUs.
	GPUDrivers bool
	// APIServerNodes: machines can run an API server and nothing else of the control plane.
	APIServerNodes bool
	// NetworkAddresses: pods can have addresses in the cloud's network.
	NetworkAddresses bool
	// Prices: the autoscaler knows what machines cost.
	Prices bool
	// PodRanges: the cloud assigns machines IPv6 ranges for their pods.
	PodRanges bool
	// Repair: kops-controller can have a machine replaced.
	Repair bool
	// OwnNAT64: the network translates IPv6 to IPv4 itself.
	OwnNAT64 bool
}

// Unused lists fields that a platform accepts but ignores.
type Unused struct {
	// Kind is the object's kind, api.KindCluster or api.KindInstanceGroup.
	Kind string
	// Blocks are v1alpha3 paths below spec, in which [] stands for every item of a list, and Names
	// are fields in each of them; without Blocks, Names are fields of spec itself.
	Blocks, Names []string
	// Remedy says what to do instead.
	Remedy string
}

// UnusedCluster returns fields of clusters, in one block unless that is empty, with a remedy.
func UnusedCluster(remedy, block string, names ...string) Unused {
	u := Unused{Kind: api.KindCluster, Names: names, Remedy: remedy}
	if block != "" {
		u.Blocks = []string{block}
	}
	return u
}

// UnusedGroup returns fields of instance groups with a remedy.
func UnusedGroup(remedy string, names ...string) Unused {
	return Unused{Kind: api.KindInstanceGroup, Names: names, Remedy: remedy}
}

// SSHKeys bounds the number of a cluster's SSH keys.
type SSHKeys struct {
	// Most is the maximum; 0 is unlimited.
	Most int
	// Needed: at least one is required; NamedInstead: unless the spec names a key that the platform
	// has.
	Needed, NamedInstead bool
	// NamedOnly: the user's own key is not used unless it is named.
	NamedOnly bool
}

// Network is what a platform's network requires and offers.
type Network struct {
	// NeedsSubnets, NeedsCIDR, NeedsNonMasquerade, NeedsSubnetCIDR and NeedsSubnetRegion are what a
	// spec must set.
	NeedsSubnets, NeedsCIDR, NeedsNonMasquerade, NeedsSubnetCIDR, NeedsSubnetRegion bool
	// NoCIDR: a network has no range of its own.
	NoCIDR bool
	// CIDR is the range of a network that kops creates; may be "".
	CIDR string
	// Split: the network's range is divided between the subnets.
	Split bool
	// DNS are the kinds of DNS that the platform supports in addition to None.
	DNS []api.DNSType
	// Zoned: a subnet is in a zone.
	Zoned bool
	// SpansRegion: a subnet spans all zones of its region, so groups name their zones.
	SpansRegion bool
	// RegionOf returns the region of a zone, or "" when its name does not tell; nil: zone names
	// never tell.
	RegionOf func(zone string) string
	// OneRegion: the zones of a new cluster are in one region; if RegionOf is nil, a zone is a
	// region.
	OneRegion bool
	// RegionSubnet returns the subnet of a new cluster in a region; nil: each zone has its own.
	RegionSubnet func(cluster, region string) api.ClusterSubnetSpec
	// NoUtility: private clusters have no subnets for load balancers.
	NoUtility bool
	// SharedAreKnown: the facts include the zone and the network of shared subnets.
	SharedAreKnown bool
	// Egress are the supported values of a subnet's egress, in addition to External; nil: IDs of
	// gateways and the like.
	Egress []string
	// Only are the pod networks that work on this platform; nil: all except those that are specific
	// to other platforms.
	Only *PodNetworks
	// Own are the pod networks, as in v1alpha2, that exist only on this platform.
	Own []string
	// NoIPIP: IP-in-IP packets are dropped.
	NoIPIP bool
	// BalancedAlways: the API is exposed by a load balancer or not at all, never by DNS alone.
	BalancedAlways bool
	// Metadata is the address of the machines' metadata service, which must not be reached through
	// a proxy.
	Metadata string
}

// TypeNames returns the names of machine types.
func TypeNames(list []Type) []string {
	var out []string
	for _, t := range list {
		out = append(out, t.Name)
	}
	return out
}

// Machines are the defaults of a platform's machines.
type Machines struct {
	// Types are the machine types of a role; a new group gets the first one that fits and is
	// available. If there are none, groups must name a type. Unsized: machines have no type.
	Types   map[api.InstanceGroupRole][]Type
	Unsized bool
	// Image is the image of new groups if the channel has none; may be "".
	Image string
	// ImageForms describes how images are written, for messages; may be "".
	ImageForms string
	// Published are prefixes of the images that a channel recommends or once recommended: an
	// upgrade replaces those, and keeps images that users built.
	Published []string
	// GPU says which groups with an enabled driver have GPUs.
	GPU GPU
	// NoCloud: the cluster runs no cloud controllers.
	NoCloud bool
	// Shared: other users have access to the machines' host, so secrets are encrypted.
	Shared bool
	// EtcdEncrypted: the etcd disks of a new cluster are encrypted.
	EtcdEncrypted bool
	// OneGroupFeature is the feature flag that puts all nodes of a new cluster into one group; may
	// be "".
	OneGroupFeature string
	// Numbered: control-plane groups are numbered even if each has its own zone.
	Numbered bool
	// BootCommand is what the boot script of a machine runs once the machine has an ID; may be "".
	BootCommand string
	// Tags are the limits of tags; nil: there are none.
	Tags *Tags
}

// Type is a machine type and its architecture.
type Type struct {
	Name string
	ARM  bool
}

// GPU says how groups with GPUs are recognized.
type GPU string

const (
	// GPUByType: by the machine type, according to the facts.
	GPUByType GPU = "type"
	// GPUByGroup: groups that enable the driver themselves.
	GPUByGroup GPU = "group"
)

// Tags are the limits of tags, in characters.
type Tags struct {
	Place      string // such as "a tag of AWS"
	Key, Value int
	// LabelPrefix is the prefix of tags that hold node labels.
	LabelPrefix string
}

// Store says which stores belong to the platform.
type Store struct {
	// Schemes are the URL schemes from which the platform of a new cluster is guessed.
	Schemes []string
	// SchemesWith are schemes that imply the platform if an environment variable is set; it maps
	// the scheme to the variable.
	SchemesWith map[string]string
	// Files are the schemes, in addition to http and https, from which machines can read files.
	Files []string
	// RegionVariable is the environment variable from which programs read the region.
	RegionVariable string
	// Variables are the environment variables that control-plane machines need to reach one of the
	// platform's stores. None may be a secret: every process on a machine can read its boot script.
	Variables []string
	// Keys returns the place on the platform that holds the keys of an S3 server that is not the
	// platform's; only the cluster's control planes may read it; nil: there is none. It is
	// storekeys.UserData if the platform gives its machines neither an identity nor a better place.
	Keys func(cluster string) string
	// Fetch has, by scheme, the commands with which a boot script writes an object of the platform's
	// stores to a file, before nodeup is there: the body of a case of the function fetch in boot.sh.tmpl.
	// ${url} and ${file} are given, ${token} may be used, and so may the functions option, get and
	// failed. A machine uses its own identity; the script contains no secret. For s3, the commands
	// follow those for servers whose keys are in the environment.
	Fetch map[string]string
	// FetchWithKeys replaces Fetch["s3"] on machines that read the keys at Keys.
	FetchWithKeys string
}

// Model is what the platform changes in the files of its machines.
type Model struct {
	// Volumes returns how etcd-manager finds a member's disk, given the names of the etcd cluster
	// and of the instance group.
	Volumes func(c *api.Cluster, etcd, group string) Volumes
	// Peers returns the names by which the managers of an etcd cluster know its members' machines;
	// nil: they are unknown before the machines run.
	Peers func(e api.EtcdClusterSpec) []string
	// NodeConfig adds what the platform's own options set to the configuration of a group's
	// machines; nil: nothing.
	NodeConfig func(c *api.Cluster, g *api.InstanceGroup, to *nodeconfig.Config)
	// CredentialProvider is the URL of the kubelet's credential provider for the cloud's image
	// registry, with %s for the architecture; may be "".
	CredentialProvider string
	// NodeImages are prefixes of the images of pods that a node needs to become ready, in add-ons
	// other than pod networks.
	NodeImages []string
	// NewestPlugins: machines get the newest CNI plugins, whatever the Kubernetes version.
	NewestPlugins bool
	// HealthClients returns who may check the health of a machine's API server apart from the
	// machine itself: everybody, or one address; nil: no one.
	HealthClients func(*api.Cluster) (address string, everybody bool)
	// Awaited: a user waits for the first add-ons, so their pod is probed early.
	Awaited bool
	// RemovesNodes: kops-controller removes the nodes of machines that are gone.
	RemovesNodes bool
	// FixedDNS: the number of DNS servers follows from the spec's node count, without an
	// autoscaler.
	FixedDNS bool
	// NodeRoutes: the nodes of a cluster with kubenet maintain the routes to each other's pods.
	NodeRoutes bool
	// ScalingGroups returns the platform's groups that make up an instance group, as an autoscaler
	// names them; nil: there is one, named after the group and the cluster.
	ScalingGroups func(c *api.Cluster, g *api.InstanceGroup) []ScalingGroup
	// Controller returns the platform's part of kops-controller's configuration; nil: there is
	// none.
	Controller func(c *api.Cluster, groups []*api.InstanceGroup, f *facts.Cloud, region string) (any, error)
	// Values returns the values that only this platform passes to the templates of add-ons, by
	// name; nil: none.
	Values func(c *api.Cluster, f *facts.Cloud, region string) (map[string]string, error)
	// GroupValues is like Values, for one group; nil: none.
	GroupValues func(c *api.Cluster, g *api.InstanceGroup, f *facts.Cloud) (map[string]any, error)
	// AddonFlags returns the flags that only this platform passes to an add-on of several platforms;
	// nil: none.
	AddonFlags func(c *api.Cluster, addon string) []string
	// MountRole gives a pod the role of its service account in kube-system; nil: service accounts
	// have no roles.
	MountRole func(c *api.Cluster, f *facts.Cloud, account string, pod map[string]any) error
}

// Volumes says how etcd-manager finds a disk.
type Volumes struct {
	Provider string
	Tags     []string // a disk has all of these
	NameTag  string
	// Flags are additional flags of etcd-manager, by name.
	Flags map[string]string
}

// ScalingGroup is a group of machines that the platform maintains, and its size limits.
type ScalingGroup struct {
	Name     string
	Min, Max int32
	// ID is what a list of priorities calls it; empty: Name.
	ID string
}

// WholeGroup returns an instance group as one platform group with that name.
func WholeGroup(name string, g *api.InstanceGroup) []ScalingGroup {
	s := ScalingGroup{Name: name}
	if g.Spec.MinSize != nil {
		s.Min = *g.Spec.MinSize
	}
	if g.Spec.MaxSize != nil {
		s.Max = *g.Spec.MaxSize
	}
	return []ScalingGroup{s}
}

// NamedPeers returns peers that are named after their members.
func NamedPeers(e api.EtcdClusterSpec) []string {
	var out []string
	for _, m := range e.EtcdMembers {
		out = append(out, hostnames.EtcdPeer(e.Name, m.Name))
	}
	return out
}

// HasDNS reports whether the platform has a DNS service for names of clusters.
func (t *Traits) HasDNS() bool { return len(t.Network.DNS) > 0 }

// Region returns the region of a zone, or "" when its name does not tell.
func (n Network) Region(zone string) string {
	if n.RegionOf == nil {
		return ""
	}
	return n.RegionOf(zone)
}

// OwnsPodNetwork reports whether a pod network exists only on this platform.
func (n Network) OwnsPodNetwork(name string) bool { return slices.Contains(n.Own, name) }

// Paths yields the path of every unused field, starting with spec.
func (u Unused) Paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		blocks := u.Blocks
		if len(blocks) == 0 {
			blocks = []string{""}
		}
		for _, b := range blocks {
			for _, n := range u.Names {
				if !yield("spec." + strings.TrimPrefix(b+"."+n, ".")) {
					return
				}
			}
		}
	}
}

// PodNetworks are pod networks, as in v1alpha2.
type PodNetworks struct {
	Names []string
	// Why completes the sentence "is not supported on the platform, "; Remedy says which network to
	// choose.
	Why, Remedy string
	// BesideProxy are those that leave services to kube-proxy on this platform, although they replace
	// it elsewhere.
	BesideProxy []string
}
