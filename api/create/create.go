// Package create is what a user can say of a new cluster.
//
// It must not know what follows from it.
package create

// Options are what a user can say of a new cluster. Zero values mean the default.
type Options struct {
	ClusterName string
	// CloudProvider is the name of the platform.
	CloudProvider string
	// ConfigBase is the folder of the cluster in its state store.
	ConfigBase string
	// Channel is a name, a URL or a path; "" is stable.
	Channel string
	// KubernetesVersion is a version or the URL of a release; "" is the channel's choice.
	KubernetesVersion      string
	KubernetesFeatureGates []string // "X" or "+X" on, "-X" off
	// Authorization is RBAC, the default, or AlwaysAllow.
	Authorization string

	// AdminAccess and SSHAccess are CIDRs; SSHAccess is AdminAccess when empty, which is everywhere when empty.
	AdminAccess []string
	SSHAccess   []string

	// Zones are those of the nodes, ControlPlaneZones those of the control plane; either may stand for both.
	Zones             []string
	ControlPlaneZones []string
	// ControlPlaneCount is the number of control plane machines; 0 is one a zone of ControlPlaneZones, or one.
	ControlPlaneCount int32
	// NodeCount is the number of nodes in all; 0 is one a zone, or two on the local cloud.
	NodeCount      int32
	APIServerCount int32
	// Sizes are machine types; more than one makes a mixed group, on AWS.
	ControlPlaneSizes []string
	NodeSizes         []string
	APIServerSizes    []string

	// Image is the image of all machines; the images of roles override it.
	Image             string
	ControlPlaneImage string
	NodeImage         string
	BastionImage      string
	// Volume sizes are in GB, of the root volume.
	ControlPlaneVolumeSize int32
	NodeVolumeSize         int32
	ControlPlaneVolumeType string
	NodeVolumeType         string
	// Tenancy is default, dedicated or host.
	ControlPlaneTenancy        string
	NodeTenancy                string
	ControlPlaneSecurityGroups []string
	NodeSecurityGroups         []string
	AssociatePublicIP          *bool
	// InstanceManager is cloudgroups, the default, or karpenter.
	InstanceManager string

	// Counts and sizes of roles that are not built yet are read and have no effect.
	EtcdCount                  int32
	EtcdSizes                  []string
	KubeControllerManagerCount int32
	KubeControllerManagerSizes []string
	SchedulerCount             int32
	SchedulerSizes             []string

	// EtcdClusters are main and events when empty.
	EtcdClusters       []string
	EtcdStorageType    string
	EncryptEtcdStorage *bool

	// Networking is the pod network, such as cilium, the default; on the local cloud kubenet is.
	Networking string
	// NetworkCIDRs are the range of the network, then further ranges, each with a subnet.
	NetworkCIDRs []string
	NetworkID    string
	// SubnetIDs and UtilitySubnetIDs are shared subnets, at most one a zone.
	SubnetIDs         []string
	UtilitySubnetIDs  []string
	DisableSubnetTags bool
	IPv6              bool
	// Topology is public, the default, or private, the default with IPv6.
	Topology string
	Bastion  bool

	// DNSType is public, private or none; "" is public with a zone, else none.
	DNSType string
	DNSZone string
	// APILoadBalancerType is public or internal.
	APILoadBalancerType string
	APISSLCertificate   string
	APIPublicName       string

	// Hardened sets what the CIS benchmark asks for, and has a key made that encrypts secrets in etcd.
	Hardened bool

	CloudLabels string // k=v, by commas; values may be quoted
	// DiscoveryStore is the URL of a store for the public documents of the service account issuer.
	DiscoveryStore string
	// DiscoveryService is the URL of a service that publishes them, which is refused: no cluster is registered yet.
	DiscoveryService string

	// Own are the options of the platform alone, by name, as its page says.
	Own map[string]string

	// Sets are assignments of fields, spec.path=value; Unsets are paths.
	Sets   []string
	Unsets []string
}
