package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Channel recommends versions and images. A name without a scheme is a file of the
// kOps project; an embedded copy is used without a network.
type Channel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ChannelSpec `json:"spec,omitzero"`
}

// ChannelSpec holds the recommendations. In each list, the first entry whose range
// contains the requested version applies.
type ChannelSpec struct {
	// Images are the machine images, by cloud, architecture and Kubernetes version.
	Images []ChannelImage `json:"images,omitempty"`
	// Cluster is a fragment of a v1alpha2 Cluster spec with defaults for new clusters.
	Cluster map[string]any `json:"cluster,omitempty"`
	// KubernetesVersions recommends and requires a Kubernetes version, depending on the one in use.
	KubernetesVersions []ChannelVersion `json:"kubernetesVersions,omitempty"`
	// KopsVersions recommends a version of kops, depending on the one that runs.
	KopsVersions []ChannelVersion `json:"kopsVersions,omitempty"`
	// Packages are versions of packages for machines.
	Packages []ChannelPackage `json:"packages,omitempty"`
}

// ChannelImage is a machine image for one cloud and architecture.
type ChannelImage struct {
	Name           string `json:"name,omitempty"`
	ProviderID     string `json:"providerID,omitempty"`
	ArchitectureID string `json:"architectureID,omitempty"`
	// KubernetesVersion is a semver range, such as ">=1.32.0".
	KubernetesVersion string            `json:"kubernetesVersion,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
}

// ChannelVersion is what a channel recommends for the versions in a semver range.
type ChannelVersion struct {
	Range              string `json:"range,omitempty"`
	RecommendedVersion string `json:"recommendedVersion,omitempty"`
	RequiredVersion    string `json:"requiredVersion,omitempty"`
	// KubernetesVersion is the version for new clusters; in KopsVersions only.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// ChannelPackage is the version of a package in ranges of kops and Kubernetes versions.
type ChannelPackage struct {
	Name              string `json:"name,omitempty"`
	Version           string `json:"version,omitempty"`
	KopsVersion       string `json:"kopsVersion,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}
