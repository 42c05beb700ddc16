package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// KubeSchedulerConfig sets flags and the pod of the scheduler. A KubeSchedulerConfiguration
// document among the additional objects configures everything else.
type KubeSchedulerConfig struct {
	Master string `json:"master,omitempty" flag:"master"`
	// LogFormat is text or json.
	LogFormat string `json:"logFormat,omitempty" flag:"logging-format (empty=text)"`
	// LogLevel is the verbosity; higher is more.
	LogLevel int32 `json:"logLevel,omitempty" flag:"v"`
	// Image replaces the default image of the version.
	Image string `json:"image,omitempty"`
	// LeaderElection configures how replicas elect the active one.
	LeaderElection *LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// UsePolicyConfigMap is refused: scheduler policies were removed.
	UsePolicyConfigMap *bool `json:"usePolicyConfigMap,omitempty"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates         map[string]string  `json:"featureGates,omitempty" flag:"feature-gates"`
	MaxPersistentVolumes *int32             `json:"maxPersistentVolumes,omitempty"`
	QPS                  *resource.Quantity `json:"qps,omitempty"`
	Burst                int32              `json:"burst,omitempty"`
	// KubeAPIQPS limits requests to the API server per second.
	KubeAPIQPS *resource.Quantity `json:"kubeAPIQPS,omitempty" flag:"kube-api-qps"`
	// KubeAPIBurst is the number of requests in a burst that may exceed that limit.
	KubeAPIBurst                  *int32   `json:"kubeAPIBurst,omitempty" flag:"kube-api-burst"`
	AuthenticationKubeconfig      string   `json:"authenticationKubeconfig,omitempty" flag:"authentication-kubeconfig"`
	AuthorizationKubeconfig       string   `json:"authorizationKubeconfig,omitempty" flag:"authorization-kubeconfig"`
	AuthorizationAlwaysAllowPaths []string `json:"authorizationAlwaysAllowPaths,omitempty" flag:"authorization-always-allow-paths"`
	EnableProfiling               *bool    `json:"enableProfiling,omitempty" flag:"profiling"`
	EnableContentionProfiling     *bool    `json:"enableContentionProfiling,omitempty" flag:"contention-profiling"`
	TLSCertFile                   *string  `json:"tlsCertFile,omitempty" flag:"tls-cert-file"`
	TLSPrivateKeyFile             string   `json:"tlsPrivateKeyFile,omitempty" flag:"tls-private-key-file"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}
