package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeControllerManagerConfig sets flags and the pod of the controller manager.
type KubeControllerManagerConfig struct {
	Master string `json:"master,omitempty" flag:"master"`
	// LogFormat is text or json.
	LogFormat string `json:"logFormat,omitempty" flag:"logging-format (empty=text)"`
	// LogLevel is the verbosity; higher is more.
	LogLevel                     int32  `json:"logLevel,omitempty" flag:"v (empty=0)"`
	ServiceAccountPrivateKeyFile string `json:"serviceAccountPrivateKeyFile,omitempty" flag:"service-account-private-key-file"`
	// Image replaces the default image of the version.
	Image                string   `json:"image,omitempty"`
	CloudProvider        string   `json:"cloudProvider,omitempty" flag:"cloud-provider"`
	ClusterName          string   `json:"clusterName,omitempty" flag:"cluster-name"`
	ClusterCIDR          string   `json:"clusterCIDR,omitempty" flag:"cluster-cidr"`
	AllocateNodeCIDRs    *bool    `json:"allocateNodeCIDRs,omitempty" flag:"allocate-node-cidrs"`
	NodeCIDRMaskSize     *int32   `json:"nodeCIDRMaskSize,omitempty" flag:"node-cidr-mask-size"`
	ConfigureCloudRoutes *bool    `json:"configureCloudRoutes,omitempty" flag:"configure-cloud-routes"`
	RootCAFile           string   `json:"rootCAFile,omitempty" flag:"root-ca-file"`
	Controllers          []string `json:"controllers,omitempty" flag:"controllers"`
	// CIDRAllocatorType is RangeAllocator or CloudAllocator.
	CIDRAllocatorType *string `json:"cidrAllocatorType,omitempty" flag:"cidr-allocator-type"`
	// LeaderElection configures how replicas elect the active one.
	LeaderElection                                 *LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	AttachDetachReconcileSyncPeriod                *metav1.Duration             `json:"attachDetachReconcileSyncPeriod,omitempty" flag:"attach-detach-reconcile-sync-period"`
	DisableAttachDetachReconcileSync               *bool                        `json:"disableAttachDetachReconcileSync,omitempty" flag:"disable-attach-detach-reconcile-sync"`
	TerminatedPodGCThreshold                       *int32                       `json:"terminatedPodGCThreshold,omitempty" flag:"terminated-pod-gc-threshold"`
	NodeMonitorPeriod                              *metav1.Duration             `json:"nodeMonitorPeriod,omitempty" flag:"node-monitor-period"`
	NodeMonitorGracePeriod                         *metav1.Duration             `json:"nodeMonitorGracePeriod,omitempty" flag:"node-monitor-grace-period"`
	PodEvictionTimeout                             *metav1.Duration             `json:"podEvictionTimeout,omitempty" flag:"pod-eviction-timeout"`
	UseServiceAccountCredentials                   *bool                        `json:"useServiceAccountCredentials,omitempty" flag:"use-service-account-credentials"`
	HorizontalPodAutoscalerSyncPeriod              *metav1.Duration             `json:"horizontalPodAutoscalerSyncPeriod,omitempty" flag:"horizontal-pod-autoscaler-sync-period"`
	HorizontalPodAutoscalerDownscaleDelay          *metav1.Duration             `json:"horizontalPodAutoscalerDownscaleDelay,omitempty" flag:"horizontal-pod-autoscaler-downscale-delay"`
	HorizontalPodAutoscalerDownscaleStabilization  *metav1.Duration             `json:"horizontalPodAutoscalerDownscaleStabilization,omitempty" flag:"horizontal-pod-autoscaler-downscale-stabilization"`
	HorizontalPodAutoscalerUpscaleDelay            *metav1.Duration             `json:"horizontalPodAutoscalerUpscaleDelay,omitempty" flag:"horizontal-pod-autoscaler-upscale-delay"`
	HorizontalPodAutoscalerInitialReadinessDelay   *metav1.Duration             `json:"horizontalPodAutoscalerInitialReadinessDelay,omitempty" flag:"horizontal-pod-autoscaler-initial-readiness-delay"`
	HorizontalPodAutoscalerCPUInitializationPeriod *metav1.Duration             `json:"horizontalPodAutoscalerCpuInitializationPeriod,omitempty" flag:"horizontal-pod-autoscaler-cpu-initialization-period"`
	HorizontalPodAutoscalerTolerance               *resource.Quantity           `json:"horizontalPodAutoscalerTolerance,omitempty" flag:"horizontal-pod-autoscaler-tolerance"`
	HorizontalPodAutoscalerUseRestClients          *bool                        `json:"horizontalPodAutoscalerUseRestClients,omitempty" flag:"horizontal-pod-autoscaler-use-rest-clients"`
	// ExperimentalClusterSigningDuration is refused; use ClusterSigningDuration.
	ExperimentalClusterSigningDuration *metav1.Duration `json:"experimentalClusterSigningDuration,omitempty" flag:"experimental-cluster-signing-duration"`
	ClusterSigningDuration             *metav1.Duration `json:"ClusterSigningDuration,omitempty" flag:"cluster-signing-duration"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates map[string]string `json:"featureGates,omitempty" flag:"feature-gates"`
	TLSCertFile  *string           `json:"tlsCertFile,omitempty" flag:"tls-cert-file"`
	// TLSCipherSuites are the names of the offered cipher suites, as in Go.
	TLSCipherSuites []string `json:"tlsCipherSuites,omitempty" flag:"tls-cipher-suites"`
	// TLSMinVersion is the oldest version accepted, such as VersionTLS12.
	TLSMinVersion     string `json:"tlsMinVersion,omitempty" flag:"tls-min-version"`
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty" flag:"tls-private-key-file"`
	MinResyncPeriod   string `json:"minResyncPeriod,omitempty" flag:"min-resync-period"`
	// KubeAPIQPS limits requests to the API server per second.
	KubeAPIQPS *resource.Quantity `json:"kubeAPIQPS,omitempty" flag:"kube-api-qps"`
	// KubeAPIBurst is the number of requests in a burst that may exceed that limit.
	KubeAPIBurst                            *int32           `json:"kubeAPIBurst,omitempty" flag:"kube-api-burst"`
	ConcurrentDeploymentSyncs               *int32           `json:"concurrentDeploymentSyncs,omitempty" flag:"concurrent-deployment-syncs"`
	ConcurrentEndpointSyncs                 *int32           `json:"concurrentEndpointSyncs,omitempty" flag:"concurrent-endpoint-syncs"`
	ConcurrentNamespaceSyncs                *int32           `json:"concurrentNamespaceSyncs,omitempty" flag:"concurrent-namespace-syncs"`
	ConcurrentReplicasetSyncs               *int32           `json:"concurrentReplicasetSyncs,omitempty" flag:"concurrent-replicaset-syncs"`
	ConcurrentServiceSyncs                  *int32           `json:"concurrentServiceSyncs,omitempty" flag:"concurrent-service-syncs"`
	ConcurrentResourceQuotaSyncs            *int32           `json:"concurrentResourceQuotaSyncs,omitempty" flag:"concurrent-resource-quota-syncs"`
	ConcurrentServiceaccountTokenSyncs      *int32           `json:"concurrentServiceaccountTokenSyncs,omitempty" flag:"concurrent-serviceaccount-token-syncs"`
	ConcurrentRCSyncs                       *int32           `json:"concurrentRCSyncs,omitempty" flag:"concurrent-rc-syncs"`
	ConcurrentHorizontalPodAustoscalerSyncs *int32           `json:"concurrentHorizontalPodAustoscalerSyncs,omitempty" flag:"concurrent-horizontal-pod-autoscaler-syncs"`
	ConcurrentJobSyncs                      *int32           `json:"concurrentJobSyncs,omitempty" flag:"concurrent-job-syncs"`
	AuthenticationKubeconfig                string           `json:"authenticationKubeconfig,omitempty" flag:"authentication-kubeconfig"`
	AuthorizationKubeconfig                 string           `json:"authorizationKubeconfig,omitempty" flag:"authorization-kubeconfig"`
	AuthorizationAlwaysAllowPaths           []string         `json:"authorizationAlwaysAllowPaths,omitempty" flag:"authorization-always-allow-paths"`
	ExternalCloudVolumePlugin               string           `json:"externalCloudVolumePlugin,omitempty" flag:"external-cloud-volume-plugin"`
	EndpointUpdatesBatchPeriod              *metav1.Duration `json:"endpointUpdatesBatchPeriod,omitempty" flag:"endpoint-updates-batch-period"`
	EndpointSliceUpdatesBatchPeriod         *metav1.Duration `json:"endpointSliceUpdatesBatchPeriod,omitempty" flag:"endpointslice-updates-batch-period"`
	EnableProfiling                         *bool            `json:"enableProfiling,omitempty" flag:"profiling"`
	EnableContentionProfiling               *bool            `json:"enableContentionProfiling,omitempty" flag:"contention-profiling"`
	EnableLeaderMigration                   *bool            `json:"enableLeaderMigration,omitempty" flag:"enable-leader-migration"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}

// CloudControllerManagerConfig sets flags and the pod of the cloud's controller manager.
type CloudControllerManagerConfig struct {
	Master string `json:"master,omitempty" flag:"master"`
	// LogLevel is the verbosity; higher is more.
	LogLevel int32 `json:"logLevel,omitempty" flag:"v (empty=0)"`
	// Image replaces the default image of the version.
	Image                string   `json:"image,omitempty"`
	CloudProvider        string   `json:"cloudProvider,omitempty" flag:"cloud-provider"`
	ClusterName          string   `json:"clusterName,omitempty" flag:"cluster-name"`
	AllowUntaggedCloud   *bool    `json:"allowUntaggedCloud,omitempty" flag:"allow-untagged-cloud"`
	ClusterCIDR          string   `json:"clusterCIDR,omitempty" flag:"cluster-cidr"`
	AllocateNodeCIDRs    *bool    `json:"allocateNodeCIDRs,omitempty" flag:"allocate-node-cidrs"`
	ConfigureCloudRoutes *bool    `json:"configureCloudRoutes,omitempty" flag:"configure-cloud-routes"`
	Controllers          []string `json:"controllers,omitempty" flag:"controllers"`
	CIDRAllocatorType    *string  `json:"cidrAllocatorType,omitempty" flag:"cidr-allocator-type"`
	// LeaderElection configures how replicas elect the active one.
	LeaderElection               *LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	UseServiceAccountCredentials *bool                        `json:"useServiceAccountCredentials,omitempty" flag:"use-service-account-credentials"`
	EnableLeaderMigration        *bool                        `json:"enableLeaderMigration,omitempty" flag:"enable-leader-migration"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest                *resource.Quantity `json:"cpuRequest,omitempty"`
	NodeStatusUpdateFrequency *metav1.Duration   `json:"nodeStatusUpdateFrequency,omitempty" flag:"node-status-update-frequency"`
	ConcurrentNodeSyncs       *int32             `json:"concurrentNodeSyncs,omitempty" flag:"concurrent-node-syncs"`
	// AzureNodeManagerImage is the image of the node manager on Azure.
	AzureNodeManagerImage string `json:"azureNodeManagerImage,omitempty" cloud:"azure"`
}

// LeaderElectionConfiguration configures how replicas of a component elect the active one.
type LeaderElectionConfiguration struct {
	LeaderElect                      *bool            `json:"leaderElect,omitempty" flag:"leader-elect"`
	LeaderElectLeaseDuration         *metav1.Duration `json:"leaderElectLeaseDuration,omitempty" flag:"leader-elect-lease-duration"`
	LeaderElectRenewDeadlineDuration *metav1.Duration `json:"leaderElectRenewDeadlineDuration,omitempty" flag:"leader-elect-renew-deadline"`
	LeaderElectResourceLock          *string          `json:"leaderElectResourceLock,omitempty" flag:"leader-elect-resource-lock"`
	LeaderElectResourceName          *string          `json:"leaderElectResourceName,omitempty" flag:"leader-elect-resource-name"`
	LeaderElectResourceNamespace     *string          `json:"leaderElectResourceNamespace,omitempty" flag:"leader-elect-resource-namespace"`
	LeaderElectRetryPeriod           *metav1.Duration `json:"leaderElectRetryPeriod,omitempty" flag:"leader-elect-retry-period"`
}
