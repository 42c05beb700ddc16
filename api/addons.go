package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// NTPConfig configures time synchronisation.
type NTPConfig struct {
	// Managed false leaves it to the image; true when nil.
	Managed *bool `json:"managed,omitempty"`
}

// NodeProblemDetectorConfig configures the node problem detector.
type NodeProblemDetectorConfig struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Image replaces the default image of the version.
	Image *string `json:"image,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
}

// MetricsServerConfig configures the metrics server.
type MetricsServerConfig struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Image replaces the default image of the version.
	Image *string `json:"image,omitempty"`
	// Insecure skips verification of kubelet certificates; true when nil.
	Insecure *bool `json:"insecure,omitempty"`
}

// CertManagerConfig configures cert-manager.
type CertManagerConfig struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Managed false means that the user installs it; true when nil.
	Managed *bool `json:"managed,omitempty"`
	// Image replaces the default image of the version.
	Image         *string  `json:"image,omitempty"`
	DefaultIssuer *string  `json:"defaultIssuer,omitempty"`
	Nameservers   []string `json:"nameservers,omitempty"`
	// HostedZoneIDs are the Route 53 zones in which it may answer DNS challenges.
	HostedZoneIDs []string `json:"hostedZoneIDs,omitempty"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// ClusterAutoscalerConfig configures the cluster autoscaler.
type ClusterAutoscalerConfig struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Expander is least-waste, random, most-pods, price or priority, or a comma-separated list.
	Expander                    string `json:"expander,omitempty"`
	BalanceSimilarNodeGroups    *bool  `json:"balanceSimilarNodeGroups,omitempty"`
	EmitPerNodegroupMetrics     *bool  `json:"emitPerNodegroupMetrics,omitempty"`
	AWSUseStaticInstanceList    *bool  `json:"awsUseStaticInstanceList,omitempty" cloud:"aws"`
	IgnoreDaemonSetsUtilization *bool  `json:"ignoreDaemonSetsUtilization,omitempty"`
	// ScaleDownUtilizationThreshold is a fraction as text, such as "0.5".
	ScaleDownUtilizationThreshold     *string `json:"scaleDownUtilizationThreshold,omitempty"`
	SkipNodesWithCustomControllerPods *bool   `json:"skipNodesWithCustomControllerPods,omitempty"`
	SkipNodesWithSystemPods           *bool   `json:"skipNodesWithSystemPods,omitempty"`
	SkipNodesWithLocalStorage         *bool   `json:"skipNodesWithLocalStorage,omitempty"`
	NewPodScaleUpDelay                *string `json:"newPodScaleUpDelay,omitempty"`
	ScaleDownDelayAfterAdd            *string `json:"scaleDownDelayAfterAdd,omitempty"`
	ScaleDownUnneededTime             *string `json:"scaleDownUnneededTime,omitempty"`
	ScaleDownUnreadyTime              *string `json:"scaleDownUnreadyTime,omitempty"`
	CordonNodeBeforeTerminating       *bool   `json:"cordonNodeBeforeTerminating,omitempty"`
	// Image replaces the default image of the version.
	Image *string `json:"image,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest           *resource.Quantity `json:"cpuRequest,omitempty"`
	MaxNodeProvisionTime string             `json:"maxNodeProvisionTime,omitempty"`
	// PodAnnotations are added to the pods.
	PodAnnotations               map[string]string `json:"podAnnotations,omitempty"`
	CreatePriorityExpanderConfig *bool             `json:"createPriorityExpanderConfig,omitempty"`
	// CustomPriorityExpanderConfig lists group patterns by priority.
	CustomPriorityExpanderConfig map[string][]string `json:"customPriorityExpanderConfig,omitempty"`
}

// SnapshotControllerConfig configures the volume snapshot controller, which needs cert-manager.
type SnapshotControllerConfig struct {
	Enabled             *bool `json:"enabled,omitempty"`
	InstallDefaultClass bool  `json:"installDefaultClass,omitempty"`
}

// KarpenterConfig configures Karpenter, on AWS.
type KarpenterConfig struct {
	Enabled     bool   `json:"enabled,omitempty"`
	LogEncoding string `json:"logEncoding,omitempty"`
	// LogLevel is the verbosity; higher is more.
	LogLevel string `json:"logLevel,omitempty"`
	// Image replaces the default image of the version.
	Image string `json:"image,omitempty"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates string `json:"featureGates,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
}
