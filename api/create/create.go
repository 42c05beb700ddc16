// Package create defines what a user can specify about a new cluster.
//
// It must not know how these options are implemented.
package create

// Options are what a user can specify about a new cluster. Zero values mean the default.
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

	// AdminAccess and SSHAccess are CIDRs; SSHAccess defaults to AdminAccess, which defaults to everywhere.
	AdminAccess []string
	SSHAccess   []string

	// Zones are the zones of the nodes, ControlPlaneZones the zones of the control plane; either alone is sufficient.
	Zones             []string
	ControlPlaneZones []string
	// ControlPlaneCount is the number of control plane machines; 0 means one per zone of ControlPlaneZones, or one.
	ControlPlaneCount int32
	// NodeCount is the total number of nodes; 0 means one per zone, or two on the local cloud.
	NodeCount      int32
	APIServerCount int32
	// Sizes are machine types; several create a mixed group, on AWS.
	ControlPlaneSizes []string
	NodeSizes         []string
	APIServerSizes    []string

	// Image is the image of all machines; the images by role override it.
	Image             string
	ControlPlaneImage string
	NodeImage         string
	BastionImage      string
	// Volume sizes are in GB and apply to the root volume.
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

	// Counts and sizes of roles that are not implemented yet are read and have no effect.
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

	// Networking is the pod network, such as cilium; the default is cilium, or kubenet on the local cloud.
	Networking string
	// NetworkCIDRs are the range of the network, then further ranges, each with a subnet of its own.
	NetworkCIDRs []string
	NetworkID    string
	// SubnetIDs and UtilitySubnetIDs are shared subnets, at most one per zone.
	SubnetIDs         []string
	UtilitySubnetIDs  []string
	DisableSubnetTags bool
	IPv6              bool
	// Topology is public, the default, or private, the default with IPv6.
	Topology string
	Bastion  bool

	// DNSType is public, private or none; "" is public if there is a zone, else none.
	DNSType string
	DNSZone string
	// APILoadBalancerType is public or internal.
	APILoadBalancerType string
	APISSLCertificate   string
	APIPublicName       string

	// Hardened sets what the CIS benchmark requires, and creates a key that encrypts secrets in etcd.
	Hardened bool

	CloudLabels string // k=v, comma-separated; values may be quoted
	// DiscoveryStore is the URL of a store for the public documents of the service account issuer.
	DiscoveryStore string
	// DiscoveryService is the URL of a service that publishes them; refused, because no cluster is registered yet.
	DiscoveryService string

	// Own are the platform-specific options, by name, as documented on its page.
	Own map[string]string

	// Sets are assignments of fields, spec.path=value; Unsets are paths.
	Sets   []string
	Unsets []string
}
