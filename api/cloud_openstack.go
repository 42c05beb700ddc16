package api

// OpenstackSpec holds options for OpenStack.
type OpenstackSpec struct {
	// LoadBalancer configures load balancers of the API and of services.
	LoadBalancer *OpenstackLoadbalancerConfig `json:"loadbalancer,omitempty"`
	// Monitor configures their health check.
	Monitor      *OpenstackMonitor            `json:"monitor,omitempty"`
	Router       *OpenstackRouter             `json:"router,omitempty"`
	BlockStorage *OpenstackBlockStorageConfig `json:"blockStorage,omitempty"`
	// InsecureSkipVerify accepts any certificate of the OpenStack API.
	InsecureSkipVerify *bool             `json:"insecureSkipVerify,omitempty"`
	Network            *OpenstackNetwork `json:"network,omitempty"`
}

// OpenstackLoadbalancerConfig configures load balancers.
type OpenstackLoadbalancerConfig struct {
	// Method is the balancing algorithm, such as ROUND_ROBIN.
	Method *string `json:"method,omitempty"`
	// Provider is the provider of Octavia.
	Provider              *string `json:"provider,omitempty"`
	UseOctavia            *bool   `json:"useOctavia,omitempty"`
	FloatingNetwork       *string `json:"floatingNetwork,omitempty"`
	FloatingNetworkID     *string `json:"floatingNetworkID,omitempty"`
	FloatingSubnet        *string `json:"floatingSubnet,omitempty"`
	SubnetID              *string `json:"subnetID,omitempty"`
	ManageSecurityGroups  *bool   `json:"manageSecurityGroups,omitempty"`
	EnableIngressHostname *bool   `json:"enableIngressHostname,omitempty"`
	IngressHostnameSuffix *string `json:"ingressHostnameSuffix,omitempty"`
	FlavorID              *string `json:"flavorID,omitempty"`
}

// OpenstackMonitor configures a health check; delay and timeout are durations.
type OpenstackMonitor struct {
	Delay      *string `json:"delay,omitempty"`
	Timeout    *string `json:"timeout,omitempty"`
	MaxRetries *int    `json:"maxRetries,omitempty"`
}

// OpenstackRouter connects the cluster's network with the outside.
type OpenstackRouter struct {
	// ExternalNetwork is the network that floating addresses come from.
	ExternalNetwork *string `json:"externalNetwork,omitempty"`
	// DNSServers is a comma-separated list of addresses.
	DNSServers            *string  `json:"dnsServers,omitempty"`
	ExternalSubnet        *string  `json:"externalSubnet,omitempty"`
	AvailabilityZoneHints []string `json:"availabilityZoneHints,omitempty"`
}

// OpenstackBlockStorageConfig configures Cinder volumes.
type OpenstackBlockStorageConfig struct {
	// BSVersion is the version of the volume API.
	BSVersion *string `json:"bs-version,omitempty"`
	// IgnoreVolumeAZ allows the use of a volume from another zone.
	IgnoreVolumeAZ *bool `json:"ignore-volume-az,omitempty"`
	// OverrideVolumeAZ is one zone for all volumes.
	OverrideVolumeAZ         *string `json:"override-volume-az,omitempty"`
	IgnoreVolumeMicroversion *bool   `json:"ignore-volume-microversion,omitempty"`
	MetricsEnabled           *bool   `json:"metricsEnabled,omitempty"`
	CreateStorageClass       *bool   `json:"createStorageClass,omitempty"`
	CSIPluginImage           string  `json:"csiPluginImage,omitempty"`
	CSITopologySupport       *bool   `json:"csiTopologySupport,omitempty"`
	ClusterName              string  `json:"clusterName,omitempty"`
}

// OpenstackNetwork configures which networks the cloud controller reports.
type OpenstackNetwork struct {
	AvailabilityZoneHints []string `json:"availabilityZoneHints,omitempty"`
	IPv6SupportDisabled   *bool    `json:"ipv6SupportDisabled,omitempty"`
	PublicNetworkNames    []string `json:"publicNetworkNames,omitempty"`
	InternalNetworkNames  []string `json:"internalNetworkNames,omitempty"`
	AddressSortOrder      *string  `json:"addressSortOrder,omitempty"`
}
