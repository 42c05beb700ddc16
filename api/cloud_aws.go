package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// AWSSpec holds options for Amazon Web Services.
type AWSSpec struct {
	// EBSCSIDriver configures the storage driver, which is always on.
	EBSCSIDriver *EBSCSIDriverSpec `json:"ebsCSIDriver,omitempty"`
	// NodeTerminationHandler drains nodes that AWS is about to take away.
	NodeTerminationHandler *NodeTerminationHandlerSpec `json:"nodeTerminationHandler,omitempty"`
	// LoadBalancerController configures the AWS load balancer controller.
	LoadBalancerController *LoadBalancerControllerSpec `json:"loadBalancerController,omitempty"`
	// PodIdentityWebhook gives pods the credentials of their service account's role.
	PodIdentityWebhook *PodIdentityWebhookSpec `json:"podIdentityWebhook,omitempty"`
	// WarmPool is the default for all groups.
	WarmPool *WarmPoolSpec `json:"warmPool,omitempty"`
	// NodeIPFamilies is the order of address families of nodes, of ipv4 and ipv6.
	NodeIPFamilies []string `json:"nodeIPFamilies,omitempty"`
	// UseIPBasedNodeNames names nodes by their private address instead of the instance ID.
	UseIPBasedNodeNames *bool `json:"useIPBasedNodeNames,omitempty"`
	// DisableSecurityGroupIngress keeps the cloud controller from adding rules for load balancers.
	DisableSecurityGroupIngress *bool `json:"disableSecurityGroupIngress,omitempty"`
	// ELBSecurityGroup is one existing group for all load balancers of services.
	ELBSecurityGroup *string `json:"elbSecurityGroup,omitempty"`
	// NLBSecurityGroupMode is Managed or nil.
	NLBSecurityGroupMode *string `json:"nlbSecurityGroupMode,omitempty"`
	// SpotinstProduct and the next field belong to Spotinst groups.
	SpotinstProduct     *string `json:"spotinstProduct,omitempty"`
	SpotinstOrientation *string `json:"spotinstOrientation,omitempty"`
	BinariesLocation    *string `json:"binariesLocation,omitempty"`
}

// EBSCSIDriverSpec configures the driver for EBS volumes.
type EBSCSIDriverSpec struct {
	// Managed false leaves its deployment to the user.
	Managed *bool   `json:"managed,omitempty"`
	Version *string `json:"version,omitempty"`
	// KubeAPIQPS limits requests to the API server per second.
	KubeAPIQPS *resource.Quantity `json:"kubeAPIQPS,omitempty"`
	// KubeAPIBurst is the number of requests in a burst that may exceed that limit.
	KubeAPIBurst *int32 `json:"kubeAPIBurst,omitempty"`
	HostNetwork  bool   `json:"hostNetwork,omitempty"`
	// VolumeAttachLimit is the number of volumes a node may attach.
	VolumeAttachLimit *int `json:"volumeAttachLimit,omitempty"`
	// PodAnnotations are added to the pods.
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
}

// NodeTerminationHandlerSpec configures the AWS node termination handler, which is on by default and reads a queue.
type NodeTerminationHandlerSpec struct {
	DeleteSQSMsgIfNodeNotFound *bool `json:"deleteSQSMsgIfNodeNotFound,omitempty"`
	Enabled                    *bool `json:"enabled,omitempty"`
	// EnableSpotInterruptionDraining must not be false with a queue.
	EnableSpotInterruptionDraining *bool `json:"enableSpotInterruptionDraining,omitempty"`
	EnableScheduledEventDraining   *bool `json:"enableScheduledEventDraining,omitempty"`
	EnableRebalanceMonitoring      *bool `json:"enableRebalanceMonitoring,omitempty"`
	// EnableRebalanceDraining needs to be true when enableRebalanceMonitoring is.
	EnableRebalanceDraining *bool `json:"enableRebalanceDraining,omitempty"`
	EnableOutOfServiceTaint *bool `json:"enableOutOfServiceTaint,omitempty"`
	PrometheusEnable        *bool `json:"prometheusEnable,omitempty"`
	// EnableSQSTerminationDraining selects the source of events: the queue (true) or the instance metadata (false).
	EnableSQSTerminationDraining *bool `json:"enableSQSTerminationDraining,omitempty"`
	// ManagedASGTag is the tag of the groups it looks after.
	ManagedASGTag            *string `json:"managedASGTag,omitempty"`
	ExcludeFromLoadBalancers *bool   `json:"excludeFromLoadBalancers,omitempty"`
	// PodTerminationGracePeriod is in seconds; -1 uses each pod's own period.
	PodTerminationGracePeriod *int32 `json:"podTerminationGracePeriod,omitempty"`
	TaintNode                 *bool  `json:"taintNode,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest      *resource.Quantity `json:"cpuRequest,omitempty"`
	Version         *string            `json:"version,omitempty"`
	WebhookTemplate *string            `json:"webhookTemplate,omitempty"`
	WebhookURL      *string            `json:"webhookURL,omitempty"`
}

// LoadBalancerControllerSpec configures the AWS load balancer controller, which needs cert-manager.
type LoadBalancerControllerSpec struct {
	Enabled      *bool   `json:"enabled,omitempty"`
	Version      *string `json:"version,omitempty"`
	EnableWAF    bool    `json:"enableWAF,omitempty"`
	EnableWAFv2  bool    `json:"enableWAFv2,omitempty"`
	EnableShield bool    `json:"enableShield,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}

// PodIdentityWebhookSpec configures the webhook that mounts role credentials into pods; it needs cert-manager.
type PodIdentityWebhookSpec struct {
	Enabled  bool `json:"enabled,omitempty"`
	Replicas int  `json:"replicas,omitempty"`
}

// WarmPoolSpec keeps stopped machines ready to join a group.
type WarmPoolSpec struct {
	// MinSize is the minimum number of stopped machines.
	MinSize int64 `json:"minSize,omitempty"`
	// MaxSize is their maximum number; 0 means no pool, nil no limit of its own.
	MaxSize *int64 `json:"maxSize,omitempty"`
	// EnableLifecycleHook holds a machine in the pool until nodeup has prepared it.
	EnableLifecycleHook bool `json:"enableLifecycleHook,omitempty"`
	// LifecycleHookTimeout is in seconds.
	LifecycleHookTimeout *int32 `json:"lifecycleHookTimeout,omitempty"`
	// AdditionalImages are pulled while a machine is prepared.
	AdditionalImages []string `json:"additionalImages,omitempty"`
}
