package api

// KubenetNetworkingSpec has no options.
type KubenetNetworkingSpec struct{}

// ExternalNetworkingSpec has no options.
type ExternalNetworkingSpec struct{}

// CNINetworkingSpec is a network that the user installs.
type CNINetworkingSpec struct {
	// UsesSecondaryIP says that pods take secondary addresses of the machine.
	UsesSecondaryIP bool `json:"usesSecondaryIP,omitempty"`
}

// KopeioNetworkingSpec has no options.
type KopeioNetworkingSpec struct{}

// FlannelNetworkingSpec is the flannel network.
type FlannelNetworkingSpec struct {
	// Backend is vxlan or udp; udp when a document leaves it out.
	Backend string `json:"backend,omitempty"`
	// IptablesResyncSeconds is the interval of checking the rules.
	IptablesResyncSeconds *int32 `json:"iptablesResyncSeconds,omitempty"`
}

// KuberouterNetworkingSpec is the kube-router network, which replaces kube-proxy.
type KuberouterNetworkingSpec struct {
	UseNFTablesForNetpol *bool `json:"useNFTablesForNetpol,omitempty"`
}

// AmazonVPCNetworkingSpec gives pods addresses of the VPC.
type AmazonVPCNetworkingSpec struct {
	// Image replaces the image that goes with the version.
	Image                   string `json:"image,omitempty"`
	InitImage               string `json:"initImage,omitempty"`
	NetworkPolicyAgentImage string `json:"networkPolicyAgentImage,omitempty"`
	// Env are variables of the aws-node container.
	Env []EnvVar `json:"env,omitempty"`
}

// GCPNetworkingSpec has no options: pods take alias addresses of Google Cloud.
type GCPNetworkingSpec struct{}

// KindnetNetworkingSpec is the kindnet network.
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

// KindnetMasqueradeSpec says which traffic leaves with the node's address.
type KindnetMasqueradeSpec struct {
	Enabled            *bool    `json:"enabled,omitempty"`
	NonMasqueradeCIDRs []string `json:"nonMasqueradeCIDRs,omitempty"`
}
