package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// CalicoNetworkingSpec configures the Calico network.
type CalicoNetworkingSpec struct {
	// Registry replaces the registry of its images.
	Registry          string `json:"registry,omitempty"`
	Version           string `json:"version,omitempty"`
	AllowIPForwarding bool   `json:"allowIPForwarding,omitempty"`
	// AWSSrcDstCheck is Enable, Disable or DoNothing: the source/destination check of network interfaces.
	AWSSrcDstCheck string `json:"awsSrcDstCheck,omitempty" enum:"Enable|Disable|DoNothing" cloud:"aws"`
	// BPFEnabled chooses the eBPF data plane; kube-proxy must then be off.
	BPFEnabled bool `json:"bpfEnabled,omitempty"`
	// BPFExternalServiceMode is Tunnel or DSR.
	BPFExternalServiceMode             string `json:"bpfExternalServiceMode,omitempty"`
	BPFKubeProxyIptablesCleanupEnabled bool   `json:"bpfKubeProxyIptablesCleanupEnabled,omitempty"`
	// BPFLogLevel is Off, Info or Debug.
	BPFLogLevel string `json:"bpfLogLevel,omitempty"`
	// ChainInsertMode is insert or append.
	ChainInsertMode string `json:"chainInsertMode,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// EncapsulationMode is ipip, vxlan or none.
	EncapsulationMode string `json:"encapsulationMode,omitempty"`
	// IPIPMode is Always, CrossSubnet or Never.
	IPIPMode string `json:"ipipMode,omitempty"`
	// IPv4AutoDetectionMethod is first-found, can-reach=…, interface=… or skip-interface=….
	IPv4AutoDetectionMethod string `json:"ipv4AutoDetectionMethod,omitempty"`
	// IPv6AutoDetectionMethod is the same for IPv6.
	IPv6AutoDetectionMethod string `json:"ipv6AutoDetectionMethod,omitempty"`
	// IptablesBackend is Auto, Legacy or NFT.
	IptablesBackend   string `json:"iptablesBackend,omitempty"`
	LogSeverityScreen string `json:"logSeverityScreen,omitempty"`
	// MTU is in bytes; detected from the machine's interface when nil.
	MTU                             *int32 `json:"mtu,omitempty"`
	NFTablesMode                    string `json:"nftablesMode,omitempty"`
	PrometheusMetricsEnabled        bool   `json:"prometheusMetricsEnabled,omitempty"`
	PrometheusMetricsPort           int32  `json:"prometheusMetricsPort,omitempty"`
	PrometheusGoMetricsEnabled      bool   `json:"prometheusGoMetricsEnabled,omitempty"`
	PrometheusProcessMetricsEnabled bool   `json:"prometheusProcessMetricsEnabled,omitempty"`
	TyphaPrometheusMetricsEnabled   bool   `json:"typhaPrometheusMetricsEnabled,omitempty"`
	TyphaPrometheusMetricsPort      int32  `json:"typhaPrometheusMetricsPort,omitempty"`
	// TyphaReplicas is the number of Typha pods; with 0, Typha does not run.
	TyphaReplicas int32 `json:"typhaReplicas,omitempty"`
	// VXLANMode is Always, CrossSubnet or Never.
	VXLANMode string `json:"vxlanMode,omitempty"`
	// WireguardEnabled encrypts traffic between nodes.
	WireguardEnabled *bool `json:"wireguardEnabled,omitempty"`
}
