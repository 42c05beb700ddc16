package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstanceGroup is a set of identical machines of one cluster. The label kops.k8s.io/cluster names the cluster.
type InstanceGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec InstanceGroupSpec `json:"spec,omitzero"`
}

// InstanceGroupRole is the role of a group's machines.
type InstanceGroupRole string

const (
	// RoleControlPlane runs the control plane and etcd; v1alpha2 calls it Master.
	RoleControlPlane InstanceGroupRole = "ControlPlane"
	// RoleNode runs workloads.
	RoleNode InstanceGroupRole = "Node"
	// RoleBastion is the SSH entry point to private subnets; it is not a node of the cluster.
	RoleBastion InstanceGroupRole = "Bastion"
	// RoleAPIServer runs further API servers without etcd.
	RoleAPIServer InstanceGroupRole = "APIServer"
	// RoleEtcd is experimental and refused by validation.
	RoleEtcd InstanceGroupRole = "Etcd"
	// RoleScheduler is experimental and refused by validation.
	RoleScheduler InstanceGroupRole = "Scheduler"
	// RoleKubeControllerManager is experimental and refused by validation.
	RoleKubeControllerManager InstanceGroupRole = "KubeControllerManager"
)

// InstanceManager selects what creates the machines of a group.
type InstanceManager string

const (
	// ManagerCloudGroup is the scaling group of the cloud; the default.
	ManagerCloudGroup InstanceManager = "CloudGroup"
	// ManagerKarpenter is Karpenter, on AWS.
	ManagerKarpenter InstanceManager = "Karpenter"
)

// InstanceGroupSpec is everything that a user specifies about a group of machines.
type InstanceGroupSpec struct {
	// Manager selects what creates the machines; CloudGroup when empty.
	Manager InstanceManager `json:"manager,omitempty" enum:"CloudGroup|Karpenter"`
	// Role is the purpose of the machines.
	Role InstanceGroupRole `json:"role,omitempty" enum:"ControlPlane|Node|Bastion|APIServer|Etcd|Scheduler|KubeControllerManager"`
	// Image is the cloud's ID or name of an image, or ssm:/… on AWS.
	Image string `json:"image,omitempty"`
	// MinSize is the minimum number of machines.
	MinSize *int32 `json:"minSize,omitempty"`
	// MaxSize is the maximum number of machines.
	MaxSize *int32 `json:"maxSize,omitempty"`
	// Autoscale lets the cluster autoscaler change the number; true when nil.
	Autoscale *bool `json:"autoscale,omitempty"`
	// AutoscalePriority is the priority for the autoscaler's priority expander.
	AutoscalePriority int16 `json:"autoscalePriority,omitempty"`
	// MachineType is the cloud's name for a size of machine; on AWS also a comma-separated list.
	MachineType string `json:"machineType,omitempty"`
	// RootVolume configures the disk with the operating system.
	RootVolume *InstanceRootVolumeSpec `json:"rootVolume,omitempty"`
	// Volumes are further disks, on AWS.
	Volumes []VolumeSpec `json:"volumes,omitempty"`
	// VolumeMounts are file systems to create on them.
	VolumeMounts []VolumeMountSpec `json:"volumeMounts,omitempty"`
	// Subnets are names of the cluster's subnets.
	Subnets []string `json:"subnets,omitempty"`
	// Zones restrict the group on clouds whose subnets span a region.
	Zones []string   `json:"zones,omitempty"`
	Hooks []HookSpec `json:"hooks,omitempty"`
	// MaxPrice requests spot machines, at most at that price per hour.
	MaxPrice              *string `json:"maxPrice,omitempty"`
	SpotDurationInMinutes *int64  `json:"spotDurationInMinutes,omitempty"`
	// CPUCredits is standard or unlimited, for burstable machines.
	CPUCredits *string `json:"cpuCredits,omitempty"`
	// AssociatePublicIP gives machines a public address; if nil, it depends on the type of the subnet.
	AssociatePublicIP *bool `json:"associatePublicIP,omitempty"`
	// AdditionalSecurityGroups are existing groups (sg-…) to add.
	AdditionalSecurityGroups []string `json:"additionalSecurityGroups,omitempty"`
	// CloudLabels are tags of the group and its machines.
	CloudLabels map[string]string `json:"cloudLabels,omitempty"`
	// NodeLabels are labels of the nodes.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	FileAssets []FileAssetSpec   `json:"fileAssets,omitempty"`
	// Tenancy is default, dedicated or host.
	Tenancy string `json:"tenancy,omitempty"`
	// Kubelet overrides the cluster's block field by field.
	Kubelet *KubeletConfigSpec `json:"kubelet,omitempty"`
	// Taints are the taints of the nodes: key=value:effect.
	Taints []string `json:"taints,omitempty"`
	// MixedInstancesPolicy mixes machine types and purchase options, on AWS.
	MixedInstancesPolicy *MixedInstancesPolicySpec `json:"mixedInstancesPolicy,omitempty"`
	// CapacityRebalance replaces spot machines before they are taken away.
	CapacityRebalance *bool `json:"capacityRebalance,omitempty"`
	// AdditionalUserData are additional parts of the boot data.
	AdditionalUserData []UserData `json:"additionalUserData,omitempty"`
	// SuspendProcesses are processes of the scaling group to suspend.
	SuspendProcesses []string `json:"suspendProcesses,omitempty"`
	// ExternalLoadBalancers are existing load balancers that the machines join.
	ExternalLoadBalancers []LoadBalancerSpec `json:"externalLoadBalancers,omitempty"`
	// DetailedInstanceMonitoring reports metrics every minute.
	DetailedInstanceMonitoring *bool `json:"detailedInstanceMonitoring,omitempty"`
	// IAM replaces the role of the machines.
	IAM *IAMProfileSpec `json:"iam,omitempty"`
	// SecurityGroupOverride is an existing group (sg-…) used instead of the role's.
	SecurityGroupOverride *string `json:"securityGroupOverride,omitempty"`
	// InstanceProtection keeps the scaling group from removing machines when it shrinks.
	InstanceProtection *bool    `json:"instanceProtection,omitempty"`
	SysctlParameters   []string `json:"sysctlParameters,omitempty"`
	// Repair overrides the cluster's block field by field.
	Repair *RepairSpec `json:"repair,omitempty"`
	// RollingUpdate overrides the cluster's block field by field.
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
	// InstanceInterruptionBehavior is hibernate, stop or terminate, for spot machines.
	InstanceInterruptionBehavior *string `json:"instanceInterruptionBehavior,omitempty"`
	// CompressUserData compresses the boot data with gzip.
	CompressUserData *bool `json:"compressUserData,omitempty"`
	// InstanceMetadata configures the instance metadata service.
	InstanceMetadata *InstanceMetadataOptions `json:"instanceMetadata,omitempty"`
	// UpdatePolicy overrides the cluster's.
	UpdatePolicy *string `json:"updatePolicy,omitempty"`
	// WarmPool overrides the cluster's block field by field.
	WarmPool *WarmPoolSpec `json:"warmPool,omitempty"`
	// Containerd overrides the cluster's block field by field.
	Containerd *ContainerdConfig `json:"containerd,omitempty"`
	// Packages are operating system packages to install in addition to the cluster's.
	Packages []string `json:"packages,omitempty"`
	// GuestAccelerators are GPUs, on GCE.
	GuestAccelerators []AcceleratorConfig `json:"guestAccelerators,omitempty" cloud:"gce"`
	// MaxInstanceLifetime is 0 or at least a day.
	MaxInstanceLifetime *metav1.Duration `json:"maxInstanceLifetime,omitempty"`
	// GCPProvisioningModel is STANDARD or SPOT.
	GCPProvisioningModel *string `json:"gcpProvisioningModel,omitempty" enum:"STANDARD|SPOT" cloud:"gce"`
	// GCPShielded protects the boot of machines on GCE.
	GCPShielded *GCPShieldedConfig `json:"gcpShielded,omitempty" cloud:"gce"`
	// GCPConfidential is the technology that encrypts the memory of machines on GCE.
	GCPConfidential *string `json:"gcpConfidential,omitempty" enum:"SEV|SEV_SNP|TDX" cloud:"gce"`
}

// GCPShieldedConfig protects the boot of machines, which always have a virtual TPM.
type GCPShieldedConfig struct {
	// SecureBoot boots only signed software.
	SecureBoot *bool `json:"secureBoot,omitempty"`
	// IntegrityMonitoring compares each boot with the first; true when nil.
	IntegrityMonitoring *bool `json:"integrityMonitoring,omitempty"`
}

// InstanceRootVolumeSpec configures the disk with the operating system.
type InstanceRootVolumeSpec struct {
	// Size is in GB.
	Size *int32  `json:"size,omitempty"`
	Type *string `json:"type,omitempty"`
	IOPS *int32  `json:"iops,omitempty"`
	// Throughput is in MiB/s.
	Throughput *int32 `json:"throughput,omitempty"`
	// Optimization requests a machine with dedicated disk bandwidth.
	Optimization *bool `json:"optimization,omitempty"`
	Encryption   *bool `json:"encryption,omitempty"`
	// EncryptionKey is the key's ARN.
	EncryptionKey *string `json:"encryptionKey,omitempty"`
}

// VolumeSpec configures an additional disk.
type VolumeSpec struct {
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// Device is its name on the machine, such as /dev/xvdd.
	Device    string `json:"device,omitempty"`
	Encrypted *bool  `json:"encrypted,omitempty"`
	IOPS      *int64 `json:"iops,omitempty"`
	// Throughput is in MiB/s.
	Throughput *int64 `json:"throughput,omitempty"`
	// Key is the key of an encrypted disk.
	Key *string `json:"key,omitempty"`
	// Size is in GB.
	Size int64  `json:"size,omitempty"`
	Type string `json:"type,omitempty"`
}

// VolumeMountSpec configures a file system that is created and mounted at boot.
type VolumeMountSpec struct {
	Device string `json:"device,omitempty"`
	// Filesystem is ext4, xfs or btfs.
	Filesystem    string   `json:"filesystem,omitempty"`
	FormatOptions []string `json:"formatOptions,omitempty"`
	MountOptions  []string `json:"mountOptions,omitempty"`
	Path          string   `json:"path,omitempty"`
}

// MixedInstancesPolicySpec mixes machine types and purchase options.
type MixedInstancesPolicySpec struct {
	Instances                  []string                  `json:"instances,omitempty"`
	InstanceRequirements       *InstanceRequirementsSpec `json:"instanceRequirements,omitempty"`
	OnDemandAllocationStrategy *string                   `json:"onDemandAllocationStrategy,omitempty"`
	// OnDemandBase is the number of machines that are never spot.
	OnDemandBase *int64 `json:"onDemandBase,omitempty"`
	// OnDemandAboveBase is the percentage of the rest that is not spot.
	OnDemandAboveBase      *int64  `json:"onDemandAboveBase,omitempty"`
	SpotAllocationStrategy *string `json:"spotAllocationStrategy,omitempty"`
	// SpotInstancePools is the number of machine types to spread over.
	SpotInstancePools *int64 `json:"spotInstancePools,omitempty"`
}

// InstanceRequirementsSpec selects machine types by their properties.
type InstanceRequirementsSpec struct {
	CPU                   *MinMaxSpec `json:"cpu,omitempty"`
	Memory                *MinMaxSpec `json:"memory,omitempty"`
	ExcludedInstanceTypes []string    `json:"excludedInstanceTypes,omitempty"`
}

// MinMaxSpec bounds a quantity.
type MinMaxSpec struct {
	Max *resource.Quantity `json:"max,omitempty"`
	Min *resource.Quantity `json:"min,omitempty"`
}

// UserData is a part of the boot data.
type UserData struct {
	Name string `json:"name,omitempty"`
	// Type is its MIME type, such as text/x-shellscript.
	Type    string `json:"type,omitempty"`
	Content string `json:"content,omitempty" text:"lines"`
}

// LoadBalancerSpec identifies an existing load balancer: a classic one by name, or a target group by ARN.
type LoadBalancerSpec struct {
	LoadBalancerName *string `json:"loadBalancerName,omitempty"`
	TargetGroupARN   *string `json:"targetGroupARN,omitempty"`
}

// IAMProfileSpec identifies an existing instance profile.
type IAMProfileSpec struct {
	// Profile is its ARN.
	Profile *string `json:"profile,omitempty"`
}

// InstanceMetadataOptions configures the instance metadata service of AWS.
type InstanceMetadataOptions struct {
	// HTTPPutResponseHopLimit is from 1 to 64.
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// HTTPTokens is required or optional.
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// AcceleratorConfig requests a number of GPUs of one type.
type AcceleratorConfig struct {
	AcceleratorCount int64  `json:"acceleratorCount,omitempty"`
	AcceleratorType  string `json:"acceleratorType,omitempty"`
}
