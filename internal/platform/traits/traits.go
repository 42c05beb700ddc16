// Package traits says as data what a platform is to the stages that infer, check and
// model a cluster: what its network needs, what its machines are called by default,
// which fields of a spec it does not use.
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
	"kops.local/kops/internal/spec/facts"
)

// Traits are the traits of one platform. A zero value is the usual case.
type Traits struct {
	// Name is the platform's in v1alpha2.
	Name api.CloudProviderID
	// Title is its name for people.
	Title string
	// Feature is the switch without which no cluster is made there.
	Feature string
	// Terraform says whether clusters can be written as Terraform, and with which switch.
	Terraform Terraform
	// Has are the abilities that not all platforms share.
	Has Abilities
	// Unused are the fields that are accepted there and change nothing.
	Unused []Unused
	// SSHKeys are how many a cluster has.
	SSHKeys SSHKeys
	// OwnStore: where the user names no state store, one of their own is taken.
	OwnStore bool
	// OwnNetworking: the pod network that new clusters get by default is the platform's choice.
	OwnNetworking bool
	// OwnersAdmin: the maker of a cluster may access all of it, and so becomes its administrator.
	OwnersAdmin bool
	// NameMax is how long a cluster's name can be; 0 is as long as a DNS name.
	NameMax int

	Network  Network
	Machines Machines
	Store    Store
	Model    Model
}

// Terraform says whether clusters can be written as Terraform.
type Terraform struct {
	Never   bool
	Feature string // the switch that it needs
}

// Abilities are what some platforms have.
type Abilities struct {
	// FurtherRanges: a network can have more than one range.
	FurtherRanges bool
	// IPv6: pods and services can have IPv6 addresses only, and subnets have ranges of them.
	IPv6 bool
	// PrefixLists: access is given to lists of ranges, which have names of their own.
	PrefixLists bool
	// SecurityGroups: load balancers have them, certificates, and logs of their own.
	SecurityGroups bool
	// BalancerClass: load balancers are of a class.
	BalancerClass bool
	// BalancerSubnets: the user chooses the subnets of the API's load balancer.
	BalancerSubnets bool
	// FurtherVolumes: machines can have volumes besides their system's.
	FurtherVolumes bool
	// MixedInstances: a group can have several machine types; external load
	// balancers, and profiles of its own.
	MixedInstances bool
	// WarmPools: groups can hold machines in reserve.
	WarmPools bool
	// Karpenter can make the machines.
	Karpenter bool
	// GPUDrivers are installed on machines that have such processors.
	GPUDrivers bool
	// APIServerNodes: machines can run an API server and nothing else of the control plane.
	APIServerNodes bool
	// NetworkAddresses: pods can have addresses of the cloud's network.
	NetworkAddresses bool
	// Prices: the autoscaler knows what machines cost.
	Prices bool
	// PodRanges: the cloud gives machines ranges of IPv6 addresses for their pods.
	PodRanges bool
	// Repair: kops-controller can have a machine replaced.
	Repair bool
	// OwnNAT64: the network translates IPv6 to IPv4 itself.
	OwnNAT64 bool
}

// Unused says of fields that a platform accepts them, and that they change nothing there.
type Unused struct {
	// Kind is the object's, api.KindCluster or api.KindInstanceGroup.
	Kind string
	// Blocks are paths of v1alpha3 below spec, in which [] stands for every item of a
	// list, and Names are fields in each of them; no block is spec itself.
	Blocks, Names []string
	// Remedy says what to do instead.
	Remedy string
}

// SSHKeys are how many keys a cluster has.
type SSHKeys struct {
	// Most is the greatest number; 0 is any.
	Most int
	// Needed: there must be one; NamedInstead: unless the spec names one that the platform has.
	Needed, NamedInstead bool
	// NamedOnly: the user's own key is not taken unless it is named.
	NamedOnly bool
}

// Network is what the network of a platform needs and has.
type Network struct {
	// NeedsSubnets, NeedsCIDR, NeedsNonMasquerade, NeedsSubnetCIDR and NeedsSubnetRegion
	// are what a spec must say of it.
	NeedsSubnets, NeedsCIDR, NeedsNonMasquerade, NeedsSubnetCIDR, NeedsSubnetRegion bool
	// NoCIDR: a network has no range of its own.
	NoCIDR bool
	// CIDR is the range of a network that kops makes; may be "".
	CIDR string
	// Split: the network's range is divided between the subnets.
	Split bool
	// DNS are the kinds of DNS that the platform has beside None.
	DNS []api.DNSType
	// Zoned: a subnet is in a zone.
	Zoned bool
	// SpansRegion: a subnet is in all zones of its region, so that groups name zones.
	SpansRegion bool
	// RegionOf is the region of a zone, or "" when its name does not tell; nil: names never tell.
	RegionOf func(zone string) string
	// OneRegion: the zones of a new cluster are in one region; where RegionOf is nil, a zone is one.
	OneRegion bool
	// RegionSubnet is the subnet of a new cluster in a region; nil: each zone has one.
	RegionSubnet func(cluster, region string) api.ClusterSubnetSpec
	// NoUtility: private clusters have no subnets for load balancers.
	NoUtility bool
	// SharedAreKnown: the facts tell the zone and the network of shared subnets.
	SharedAreKnown bool
	// Egress are the ways out of subnets, beside External; nil: the ids of gateways and the like.
	Egress []string
	// Only are the pod networks that work on this platform; nil: all but other platforms' own.
	Only *PodNetworks
	// Own are the pod networks, as in v1alpha2, that exist on this platform alone.
	Own []string
	// NoIPIP: packets of IP in IP are dropped.
	NoIPIP bool
	// BalancedAlways: the API is behind a load balancer or nothing, never found by DNS alone.
	BalancedAlways bool
	// Metadata is the address at which machines learn of themselves, to which no proxy leads.
	Metadata string
}

// Machines are what the machines of a platform are by default.
type Machines struct {
	// Types are the machine types of a role, of which a new group gets the first that fits
	// and is offered; none: they must be named. Unsized: machines have no type.
	Types   map[api.InstanceGroupRole][]Type
	Unsized bool
	// Image is the image of new groups if the channel has none; may be "".
	Image string
	// ImageForms are how images are written, for messages; "" is not told.
	ImageForms string
	// Published begin the names of the images that a channel recommends, or did: an upgrade
	// replaces those, and keeps the images that users made.
	Published []string
	// GPU says which groups with an enabled driver have the processors.
	GPU GPU
	// NoCloud: no controllers of a cloud run in the cluster.
	NoCloud bool
	// Shared: the machines are on a host that others use, so secrets are encrypted.
	Shared bool
	// EtcdEncrypted: disks of etcd of a new cluster are encrypted.
	EtcdEncrypted bool
	// OneGroupFeature is the switch with which all nodes of a new cluster are one group; may be
	// "".
	OneGroupFeature string
	// Numbered: groups of the control plane are numbered even where each has a zone of its own.
	Numbered bool
	// Tags are the limits of tags; nil: there are none.
	Tags *Tags
}

// Type is a machine type and its architecture.
type Type struct {
	Name string
	ARM  bool
}

// GPU says how the groups are known that have GPUs.
type GPU string

const (
	// GPUByType: those whose machine type has them, as the facts tell.
	GPUByType GPU = "type"
	// GPUByGroup: those that enable the driver themselves.
	GPUByGroup GPU = "group"
)

// Tags are the limits of a tag, in characters.
type Tags struct {
	Place      string // such as "a tag of AWS"
	Key, Value int
	// LabelPrefix begins the tag that keeps a label of nodes.
	LabelPrefix string
}

// Store says which stores go with the platform.
type Store struct {
	// Schemes are the schemes of URLs from which the platform of a new cluster is guessed.
	Schemes []string
	// SchemesWith are schemes that mean the platform when a variable is set, by scheme.
	SchemesWith map[string]string
	// Files are the schemes, beside http and https, under which machines can read files.
	Files []string
	// RegionVariable is the environment variable that names the region to programs.
	RegionVariable string
	// Variables are the variables of the environment that machines of the control plane need to
	// reach a store of the platform. None may be a secret: every process on a machine can read the
	// content of its script.
	Variables []string
	// Keys names the place of the platform's in which the keys of another's server of S3
	// stand for the control planes of a cluster, which alone may read it; nil: there is none.
	Keys func(cluster string) string
}

// Model is what the platform changes in the files of its machines.
type Model struct {
	// Volumes tells how etcd-manager finds the disk of a member, by the names of the
	// cluster, the etcd and the instance group.
	Volumes func(c *api.Cluster, etcd, group string) Volumes
	// Peers are the names by which the managers of an etcd cluster know the machines of its
	// members; nil: they are not known before the machines run.
	Peers func(e api.EtcdClusterSpec) []string
	// NodeConfig adds to the configuration of a group's machines what the platform's own
	// options say; nil: nothing.
	NodeConfig func(c *api.Cluster, g *api.InstanceGroup, to *nodeconfig.Config)
	// CredentialProvider is the URL of the program that logs the kubelet in to the cloud's
	// registry of images, with %s for the architecture; may be "".
	CredentialProvider string
	// NodeImages begin the images of pods without which a node is not ready, in add-ons other than
	// pod networks.
	NodeImages []string
	// NewestPlugins: machines get the newest CNI plugins, for any Kubernetes version.
	NewestPlugins bool
	// HealthClients tells who else than the machine asks whether its API server is
	// healthy: everybody, or one address; nil: nobody.
	HealthClients func(*api.Cluster) (address string, everybody bool)
	// Awaited: somebody waits for the first add-ons, so their pod is asked early.
	Awaited bool
	// RemovesNodes: kops-controller removes the nodes of machines that are gone.
	RemovesNodes bool
	// FixedDNS: the number of DNS servers follows the spec's nodes, and no autoscaler's count.
	FixedDNS bool
	// NodeRoutes: the nodes of a cluster with kubenet keep the routes to each other's pods.
	NodeRoutes bool
	// ScalingGroups are the platform's own groups of which an instance group consists, as an
	// autoscaler names them; nil: it is one, called as the group and the cluster are.
	ScalingGroups func(c *api.Cluster, g *api.InstanceGroup) []ScalingGroup
	// Controller is the platform's part of kops-controller's configuration; nil: it has none.
	Controller func(c *api.Cluster, groups []*api.InstanceGroup, f *facts.Cloud, region string) (any, error)
	// Values are what the templates of add-ons see of the platform alone, by name; nil: nothing.
	Values func(c *api.Cluster, f *facts.Cloud, region string) (map[string]string, error)
	// MountRole lets a pod act in the role of its service account in kube-system; nil:
	// accounts have no roles.
	MountRole func(c *api.Cluster, f *facts.Cloud, account string, pod map[string]any) error
}

// Volumes tells how etcd-manager finds a disk.
type Volumes struct {
	Provider string
	Tags     []string // a disk has all of these
	NameTag  string
	// Flags are further ones of etcd-manager, by name.
	Flags map[string]string
}

// ScalingGroup is a group of machines that the platform keeps, and how many it may have.
type ScalingGroup struct {
	Name     string
	Min, Max int32
}

// Whole is an instance group of which the platform makes one group of that name.
func Whole(name string, g *api.InstanceGroup) []ScalingGroup {
	s := ScalingGroup{Name: name}
	if g.Spec.MinSize != nil {
		s.Min = *g.Spec.MinSize
	}
	if g.Spec.MaxSize != nil {
		s.Max = *g.Spec.MaxSize
	}
	return []ScalingGroup{s}
}

// NamedPeers are peers that are called as their members are.
func NamedPeers(e api.EtcdClusterSpec) []string {
	var out []string
	for _, m := range e.EtcdMembers {
		out = append(out, hostnames.EtcdPeer(e.Name, m.Name))
	}
	return out
}

// Publishes reports whether the platform has a DNS service for names of clusters.
func (t *Traits) Publishes() bool { return len(t.Network.DNS) > 0 }

// Region is the region of a zone, or "" when its name does not tell.
func (n Network) Region(zone string) string {
	if n.RegionOf == nil {
		return ""
	}
	return n.RegionOf(zone)
}

// OwnsPodNetwork reports whether a pod network exists on this platform.
func (n Network) OwnsPodNetwork(name string) bool { return slices.Contains(n.Own, name) }

// Paths yields every path that is meant, with spec before it.
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
	// Why says why there are no others, after "is not supported on the platform, "; Remedy says which to choose.
	Why, Remedy string
}
