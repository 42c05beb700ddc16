package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// CiliumEncryptionType selects how Cilium encrypts traffic between nodes.
type CiliumEncryptionType string

const (
	// CiliumEncryptionIPSec needs the secret ciliumpassword.
	CiliumEncryptionIPSec CiliumEncryptionType = "ipsec"
	// CiliumEncryptionWireguard generates its keys itself.
	CiliumEncryptionWireguard CiliumEncryptionType = "wireguard"
)

// CiliumNetworkingSpec configures the Cilium network, which is the default.
type CiliumNetworkingSpec struct {
	// Registry replaces the registry of its images.
	Registry string `json:"registry,omitempty"`
	Version  string `json:"version,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// AgentPrometheusPort is the port on which the agent serves metrics.
	AgentPrometheusPort int      `json:"agentPrometheusPort,omitempty"`
	Metrics             []string `json:"metrics,omitempty"`
	// ChainingMode runs it on top of another network.
	ChainingMode       string `json:"chainingMode,omitempty"`
	Debug              bool   `json:"debug,omitempty"`
	DisableEndpointCRD bool   `json:"disableEndpointCRD,omitempty"`
	// EnablePolicy is default, always or never.
	EnablePolicy                 string `json:"enablePolicy,omitempty"`
	EnableL7Proxy                *bool  `json:"enableL7Proxy,omitempty"`
	EnableLocalRedirectPolicy    *bool  `json:"enableLocalRedirectPolicy,omitempty"`
	EnableBPFMasquerade          *bool  `json:"enableBPFMasquerade,omitempty"`
	EnableEndpointHealthChecking *bool  `json:"enableEndpointHealthChecking,omitempty"`
	EnableHostFirewall           *bool  `json:"enableHostFirewall,omitempty"`
	EnablePrometheusMetrics      bool   `json:"enablePrometheusMetrics,omitempty"`
	// EnableEncryption encrypts traffic between nodes, by encryptionType.
	EnableEncryption bool                 `json:"enableEncryption,omitempty"`
	EncryptionType   CiliumEncryptionType `json:"encryptionType,omitempty" enum:"ipsec|wireguard"`
	NodeEncryption   bool                 `json:"nodeEncryption,omitempty"`
	// IdentityAllocationMode is crd or kvstore.
	IdentityAllocationMode    string `json:"identityAllocationMode,omitempty"`
	IdentityChangeGracePeriod string `json:"identityChangeGracePeriod,omitempty"`
	// Masquerade rewrites the source of traffic that leaves the cluster to the node's address.
	Masquerade             *bool             `json:"masquerade,omitempty"`
	AgentPodAnnotations    map[string]string `json:"agentPodAnnotations,omitempty"`
	OperatorPodAnnotations map[string]string `json:"operatorPodAnnotations,omitempty"`
	// Tunnel is vxlan, geneve or disabled.
	Tunnel string `json:"tunnel,omitempty"`
	// MonitorAggregation is low, medium or maximum.
	MonitorAggregation string `json:"monitorAggregation,omitempty"`
	BPFCTGlobalTCPMax  int    `json:"bpfCTGlobalTCPMax,omitempty"`
	BPFCTGlobalAnyMax  int    `json:"bpfCTGlobalAnyMax,omitempty"`
	// BPFLBAlgorithm is random or maglev.
	BPFLBAlgorithm       string `json:"bpfLBAlgorithm,omitempty"`
	BPFLBMaglevTableSize string `json:"bpfLBMaglevTableSize,omitempty"`
	BPFNATGlobalMax      int    `json:"bpfNATGlobalMax,omitempty"`
	BPFNeighGlobalMax    int    `json:"bpfNeighGlobalMax,omitempty"`
	BPFPolicyMapMax      int    `json:"bpfPolicyMapMax,omitempty"`
	BPFLBMapMax          int    `json:"bpfLBMapMax,omitempty"`
	BPFLBSock            bool   `json:"bpfLBSock,omitempty"`
	// BPFLBSockHostNSOnly needs bpfLBSock.
	BPFLBSockHostNSOnly    bool   `json:"bpfLBSockHostNSOnly,omitempty"`
	PreallocateBPFMaps     bool   `json:"preallocateBPFMaps,omitempty"`
	SidecarIstioProxyImage string `json:"sidecarIstioProxyImage,omitempty"`
	ClusterName            string `json:"clusterName,omitempty"`
	// ClusterID distinguishes the clusters of a mesh: 1 to 255, or 0 without a mesh.
	ClusterID                    uint8  `json:"clusterID,omitempty"`
	ToFQDNsDNSRejectResponseCode string `json:"toFQDNsDNSRejectResponseCode,omitempty"`
	ToFQDNsEnablePoller          bool   `json:"toFQDNsEnablePoller,omitempty"`
	// IPAM is hostscope, kubernetes, crd or eni.
	IPAM                        string `json:"ipam,omitempty"`
	InstallIptablesRules        *bool  `json:"installIptablesRules,omitempty"`
	AutoDirectNodeRoutes        bool   `json:"autoDirectNodeRoutes,omitempty"`
	EnableHostReachableServices bool   `json:"enableHostReachableServices,omitempty"`
	// EnableNodePort replaces kube-proxy, which must then be off.
	EnableNodePort bool `json:"enableNodePort,omitempty"`
	// EtcdManaged keeps its state in the etcd cluster "cilium".
	EtcdManaged              bool  `json:"etcdManaged,omitempty"`
	EnableRemoteNodeIdentity *bool `json:"enableRemoteNodeIdentity,omitempty"`
	EnableUnreachableRoutes  *bool `json:"enableUnreachableRoutes,omitempty"`
	CNIExclusive             *bool `json:"cniExclusive,omitempty"`
	// Hubble configures the observability layer, which needs cert-manager.
	Hubble                  *HubbleSpec           `json:"hubble,omitempty"`
	DisableCNPStatusUpdates *bool                 `json:"disableCNPStatusUpdates,omitempty"`
	EnableServiceTopology   bool                  `json:"enableServiceTopology,omitempty"`
	Ingress                 *CiliumIngressSpec    `json:"ingress,omitempty"`
	GatewayAPI              *CiliumGatewayAPISpec `json:"gatewayAPI,omitempty"`
	// ExtraConfig adds keys to its ConfigMap.
	ExtraConfig map[string]string `json:"extraConfig,omitempty"`
}

// HubbleSpec configures Cilium's observability layer.
type HubbleSpec struct {
	Enabled *bool    `json:"enabled,omitempty"`
	Metrics []string `json:"metrics,omitempty"`
}

// CiliumIngressSpec configures Cilium's ingress controller.
type CiliumIngressSpec struct {
	Enabled                        *bool  `json:"enabled,omitempty"`
	EnforceHTTPS                   *bool  `json:"enforceHttps,omitempty"`
	EnableSecretsSync              *bool  `json:"enableSecretsSync,omitempty"`
	LoadBalancerAnnotationPrefixes string `json:"loadBalancerAnnotationPrefixes,omitempty"`
	// DefaultLoadBalancerMode is shared or dedicated.
	DefaultLoadBalancerMode       string `json:"defaultLoadBalancerMode,omitempty"`
	SharedLoadBalancerServiceName string `json:"sharedLoadBalancerServiceName,omitempty"`
}

// CiliumGatewayAPISpec configures Cilium's gateway controller.
type CiliumGatewayAPISpec struct {
	Enabled           *bool `json:"enabled,omitempty"`
	EnableSecretsSync *bool `json:"enableSecretsSync,omitempty"`
}
