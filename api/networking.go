package api

// SubnetType defines how machines in a subnet reach the internet and are reached.
type SubnetType string

const (
	// SubnetPublic has a route to an internet gateway.
	SubnetPublic SubnetType = "Public"
	// SubnetPrivate reaches the internet through NAT or another egress.
	SubnetPrivate SubnetType = "Private"
	// SubnetDualStack is private with public IPv6 addresses.
	SubnetDualStack SubnetType = "DualStack"
	// SubnetUtility is public and holds load balancers and bastions of private clusters.
	SubnetUtility SubnetType = "Utility"
)

// DNSType selects where the names of the API server are published.
type DNSType string

const (
	// DNSPublic publishes them in a public zone.
	DNSPublic DNSType = "Public"
	// DNSPrivate publishes them in a zone that is visible only to the network.
	DNSPrivate DNSType = "Private"
	// DNSNone publishes no names; machines find the API through its load balancer.
	DNSNone DNSType = "None"
)

// NetworkingSpec configures the network of machines, services and pods. One of the members from Kubenet
// to Kindnet is set: the pod network.
type NetworkingSpec struct {
	// NetworkID is an existing network (VPC) to use; kops then neither changes nor deletes it.
	NetworkID string `json:"networkID,omitempty"`
	// NetworkCIDR is the address range of the network.
	NetworkCIDR string `json:"networkCIDR,omitempty"`
	// AdditionalNetworkCIDRs are further ranges of the network, on AWS.
	AdditionalNetworkCIDRs []string `json:"additionalNetworkCIDRs,omitempty"`
	// Subnets are the subnets of machines and load balancers.
	Subnets []ClusterSubnetSpec `json:"subnets,omitempty"`
	// TagSubnets adds the tags by which controllers find subnets; true when nil.
	TagSubnets *bool `json:"tagSubnets,omitempty"`
	// Topology configures how names and bastions are published.
	Topology *TopologySpec `json:"topology,omitempty"`
	// EgressProxy is the HTTP proxy through which machines reach the outside.
	EgressProxy *EgressProxySpec `json:"egressProxy,omitempty"`
	// NonMasqueradeCIDR contains the ranges of pods and services; ::/0 makes an IPv6-only cluster.
	NonMasqueradeCIDR string `json:"nonMasqueradeCIDR,omitempty"`
	// PodCIDR is the range of pods.
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceClusterIPRange is the range of services.
	ServiceClusterIPRange string `json:"serviceClusterIPRange,omitempty"`
	// IsolateControlPlane keeps control-plane pods off the pod network.
	IsolateControlPlane *bool                  `json:"isolateControlPlane,omitempty"`
	Kubenet             *KubenetNetworkingSpec `json:"kubenet,omitempty"`
	// External means that the user provides the network; refused in favour of cni.
	External *ExternalNetworkingSpec `json:"external,omitempty"`
	// CNI means that the user installs a CNI network.
	CNI    *CNINetworkingSpec    `json:"cni,omitempty"`
	Kopeio *KopeioNetworkingSpec `json:"kopeio,omitempty"`
	// Weave is refused: the network was removed.
	Weave   *WeaveNetworkingSpec   `json:"weave,omitempty"`
	Flannel *FlannelNetworkingSpec `json:"flannel,omitempty"`
	Calico  *CalicoNetworkingSpec  `json:"calico,omitempty"`
	// Canal is refused: the network was removed.
	Canal      *CanalNetworkingSpec      `json:"canal,omitempty"`
	KubeRouter *KuberouterNetworkingSpec `json:"kubeRouter,omitempty"`
	AmazonVPC  *AmazonVPCNetworkingSpec  `json:"amazonVPC,omitempty"`
	Cilium     *CiliumNetworkingSpec     `json:"cilium,omitempty"`
	GCP        *GCPNetworkingSpec        `json:"gcp,omitempty"`
	Kindnet    *KindnetNetworkingSpec    `json:"kindnet,omitempty"`
}

// ClusterSubnetSpec configures one subnet.
type ClusterSubnetSpec struct {
	// Name is the name by which instance groups refer to it.
	Name string `json:"name,omitempty"`
	// Zone is the availability zone; empty where subnets span a region.
	Zone   string `json:"zone,omitempty"`
	Region string `json:"region,omitempty"`
	// CIDR is the IPv4 range, inside a range of the network.
	CIDR string `json:"cidr,omitempty"`
	// IPv6CIDR is an IPv6 range, or /64#N for the N-th (hexadecimal) /64 of the network's.
	IPv6CIDR string `json:"ipv6CIDR,omitempty"`
	// ID is an existing subnet to use; kops then neither changes nor deletes it.
	ID string `json:"id,omitempty"`
	// Egress is how a private subnet reaches the internet: an existing nat-…, eipalloc-…, i-…, tgw-… or External.
	Egress string     `json:"egress,omitempty"`
	Type   SubnetType `json:"type,omitempty" enum:"Public|Private|DualStack|Utility"`
	// PublicIP is an existing address for the NAT gateway.
	PublicIP string `json:"publicIP,omitempty"`
	// AdditionalRoutes are added to the subnet's route table, on AWS.
	AdditionalRoutes []RouteSpec `json:"additionalRoutes,omitempty"`
}

// RouteSpec describes one route.
type RouteSpec struct {
	// CIDR is the destination.
	CIDR string `json:"cidr,omitempty"`
	// Target is a gateway, peering or machine: pcx-…, i-…, nat-…, tgw-…, igw-…, eigw-….
	Target string `json:"target,omitempty"`
}

// TopologySpec configures how the cluster is published.
type TopologySpec struct {
	Bastion *BastionSpec `json:"bastion,omitempty"`
	// DNS selects where the API's names are published; Public if omitted.
	DNS DNSType `json:"dns,omitempty" enum:"Public|Private|None"`
}

// BastionSpec configures the SSH entry point to private subnets.
type BastionSpec struct {
	// PublicName is its DNS name.
	PublicName   string                   `json:"publicName,omitempty"`
	LoadBalancer *BastionLoadBalancerSpec `json:"loadBalancer,omitempty"`
}

// BastionLoadBalancerSpec configures the load balancer in front of the bastions.
type BastionLoadBalancerSpec struct {
	AdditionalSecurityGroups []string         `json:"additionalSecurityGroups,omitempty"`
	Type                     LoadBalancerType `json:"type,omitempty" enum:"Public|Internal"`
}

// EgressProxySpec configures a forward proxy.
type EgressProxySpec struct {
	HTTPProxy HTTPProxy `json:"httpProxy,omitzero"`
	// Excludes is a comma-separated list of names that are reached without it; completed when empty.
	Excludes string `json:"excludes,omitempty"`
}

// HTTPProxy is the address of a proxy.
type HTTPProxy struct {
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty"`
}
