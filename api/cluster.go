package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is the desired state of one Kubernetes cluster and of the cloud resources under it;
// its machines are described by InstanceGroups.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ClusterSpec `json:"spec,omitzero"`
}

// ClusterSpec is everything that a user specifies about a cluster. Rules complete the fields that are left out;
// the completed spec has the same shape.
type ClusterSpec struct {
	// Channel names the Channel that recommends versions and images: a name, a URL, or "none".
	Channel string `json:"channel,omitempty"`
	// Addons are additional manifests to apply.
	Addons []AddonSpec `json:"addons,omitempty"`
	// ConfigStore is the location of the cluster's files, keys and secrets.
	ConfigStore ConfigStoreSpec `json:"configStore,omitzero"`
	// CloudProvider selects the cloud by the member that is set, and holds its options.
	CloudProvider CloudProviderSpec `json:"cloudProvider,omitzero"`
	// GossipConfig is refused: gossip DNS was removed.
	GossipConfig *GossipConfig `json:"gossipConfig,omitempty"`
	// KubernetesVersion is a version with or without a leading v, or the base URL of a release.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// DNSZone is the name or ID of the zone for the cluster's names; if empty, the zone with the longest matching suffix.
	DNSZone string `json:"dnsZone,omitempty"`
	// DNSControllerGossipConfig is refused: gossip DNS was removed.
	DNSControllerGossipConfig *DNSControllerGossipConfig `json:"dnsControllerGossipConfig,omitempty"`
	// ClusterDNSDomain is the domain of services; cluster.local when empty.
	ClusterDNSDomain string `json:"clusterDNSDomain,omitempty"`
	// SSHAccess are the CIDRs (on AWS also prefix lists, pl-…) that reach port 22 of control planes and nodes.
	SSHAccess []string `json:"sshAccess,omitempty"`
	// NodePortAccess are the CIDRs (on AWS also prefix lists) that reach node ports.
	NodePortAccess []string `json:"nodePortAccess,omitempty"`
	// SSHKeyName is the name of an existing key pair of the cloud; "" means no key at all.
	SSHKeyName *string `json:"sshKeyName,omitempty"`
	// UpdatePolicy selects whether machines install operating system updates: UpdateAutomatic (default) or UpdateExternal.
	UpdatePolicy *string `json:"updatePolicy,omitempty"`
	// ExternalPolicies are policies of the cloud account attached to the role of a machine, by group role in lower case
	// (control-plane, node, bastion …).
	ExternalPolicies map[string][]string `json:"externalPolicies,omitempty" cloud:"aws"`
	// AdditionalPolicies are JSON lists of policy statements added to the role of a machine, by group role in lower case.
	AdditionalPolicies map[string]string `json:"additionalPolicies,omitempty" cloud:"aws" text:"lines"`
	// FileAssets are files written to machines.
	FileAssets []FileAssetSpec `json:"fileAssets,omitempty"`
	// EtcdClusters are the etcd clusters: main, events, and others that add-ons need.
	EtcdClusters []EtcdClusterSpec `json:"etcdClusters,omitempty"`
	Containerd   *ContainerdConfig `json:"containerd,omitempty"`
	// KubeDNS configures the cluster's DNS server.
	KubeDNS                *KubeDNSConfig                `json:"kubeDNS,omitempty"`
	KubeAPIServer          *KubeAPIServerConfig          `json:"kubeAPIServer,omitempty"`
	KubeControllerManager  *KubeControllerManagerConfig  `json:"kubeControllerManager,omitempty"`
	CloudControllerManager *CloudControllerManagerConfig `json:"cloudControllerManager,omitempty"`
	KubeScheduler          *KubeSchedulerConfig          `json:"kubeScheduler,omitempty"`
	KubeProxy              *KubeProxyConfig              `json:"kubeProxy,omitempty"`
	// Kubelet applies to every node; an InstanceGroup's own block overrides it field by field.
	Kubelet *KubeletConfigSpec `json:"kubelet,omitempty"`
	// ControlPlaneKubelet is laid over kubelet on control-plane machines.
	ControlPlaneKubelet *KubeletConfigSpec `json:"controlPlaneKubelet,omitempty"`
	// CloudConfig holds options that several clouds share.
	CloudConfig *CloudConfiguration `json:"cloudConfig,omitempty"`
	// ExternalDNS configures the add-on that publishes names.
	ExternalDNS *ExternalDNSConfig `json:"externalDNS,omitempty"`
	// NTP configures time synchronisation.
	NTP *NTPConfig `json:"ntp,omitempty"`
	// Packages are operating system packages to install on every machine.
	Packages            []string                   `json:"packages,omitempty"`
	NodeProblemDetector *NodeProblemDetectorConfig `json:"nodeProblemDetector,omitempty"`
	MetricsServer       *MetricsServerConfig       `json:"metricsServer,omitempty"`
	CertManager         *CertManagerConfig         `json:"certManager,omitempty"`
	// Networking configures the network of machines and pods.
	Networking NetworkingSpec `json:"networking,omitzero"`
	// API configures how the API server is reached.
	API APISpec `json:"api,omitzero"`
	// Authentication configures additional authentication methods for users.
	Authentication *AuthenticationSpec `json:"authentication,omitempty"`
	// Authorization selects the authorization mode of the API server; RBAC when empty.
	Authorization *AuthorizationSpec `json:"authorization,omitempty"`
	// CloudLabels are tags of every cloud resource.
	CloudLabels map[string]string `json:"cloudLabels,omitempty"`
	// Hooks are systemd units that machines run.
	Hooks []HookSpec `json:"hooks,omitempty"`
	// Assets are mirrors of images and files.
	Assets *AssetsSpec `json:"assets,omitempty"`
	// IAM holds options for roles of the cloud account.
	IAM *IAMSpec `json:"iam,omitempty"`
	// EncryptionConfig enables encryption of secrets in etcd, as configured by the secret "encryptionconfig".
	EncryptionConfig *bool `json:"encryptionConfig,omitempty"`
	// Target holds options of the output formats of an update.
	Target *TargetSpec `json:"target,omitempty"`
	// UseHostCertificates mounts /etc/ssl/certs of the machine into the control-plane pods.
	UseHostCertificates *bool `json:"useHostCertificates,omitempty"`
	// SysctlParameters are lines key=value for the kernel of every machine.
	SysctlParameters []string `json:"sysctlParameters,omitempty"`
	// Repair enables the replacement of dead machines; off when nil. It is the default for all groups.
	Repair *RepairSpec `json:"repair,omitempty"`
	// RollingUpdate is the default for all groups.
	RollingUpdate     *RollingUpdate           `json:"rollingUpdate,omitempty"`
	ClusterAutoscaler *ClusterAutoscalerConfig `json:"clusterAutoscaler,omitempty"`
	// ServiceAccountIssuerDiscovery publishes the keys that sign service account tokens.
	ServiceAccountIssuerDiscovery *ServiceAccountIssuerDiscoveryConfig `json:"serviceAccountIssuerDiscovery,omitempty"`
	SnapshotController            *SnapshotControllerConfig            `json:"snapshotController,omitempty"`
	Karpenter                     *KarpenterConfig                     `json:"karpenter,omitempty"`
}

// AddonSpec identifies a manifest that the cluster applies to itself.
type AddonSpec struct {
	// Manifest is the URL or store path of a list of add-ons, or of objects. It may end
	// with ManifestDigest and the SHA-256 of the content.
	Manifest string `json:"manifest,omitempty"`
}

// ManifestDigest separates the URL of an add-on's manifest from the 64 hexadecimal digits
// of its SHA-256: https://e.com/x.yaml#sha256=…
const ManifestDigest = "#sha256="

// ConfigStoreSpec holds store paths; each is derived from the store's URL when empty.
type ConfigStoreSpec struct {
	// Base is the folder of all the cluster's files: <store>/<cluster>.
	Base string `json:"base,omitempty"`
	// Keypairs is the folder of keysets: <base>/pki.
	Keypairs string `json:"keypairs,omitempty"`
	// Secrets is the folder of secrets: <base>/secrets.
	Secrets string `json:"secrets,omitempty"`
}

// APISpec configures how users and machines reach the API server; at most one of DNS and LoadBalancer is set.
type APISpec struct {
	// DNS points a name at the control-plane machines themselves.
	DNS *DNSAccessSpec `json:"dns,omitempty"`
	// LoadBalancer puts a load balancer in front of them.
	LoadBalancer *LoadBalancerAccessSpec `json:"loadBalancer,omitempty"`
	// PublicName is the name that clients connect to: api.<cluster> when DNS is published.
	PublicName string `json:"publicName,omitempty"`
	// AdditionalSANs are further names and addresses in the API server's certificate.
	AdditionalSANs []string `json:"additionalSANs,omitempty"`
	// Access are the CIDRs (on AWS also prefix lists) that reach the API.
	Access []string `json:"access,omitempty"`
}

// DNSAccessSpec has no options.
type DNSAccessSpec struct{}

// AssetsSpec configures mirrors; a registry and a proxy are mutually exclusive.
type AssetsSpec struct {
	// ContainerRegistry is the registry that holds copies of all images.
	ContainerRegistry *string `json:"containerRegistry,omitempty"`
	// FileRepository is the base URL that holds copies of all files.
	FileRepository *string `json:"fileRepository,omitempty"`
	// ContainerProxy is a registry that fetches images on demand.
	ContainerProxy *string `json:"containerProxy,omitempty"`
	// TrustedKeys are public keys in PEM. One of them must have signed the index of
	// FileRepository, bundle.json. It provides the digests of files and images, and machines
	// accept no other file.
	TrustedKeys []string `json:"trustedKeys,omitempty" text:"lines"`
}

// TargetSpec holds options by output format.
type TargetSpec struct {
	Terraform *TerraformSpec `json:"terraform,omitempty"`
}

// TerraformSpec adds attributes to the generated provider blocks.
type TerraformSpec struct {
	// ProviderExtraConfig is for the cloud's provider.
	ProviderExtraConfig map[string]string `json:"providerExtraConfig,omitempty"`
	// FilesProviderExtraConfig is for the provider of the managed files' store.
	FilesProviderExtraConfig map[string]string `json:"filesProviderExtraConfig,omitempty"`
}
