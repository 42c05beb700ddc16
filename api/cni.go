package api

// KubenetNetworkingSpec has no options.
type KubenetNetworkingSpec struct{}

// ExternalNetworkingSpec has no options.
type ExternalNetworkingSpec struct{}

// CNINetworkingSpec configures a network that the user installs.
type CNINetworkingSpec struct {
	// UsesSecondaryIP means that pods use secondary addresses of the machine.
	UsesSecondaryIP bool `json:"usesSecondaryIP,omitempty"`
}

// KopeioNetworkingSpec has no options.
type KopeioNetworkingSpec struct{}

// FlannelNetworkingSpec configures the flannel network.
type FlannelNetworkingSpec struct {
	// Backend is vxlan or udp; udp if omitted.
	Backend string `json:"backend,omitempty"`
	// IptablesResyncSeconds is the interval between checks of the rules.
	IptablesResyncSeconds *int32 `json:"iptablesResyncSeconds,omitempty"`
}

// KuberouterNetworkingSpec configures the kube-router network, which replaces kube-proxy.
type KuberouterNetworkingSpec struct {
	UseNFTablesForNetpol *bool `json:"useNFTablesForNetpol,omitempty"`
}

// AmazonVPCNetworkingSpec assigns addresses of the VPC to pods.
type AmazonVPCNetworkingSpec struct {
	// Image replaces the default image of the version.
	Image                   string `json:"image,omitempty"`
	InitImage               string `json:"initImage,omitempty"`
	NetworkPolicyAgentImage string `json:"networkPolicyAgentImage,omitempty"`
	// Env are variables of the aws-node container.
	Env []EnvVar `json:"env,omitempty"`
}

// GCPNetworkingSpec has no options: pods use alias IP addresses of Google Cloud.
type GCPNetworkingSpec struct{}

// KindnetNetworkingSpec configures the kindnet network.
type KindnetNetworkingSpec struct {
	Version                      string `json:"version,omitempty"`
	NetworkPolicies              *bool  `json:"networkPolicies,omitempty"`
	AdminNetworkPolicies         *bool  `json:"adminNetworkPolicies,omitempty"`
	BaselineAdminNetworkPolicies *bool  `json:"baselineAdminNetworkPolicies,omitempty"`
	// DNSCaching answers DNS on the node.
	DNSCaching *bool `json:"dnsCaching,omitempty"`
	// NAT64 lets IPv6-only pods reach IPv4 addresses.
	NAT64 *bool `json:"nat64,omitempty"`
	// FastPathThreshold is the number of packets after which a flow is offloaded.
	FastPathThreshold *int32                 `json:"fastPathThreshold,omitempty"`
	Masquerade        *KindnetMasqueradeSpec `json:"masquerade,omitempty"`
	// LogLevel is the verbosity; higher is more.
	LogLevel *int32 `json:"logLevel,omitempty"`
}

// KindnetMasqueradeSpec selects the traffic that leaves with the node's address.
type KindnetMasqueradeSpec struct {
	Enabled            *bool    `json:"enabled,omitempty"`
	NonMasqueradeCIDRs []string `json:"nonMasqueradeCIDRs,omitempty"`
}
