package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// ExternalDNSProvider selects the add-on that publishes names of services and nodes.
type ExternalDNSProvider string

const (
	// ExternalDNSProviderDNSController is kOps' own controller; the default where DNS is published.
	ExternalDNSProviderDNSController ExternalDNSProvider = "dns-controller"
	// ExternalDNSProviderExternalDNS is the project external-dns.
	ExternalDNSProviderExternalDNS ExternalDNSProvider = "external-dns"
	// ExternalDNSProviderNone publishes nothing.
	ExternalDNSProviderNone ExternalDNSProvider = "none"
)

// KubeDNSConfig configures the cluster's DNS server.
type KubeDNSConfig struct {
	CacheMaxSize       int          `json:"cacheMaxSize,omitempty"`
	CacheMaxConcurrent int          `json:"cacheMaxConcurrent,omitempty"`
	Tolerations        []Toleration `json:"tolerations,omitempty"`
	Affinity           *Affinity    `json:"affinity,omitempty"`
	// CoreDNSImage replaces its image.
	CoreDNSImage string `json:"coreDNSImage,omitempty"`
	// CPAImage replaces the image of its autoscaler.
	CPAImage string `json:"cpaImage,omitempty"`
	// Domain is the domain of services.
	Domain string `json:"domain,omitempty"`
	// ExternalCoreFile is a whole Corefile.
	ExternalCoreFile string `json:"externalCoreFile,omitempty" text:"lines"`
	// Provider is CoreDNS or KubeDNS.
	Provider string `json:"provider,omitempty"`
	// ServerIP is the service address: the tenth of the service range when empty.
	ServerIP string `json:"serverIP,omitempty"`
	// StubDomains are servers for other domains.
	StubDomains map[string][]string `json:"stubDomains,omitempty"`
	// UpstreamNameservers are the servers for names outside the cluster.
	UpstreamNameservers []string `json:"upstreamNameservers,omitempty"`
	// MemoryRequest is the memory that the pod reserves; zero means the default.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty" zero:"unset"`
	// CPURequest is the processor share that the pod reserves; zero means the default.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty" zero:"unset"`
	// MemoryLimit is the most memory that the pod gets; zero means the default.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty" zero:"unset"`
	// NodeLocalDNS configures a cache on every node.
	NodeLocalDNS *NodeLocalDNSConfig `json:"nodeLocalDNS,omitempty"`
	// PodAnnotations are added to the pods.
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
}

// NodeLocalDNSConfig configures a DNS cache on every node.
type NodeLocalDNSConfig struct {
	Enabled          *bool  `json:"enabled,omitempty"`
	ExternalCoreFile string `json:"externalCoreFile,omitempty" text:"lines"`
	AdditionalConfig string `json:"additionalConfig,omitempty" text:"lines"`
	// Image replaces the default image of the version.
	Image *string `json:"image,omitempty"`
	// LocalIP is the address on which it answers.
	LocalIP string `json:"localIP,omitempty"`
	// ForwardToKubeDNS sends all misses to the cluster's DNS server.
	ForwardToKubeDNS *bool `json:"forwardToKubeDNS,omitempty"`
	// MemoryRequest is the memory that the pod reserves; zero means the default.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty" zero:"unset"`
	// CPURequest is the processor share that the pod reserves; zero means the default.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty" zero:"unset"`
	// PodAnnotations are added to the pods.
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`
}

// ExternalDNSConfig configures the add-on that publishes names.
type ExternalDNSConfig struct {
	// WatchIngress also publishes the hosts of ingresses.
	WatchIngress *bool `json:"watchIngress,omitempty"`
	// AllowedDomains are the domains in which objects of every namespace may publish names,
	// in addition to the cluster's own name: DOMAIN, *.DOMAIN with wildcards, or * for all names.
	AllowedDomains []string `json:"allowedDomains,omitempty"`
	// WatchNamespace is kube-system or empty.
	WatchNamespace    string              `json:"watchNamespace,omitempty"`
	Provider          ExternalDNSProvider `json:"provider,omitempty" enum:"dns-controller|external-dns|none"`
	PriorityClassName *string             `json:"priorityClassName,omitempty"`
}
