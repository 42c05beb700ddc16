package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// WeaveNetworkingSpec is parsed so that validation can refuse it.
type WeaveNetworkingSpec struct {
	MTU         *int32 `json:"mtu,omitempty"`
	ConnLimit   *int32 `json:"connLimit,omitempty"`
	NoMasqLocal *int32 `json:"noMasqLocal,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit         *resource.Quantity `json:"cpuLimit,omitempty"`
	NetExtraArgs     string             `json:"netExtraArgs,omitempty"`
	NpcMemoryRequest *resource.Quantity `json:"npcMemoryRequest,omitempty"`
	NpcCPURequest    *resource.Quantity `json:"npcCPURequest,omitempty"`
	NpcMemoryLimit   *resource.Quantity `json:"npcMemoryLimit,omitempty"`
	NpcCPULimit      *resource.Quantity `json:"npcCPULimit,omitempty"`
	NpcExtraArgs     string             `json:"npcExtraArgs,omitempty"`
	Version          string             `json:"version,omitempty"`
}

// CanalNetworkingSpec is parsed so that validation can refuse it.
type CanalNetworkingSpec struct {
	ChainInsertMode string `json:"chainInsertMode,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest                      *resource.Quantity `json:"cpuRequest,omitempty"`
	DefaultEndpointToHostAction     string             `json:"defaultEndpointToHostAction,omitempty"`
	FlanneldIptablesForwardRules    *bool              `json:"flanneldIptablesForwardRules,omitempty"`
	IptablesBackend                 string             `json:"iptablesBackend,omitempty"`
	LogSeveritySys                  string             `json:"logSeveritySys,omitempty"`
	MTU                             *int32             `json:"mtu,omitempty"`
	PrometheusGoMetricsEnabled      bool               `json:"prometheusGoMetricsEnabled,omitempty"`
	PrometheusMetricsEnabled        bool               `json:"prometheusMetricsEnabled,omitempty"`
	PrometheusMetricsPort           int32              `json:"prometheusMetricsPort,omitempty"`
	PrometheusProcessMetricsEnabled bool               `json:"prometheusProcessMetricsEnabled,omitempty"`
	TyphaPrometheusMetricsEnabled   bool               `json:"typhaPrometheusMetricsEnabled,omitempty"`
	TyphaPrometheusMetricsPort      int32              `json:"typhaPrometheusMetricsPort,omitempty"`
	TyphaReplicas                   int32              `json:"typhaReplicas,omitempty"`
}
