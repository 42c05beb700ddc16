package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Addons is the list of add-ons that a cluster applies to itself: the file
// addons/bootstrap-channel.yaml. It is written without an apiVersion.
type Addons struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec AddonsSpec `json:"spec,omitzero"`
}

// AddonsSpec holds the add-ons.
type AddonsSpec struct {
	Addons []Addon `json:"addons,omitempty"`
}

// Addon is one set of objects, reapplied when its ID or hash changes.
type Addon struct {
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
	// Manifest is the URL of the objects, relative to the URL of the list.
	Manifest string `json:"manifest,omitempty"`
	// ManifestHash is the SHA-256 of the trimmed manifest, in hex.
	ManifestHash string            `json:"manifestHash,omitempty"`
	Selector     map[string]string `json:"selector,omitempty"`
	// Namespace holds the annotation that records the applied version; "" is kube-system.
	Namespace string `json:"namespace,omitempty"`
	// NeedsRollingUpdate is control-plane, workers, all, or "".
	NeedsRollingUpdate string `json:"needsRollingUpdate,omitempty"`
	// NeedsPKI requests a key pair for the add-on.
	NeedsPKI bool `json:"needsPKI,omitempty"`
	// Prune lists the objects of an earlier version that are removed.
	Prune *PruneSpec `json:"prune,omitempty"`
	// Version is the version of the add-on itself.
	Version string `json:"version,omitempty"`
}

// PruneSpec lists the kinds of objects that are deleted when an add-on's manifest no longer contains them.
type PruneSpec struct {
	Kinds []PruneKind `json:"kinds,omitempty"`
}

// PruneKind selects objects of one kind to prune.
type PruneKind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
	// Namespaces are searched; empty means the whole cluster.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector and FieldSelector narrow the objects, in the text form of the Kubernetes API.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
}
