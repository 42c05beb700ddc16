package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdClusterSpec configures one etcd cluster.
type EtcdClusterSpec struct {
	// Name is main, events, cilium or leases.
	Name string `json:"name,omitempty"`
	// EtcdMembers are the members, an odd number, each tied to a group.
	EtcdMembers []EtcdMemberSpec `json:"etcdMembers,omitempty"`
	// Version is without a leading v; if empty, it depends on the Kubernetes version.
	Version string `json:"version,omitempty"`
	// LeaderElectionTimeout and HeartbeatInterval are timing parameters of etcd.
	LeaderElectionTimeout *metav1.Duration `json:"leaderElectionTimeout,omitempty"`
	HeartbeatInterval     *metav1.Duration `json:"heartbeatInterval,omitempty"`
	// Image replaces etcd's image; needs version.
	Image string `json:"image,omitempty"`
	// Backups configures where backups are stored.
	Backups *EtcdBackupSpec `json:"backups,omitempty"`
	// Manager holds options of etcd-manager.
	Manager *EtcdManagerSpec `json:"manager,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
}

// EtcdMemberSpec configures one member and its volume.
type EtcdMemberSpec struct {
	// Name is unique in the cluster; by convention a letter or number.
	Name string `json:"name,omitempty"`
	// InstanceGroup is the control-plane group whose machine runs it.
	InstanceGroup *string `json:"instanceGroup,omitempty"`
	// VolumeType is the cloud's name for a kind of disk.
	VolumeType *string `json:"volumeType,omitempty"`
	VolumeIOPS *int32  `json:"volumeIOPS,omitempty"`
	// VolumeThroughput is in MiB/s.
	VolumeThroughput *int32 `json:"volumeThroughput,omitempty"`
	// VolumeSize is in GB.
	VolumeSize *int32 `json:"volumeSize,omitempty"`
	// KMSKeyID is the key of an encrypted volume.
	KMSKeyID        *string `json:"kmsKeyID,omitempty"`
	EncryptedVolume *bool   `json:"encryptedVolume,omitempty"`
}

// EtcdBackupSpec configures where backups are stored.
type EtcdBackupSpec struct {
	// BackupStore is a store path: <base>/backups/etcd/<name> when empty.
	BackupStore string `json:"backupStore,omitempty"`
	// Image replaces the default image of the version.
	Image string `json:"image,omitempty"`
}

// EtcdManagerSpec holds options of etcd-manager.
type EtcdManagerSpec struct {
	// Image replaces the default image of the version.
	Image string   `json:"image,omitempty"`
	Env   []EnvVar `json:"env,omitempty"`
	// BackupInterval is 15 minutes by default.
	BackupInterval *metav1.Duration `json:"backupInterval,omitempty"`
	// BackupRetentionDays is 90 by default.
	BackupRetentionDays *uint32 `json:"backupRetentionDays,omitempty"`
	// DiscoveryPollInterval is 60 seconds by default.
	DiscoveryPollInterval *metav1.Duration `json:"discoveryPollInterval,omitempty"`
	ListenMetricsURLs     []string         `json:"listenMetricsURLs,omitempty"`
	ListenClientHTTPURLs  []string         `json:"listenClientHTTPURLs,omitempty"`
	// LogLevel is the verbosity; higher is more.
	LogLevel *int32 `json:"logLevel,omitempty"`
}

// EnvVar is an environment variable with a plain value.
type EnvVar struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}
