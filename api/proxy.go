package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeProxyConfig sets flags and the pod of kube-proxy.
type KubeProxyConfig struct {
	// Image replaces the default image of the version.
	Image string `json:"image,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// LogLevel is the verbosity; higher is more.
	LogLevel           int32   `json:"logLevel,omitempty" flag:"v"`
	ClusterCIDR        *string `json:"clusterCIDR,omitempty" flag:"cluster-cidr"`
	HostnameOverride   string  `json:"hostnameOverride,omitempty" flag:"hostname-override"`
	BindAddress        string  `json:"bindAddress,omitempty" flag:"bind-address"`
	Master             string  `json:"master,omitempty" flag:"master"`
	MetricsBindAddress *string `json:"metricsBindAddress,omitempty" flag:"metrics-bind-address"`
	// Enabled false leaves services to the pod network.
	Enabled *bool `json:"enabled,omitempty"`
	// ProxyMode is iptables, nftables or ipvs.
	ProxyMode         string           `json:"proxyMode,omitempty" flag:"proxy-mode"`
	IPVSExcludeCIDRs  []string         `json:"ipvsExcludeCIDRs,omitempty" flag:"ipvs-exclude-cidrs"`
	IPVSMinSyncPeriod *metav1.Duration `json:"ipvsMinSyncPeriod,omitempty" flag:"ipvs-min-sync-period"`
	IPVSScheduler     *string          `json:"ipvsScheduler,omitempty" flag:"ipvs-scheduler"`
	IPVSSyncPeriod    *metav1.Duration `json:"ipvsSyncPeriod,omitempty" flag:"ipvs-sync-period"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates        map[string]string `json:"featureGates,omitempty" flag:"feature-gates"`
	ConntrackMaxPerCore *int32            `json:"conntrackMaxPerCore,omitempty" flag:"conntrack-max-per-core"`
	ConntrackMin        *int32            `json:"conntrackMin,omitempty" flag:"conntrack-min"`
}
