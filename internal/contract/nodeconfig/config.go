// Package nodeconfig defines a machine's configuration: its boot configuration, which is part of
// the machine's script, and its node configuration, which the machine fetches and verifies with the
// hash in the former.
//
// It must not know how either is created from a cluster, nor what a machine does with it.
package nodeconfig

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
)

// Config describes what a machine should become. The mixed case of its keys is
// given by the file format.
type Config struct {
	Assets      map[download.Arch][]string `json:"Assets,omitempty"`
	Images      map[download.Arch][]Image  `json:"images,omitempty"`
	ClusterName string                     `json:"ClusterName,omitempty"`
	// APIServerAdditionalIPs are further addresses and names in the certificate of the API server.
	APIServerAdditionalIPs      []string               `json:"ApiserverAdditionalIPs,omitempty"`
	KubernetesVersion           string                 `json:"KubernetesVersion,omitempty"`
	Packages                    []string               `json:"packages,omitempty"`
	ConfigStore                 *ConfigStore           `json:"configStore,omitempty"`
	EtcdClusterNames            []string               `json:"EtcdClusterNames,omitempty"`
	EtcdManifests               []string               `json:"etcdManifests,omitempty"`
	ChannelsManifest            string                 `json:"channelsManifest,omitempty"`
	CAs                         map[string]string      `json:"CAs"`
	KeypairIDs                  map[string]string      `json:"KeypairIDs"`
	DefaultMachineType          string                 `json:"DefaultMachineType,omitempty"`
	EnableLifecycleHook         bool                   `json:"EnableLifecycleHook,omitempty"`
	StaticManifests             []StaticManifest       `json:"staticManifests,omitempty"`
	KubeletConfig               *api.KubeletConfigSpec `json:"KubeletConfig,omitempty"`
	KubeProxy                   *api.KubeProxyConfig   `json:"KubeProxy"`
	Networking                  api.NetworkingSpec     `json:"Networking"`
	InstallCNIAssets            bool                   `json:"InstallCNIAssets,omitempty"`
	UseCiliumEtcd               bool                   `json:"UseCiliumEtcd,omitempty"`
	UsesKubenet                 bool                   `json:"UsesKubenet,omitempty"`
	NTPUnmanaged                bool                   `json:"NTPUnmanaged,omitempty"`
	ServiceNodePortRange        string                 `json:"ServiceNodePortRange,omitempty"`
	SysctlParameters            []string               `json:"SysctlParameters,omitempty"`
	UpdatePolicy                string                 `json:"UpdatePolicy,omitempty"`
	VolumeMounts                []api.VolumeMountSpec  `json:"VolumeMounts,omitempty"`
	FileAssets                  []api.FileAssetSpec    `json:"FileAssets,omitempty"`
	Hooks                       [2][]api.HookSpec      `json:"Hooks"` // the group's, then the cluster's
	ContainerdConfig            *api.ContainerdConfig  `json:"containerdConfig,omitempty"`
	APIServerConfig             *APIServer             `json:"APIServerConfig,omitempty"`
	ControlPlaneConfig          *ControlPlane          `json:"ControlPlaneConfig,omitempty"`
	DNSZone                     string                 `json:"DNSZone,omitempty"`
	NvidiaGPU                   *api.NvidiaGPUConfig   `json:"NvidiaGPU,omitempty"`
	GVisor                      *api.GVisorConfig      `json:"GVisor,omitempty"`
	DisableSecurityGroupIngress *bool                  `json:"disableSecurityGroupIngress,omitempty"`
	ELBSecurityGroup            *string                `json:"elbSecurityGroup,omitempty"`
	NLBSecurityGroupMode        *string                `json:"nlbSecurityGroupMode,omitempty"`
	NodeIPFamilies              []string               `json:"nodeIPFamilies,omitempty"`
	UseIPBasedNodeNames         *bool                  `json:"useIPBasedNodeNames,omitempty"`
	WarmPoolImages              []string               `json:"warmPoolImages,omitempty"`
	AzureAdminUser              string                 `json:"AzureAdminUser,omitempty"`
	Multizone                   *bool                  `json:"multizone,omitempty"`
	NodeTags                    *string                `json:"nodeTags,omitempty"`
	NodeInstancePrefix          *string                `json:"nodeInstancePrefix,omitempty"`
	Openstack                   *api.OpenstackSpec     `json:"Openstack,omitempty"`
	UsesNoneDNS                 bool                   `json:"usesNoneDNS"`
	// FileTrust specifies which digests of files to trust; nil means those in this configuration.
	FileTrust *FileTrust `json:"fileTrust,omitempty"`
	// DockerConfigDigest (labels.DigestSecret) makes a change of the secret dockerconfig a change
	// of the configuration; empty if there is no such secret.
	DockerConfigDigest string `json:"dockerConfigDigest,omitempty"`
	// Hardened means that components apply restrictions that the specification cannot express.
	Hardened bool `json:"hardened,omitempty"`
}

// FileTrust is a repository of files whose index must be signed, as defined by package signed.
type FileTrust struct {
	Repository string   `json:"repository"` // a URL without a trailing slash
	Keys       []string `json:"keys"`       // public keys in PEM
}

// Image is a container image that a machine imports, because it is not in a registry.
type Image struct {
	Name    string   `json:"name"`    // full name, with its tag
	Sources []string `json:"sources"` // URLs of an archive, in the order in which they are tried
	Hash    string   `json:"hash"`    // the hexadecimal SHA-256 of the archive
}

// ConfigStore specifies where a control-plane machine finds key material.
type ConfigStore struct {
	Keypairs string `json:"keypairs,omitempty"`
	Secrets  string `json:"secrets,omitempty"`
}

// StaticManifest is a manifest that a machine reads from the store.
type StaticManifest struct {
	Key  string `json:"key,omitempty"`
	Path string `json:"path,omitempty"` // below the cluster's folder
}

// APIServer is the additional configuration for machines with an API server.
type APIServer struct {
	ClusterDNSDomain string                   `json:"ClusterDNSDomain,omitempty"`
	KubeAPIServer    *api.KubeAPIServerConfig `json:"KubeAPIServer,omitempty"`
	API              api.APISpec              `json:"API"`
	Authentication   *api.AuthenticationSpec  `json:"Authentication,omitempty"`
	// EncryptionConfigSecretHash makes a change of the secret a change of the configuration.
	EncryptionConfigSecretHash string `json:"EncryptionConfigSecretHash,omitempty"`
	ServiceAccountPublicKeys   string `json:"ServiceAccountPublicKeys,omitempty"`
}

// ControlPlane is the additional configuration for control-plane machines.
type ControlPlane struct {
	KubeControllerManager *api.KubeControllerManagerConfig `json:"KubeControllerManager,omitempty"`
	KubeScheduler         *api.KubeSchedulerConfig         `json:"KubeScheduler,omitempty"`
}

// CloudAddresses reports whether each pod gets an address in the cloud's network, from an interface
// that is attached to the machine at run time.
func (c *Config) CloudAddresses() bool {
	n := c.Networking
	return n.AmazonVPC != nil || n.Cilium != nil && n.Cilium.IPAM == "eni"
}

// Parse reads a node configuration. Unknown keys are rejected.
func Parse(text []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("read the node configuration: %w", err)
	}
	return c, nil
}

// Encode writes a node configuration.
func (c *Config) Encode() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write node configuration: %w", err)
	}
	return text, nil
}

// Hash returns the base64 of the SHA-256 of a text, with which a machine verifies the texts that it
// was started with.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.StdEncoding.EncodeToString(sum[:])
}
