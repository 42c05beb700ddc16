package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeletConfigSpec is the configuration of the kubelet on a node. Fields without a flag are
// set in its configuration file.
type KubeletConfigSpec struct {
	// AnonymousAuth allows unauthenticated requests; false by default.
	AnonymousAuth       *bool  `json:"anonymousAuth,omitempty" flag:"anonymous-auth"`
	AuthorizationMode   string `json:"authorizationMode,omitempty" flag:"authorization-mode"`
	BootstrapKubeconfig string `json:"bootstrapKubeconfig,omitempty" flag:"bootstrap-kubeconfig"`
	ClientCAFile        string `json:"clientCAFile,omitempty"`
	TLSCertFile         string `json:"tlsCertFile,omitempty" flag:"tls-cert-file"`
	TLSPrivateKeyFile   string `json:"tlsPrivateKeyFile,omitempty" flag:"tls-private-key-file"`
	// TLSCipherSuites are the names of the offered cipher suites, as in Go.
	TLSCipherSuites []string `json:"tlsCipherSuites,omitempty" flag:"tls-cipher-suites"`
	// TLSMinVersion is the oldest version accepted, such as VersionTLS12.
	TLSMinVersion    string `json:"tlsMinVersion,omitempty" flag:"tls-min-version"`
	KubeconfigPath   string `json:"kubeconfigPath,omitempty" flag:"kubeconfig"`
	HostnameOverride string `json:"hostnameOverride,omitempty" flag:"hostname-override"`
	// LogFormat is text or json.
	LogFormat string `json:"logFormat,omitempty" flag:"logging-format (empty=text)"`
	// LogLevel is the verbosity; higher is more.
	LogLevel        *int32 `json:"logLevel,omitempty" flag:"v (empty=0)"`
	PodManifestPath string `json:"podManifestPath,omitempty" flag:"pod-manifest-path"`
	AllowPrivileged *bool  `json:"allowPrivileged,omitempty" flag:"allow-privileged"`
	// PodInfraContainerImage is refused; containerd chooses the sandbox image.
	PodInfraContainerImage      string            `json:"podInfraContainerImage,omitempty"`
	SeccompDefault              *bool             `json:"seccompDefault,omitempty" flag:"seccomp-default"`
	SeccompProfileRoot          *string           `json:"seccompProfileRoot,omitempty" flag:"seccomp-profile-root"`
	EnableDebuggingHandlers     *bool             `json:"enableDebuggingHandlers,omitempty" flag:"enable-debugging-handlers"`
	RegisterNode                *bool             `json:"registerNode,omitempty" flag:"register-node"`
	NodeStatusUpdateFrequency   *metav1.Duration  `json:"nodeStatusUpdateFrequency,omitempty" flag:"node-status-update-frequency"`
	ClusterDomain               string            `json:"clusterDomain,omitempty" flag:"cluster-domain"`
	ClusterDNS                  string            `json:"clusterDNS,omitempty" flag:"cluster-dns"`
	NetworkPluginName           *string           `json:"networkPluginName,omitempty" flag:"network-plugin"`
	CloudProvider               string            `json:"cloudProvider,omitempty" flag:"cloud-provider"`
	KubeletCgroups              string            `json:"kubeletCgroups,omitempty" flag:"kubelet-cgroups"`
	RuntimeCgroups              string            `json:"runtimeCgroups,omitempty" flag:"runtime-cgroups"`
	ReadOnlyPort                *int32            `json:"readOnlyPort,omitempty" flag:"read-only-port"`
	SystemCgroups               string            `json:"systemCgroups,omitempty" flag:"system-cgroups"`
	CgroupRoot                  string            `json:"cgroupRoot,omitempty" flag:"cgroup-root"`
	BabysitDaemons              *bool             `json:"babysitDaemons,omitempty" flag:"babysit-daemons"`
	NvidiaGPUs                  int32             `json:"nvidiaGPUs,omitempty" flag:"experimental-nvidia-gpus (empty=0)"`
	HairpinMode                 string            `json:"hairpinMode,omitempty" flag:"hairpin-mode"`
	ReconcileCIDR               *bool             `json:"reconcileCIDR,omitempty" flag:"reconcile-cidr"`
	RegisterSchedulable         *bool             `json:"registerSchedulable,omitempty" flag:"register-schedulable"`
	NodeLabels                  map[string]string `json:"nodeLabels,omitempty" flag:"node-labels"`
	EnableCustomMetrics         *bool             `json:"enableCustomMetrics,omitempty" flag:"enable-custom-metrics"`
	MaxPods                     *int32            `json:"maxPods,omitempty" flag:"max-pods"`
	PodCIDR                     string            `json:"podCIDR,omitempty" flag:"pod-cidr"`
	ResolvConf                  *string           `json:"resolvConf,omitempty" flag:"resolv-conf"`
	SerializeImagePulls         *bool             `json:"serializeImagePulls,omitempty" flag:"serialize-image-pulls"`
	NonMasqueradeCIDR           *string           `json:"nonMasqueradeCIDR,omitempty" flag:"non-masquerade-cidr"`
	NetworkPluginMTU            *int32            `json:"networkPluginMTU,omitempty" flag:"network-plugin-mtu"`
	ImageMinimumGCAge           *metav1.Duration  `json:"imageMinimumGCAge,omitempty"`
	ImageMaximumGCAge           *metav1.Duration  `json:"imageMaximumGCAge,omitempty"`
	MaxParallelImagePulls       *int32            `json:"maxParallelImagePulls,omitempty"`
	ImageGCHighThresholdPercent *int32            `json:"imageGCHighThresholdPercent,omitempty" flag:"image-gc-high-threshold"`
	ImageGCLowThresholdPercent  *int32            `json:"imageGCLowThresholdPercent,omitempty" flag:"image-gc-low-threshold"`
	ImagePullProgressDeadline   *metav1.Duration  `json:"imagePullProgressDeadline,omitempty" flag:"image-pull-progress-deadline"`
	// EvictionHard is a comma-separated list signal<threshold.
	EvictionHard *string `json:"evictionHard,omitempty" flag:"eviction-hard"`
	// EvictionSoft is a comma-separated list signal<threshold.
	EvictionSoft                     string           `json:"evictionSoft,omitempty" flag:"eviction-soft"`
	EvictionSoftGracePeriod          string           `json:"evictionSoftGracePeriod,omitempty" flag:"eviction-soft-grace-period"`
	EvictionPressureTransitionPeriod *metav1.Duration `json:"evictionPressureTransitionPeriod,omitempty" flag:"eviction-pressure-transition-period (empty=0s)"`
	EvictionMaxPodGracePeriod        int32            `json:"evictionMaxPodGracePeriod,omitempty" flag:"eviction-max-pod-grace-period (empty=0)"`
	EvictionMinimumReclaim           string           `json:"evictionMinimumReclaim,omitempty" flag:"eviction-minimum-reclaim"`
	VolumePluginDirectory            string           `json:"volumePluginDirectory,omitempty" flag:"volume-plugin-dir"`
	// Taints are the taints that the node registers with: key=value:effect.
	Taints []string `json:"taints,omitempty" flag:"register-with-taints"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates            map[string]string `json:"featureGates,omitempty" flag:"feature-gates"`
	KernelMemcgNotification *bool             `json:"kernelMemcgNotification,omitempty" flag:"kernel-memcg-notification"`
	// KubeReserved is set aside for Kubernetes daemons, by resource.
	KubeReserved       map[string]string `json:"kubeReserved,omitempty" flag:"kube-reserved"`
	KubeReservedCgroup string            `json:"kubeReservedCgroup,omitempty" flag:"kube-reserved-cgroup"`
	// SystemReserved is set aside for the operating system, by resource.
	SystemReserved       map[string]string `json:"systemReserved,omitempty" flag:"system-reserved"`
	SystemReservedCgroup string            `json:"systemReservedCgroup,omitempty" flag:"system-reserved-cgroup"`
	// EnforceNodeAllocatable is a comma-separated list of pods, system-reserved and kube-reserved.
	EnforceNodeAllocatable             string           `json:"enforceNodeAllocatable,omitempty" flag:"enforce-node-allocatable"`
	RuntimeRequestTimeout              *metav1.Duration `json:"runtimeRequestTimeout,omitempty" flag:"runtime-request-timeout"`
	VolumeStatsAggPeriod               *metav1.Duration `json:"volumeStatsAggPeriod,omitempty" flag:"volume-stats-agg-period"`
	FailSwapOn                         *bool            `json:"failSwapOn,omitempty" flag:"fail-swap-on"`
	AllowedUnsafeSysctls               []string         `json:"allowedUnsafeSysctls,omitempty" flag:"allowed-unsafe-sysctls"`
	StreamingConnectionIdleTimeout     *metav1.Duration `json:"streamingConnectionIdleTimeout,omitempty" flag:"streaming-connection-idle-timeout"`
	RootDir                            string           `json:"rootDir,omitempty" flag:"root-dir"`
	AuthenticationTokenWebhook         *bool            `json:"authenticationTokenWebhook,omitempty" flag:"authentication-token-webhook"`
	AuthenticationTokenWebhookCacheTTL *metav1.Duration `json:"authenticationTokenWebhookCacheTTL,omitempty" flag:"authentication-token-webhook-cache-ttl"`
	CPUCFSQuota                        *bool            `json:"cpuCFSQuota,omitempty" flag:"cpu-cfs-quota"`
	CPUCFSQuotaPeriod                  *metav1.Duration `json:"cpuCFSQuotaPeriod,omitempty" flag:"cpu-cfs-quota-period"`
	CPUManagerPolicy                   string           `json:"cpuManagerPolicy,omitempty" flag:"cpu-manager-policy"`
	RegistryPullQPS                    *int32           `json:"registryPullQPS,omitempty" flag:"registry-qps"`
	RegistryBurst                      *int32           `json:"registryBurst,omitempty" flag:"registry-burst"`
	// TopologyManagerPolicy is best-effort, restricted, single-numa-node or none.
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty" flag:"topology-manager-policy"`
	RotateCertificates    *bool  `json:"rotateCertificates,omitempty" flag:"rotate-certificates"`
	ProtectKernelDefaults *bool  `json:"protectKernelDefaults,omitempty" flag:"protect-kernel-defaults"`
	// CgroupDriver is systemd; other values are no longer supported.
	CgroupDriver                          string           `json:"cgroupDriver,omitempty" flag:"cgroup-driver"`
	HousekeepingInterval                  *metav1.Duration `json:"housekeepingInterval,omitempty" flag:"housekeeping-interval"`
	EventQPS                              *int32           `json:"eventQPS,omitempty" flag:"event-qps (empty=0)"`
	EventBurst                            *int32           `json:"eventBurst,omitempty" flag:"event-burst"`
	ContainerLogMaxSize                   string           `json:"containerLogMaxSize,omitempty" flag:"container-log-max-size"`
	ContainerLogMaxFiles                  *int32           `json:"containerLogMaxFiles,omitempty" flag:"container-log-max-files"`
	EnableCadvisorJSONEndpoints           *bool            `json:"enableCadvisorJsonEndpoints,omitempty" flag:"enable-cadvisor-json-endpoints"`
	PodPidsLimit                          *int64           `json:"podPidsLimit,omitempty" flag:"pod-max-pids"`
	ExperimentalAllocatableIgnoreEviction *bool            `json:"experimentalAllocatableIgnoreEviction,omitempty" flag:"experimental-allocatable-ignore-eviction"`
	// ShutdownGracePeriod is the time that pods have to terminate when the machine shuts down.
	ShutdownGracePeriod *metav1.Duration `json:"shutdownGracePeriod,omitempty"`
	// ShutdownGracePeriodCriticalPods is the final part of it, reserved for critical pods.
	ShutdownGracePeriodCriticalPods *metav1.Duration `json:"shutdownGracePeriodCriticalPods,omitempty"`
	// MemorySwapBehavior is LimitedSwap or UnlimitedSwap.
	MemorySwapBehavior string `json:"memorySwapBehavior,omitempty"`
	// CrashLoopBackOffMaxContainerRestartPeriod is from 1s to 300s.
	CrashLoopBackOffMaxContainerRestartPeriod *metav1.Duration `json:"crashLoopBackOffMaxContainerRestartPeriod,omitempty"`
	// KubeAPIQPS limits requests to the API server per second.
	KubeAPIQPS               *int32 `json:"kubeAPIQPS,omitempty" flag:"kube-api-qps"`
	EventRecordQPS           *int32 `json:"eventRecordQPS,omitempty"`
	NodeLeaseDurationSeconds *int32 `json:"nodeLeaseDurationSeconds,omitempty"`
}
