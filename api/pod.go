package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of this file have the JSON of the same types in the core/v1 API, as
// far as a spec uses them; they are here so that api does not need core/v1.

// ContainerEnvVar is an environment variable of a container; one of Value and ValueFrom is set.
type ContainerEnvVar struct {
	Name      string        `json:"name,omitempty"`
	Value     string        `json:"value,omitempty"`
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is the source of a variable's value; exactly one member is set.
type EnvVarSource struct {
	FieldRef         *ObjectFieldSelector   `json:"fieldRef,omitempty"`
	ResourceFieldRef *ResourceFieldSelector `json:"resourceFieldRef,omitempty"`
	ConfigMapKeyRef  *KeySelector           `json:"configMapKeyRef,omitempty"`
	SecretKeyRef     *KeySelector           `json:"secretKeyRef,omitempty"`
	FileKeyRef       *FileKeySelector       `json:"fileKeyRef,omitempty"`
}

// ObjectFieldSelector names a field of the pod.
type ObjectFieldSelector struct {
	APIVersion string `json:"apiVersion,omitempty"`
	FieldPath  string `json:"fieldPath,omitempty"`
}

// ResourceFieldSelector names a resource of a container.
type ResourceFieldSelector struct {
	ContainerName string             `json:"containerName,omitempty"`
	Resource      string             `json:"resource,omitempty"`
	Divisor       *resource.Quantity `json:"divisor,omitempty"`
}

// KeySelector names a key of a ConfigMap or a Secret in the pod's namespace.
type KeySelector struct {
	Name     string `json:"name,omitempty"`
	Key      string `json:"key,omitempty"`
	Optional *bool  `json:"optional,omitempty"`
}

// FileKeySelector names a variable in an environment file of a volume.
type FileKeySelector struct {
	VolumeName string `json:"volumeName,omitempty"`
	Path       string `json:"path,omitempty"`
	Key        string `json:"key,omitempty"`
	Optional   *bool  `json:"optional,omitempty"`
}

// Toleration lets a pod run on nodes with a matching taint.
type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Affinity is a preference for the nodes and pods near which a pod is placed.
type Affinity struct {
	NodeAffinity    *NodeAffinity `json:"nodeAffinity,omitempty"`
	PodAffinity     *PodAffinity  `json:"podAffinity,omitempty"`
	PodAntiAffinity *PodAffinity  `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity chooses nodes by their labels and fields.
type NodeAffinity struct {
	Required  *NodeSelector             `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector matches a node that matches one of its terms.
type NodeSelector struct {
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms,omitempty"`
}

// NodeSelectorTerm matches a node that meets all its requirements.
type NodeSelectorTerm struct {
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
	MatchFields      []NodeSelectorRequirement `json:"matchFields,omitempty"`
}

// NodeSelectorRequirement compares one label or field of a node.
type NodeSelectorRequirement struct {
	Key      string   `json:"key,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// PreferredSchedulingTerm is a preference with a weight from 1 to 100.
type PreferredSchedulingTerm struct {
	Weight     int32            `json:"weight,omitempty"`
	Preference NodeSelectorTerm `json:"preference,omitzero"`
}

// PodAffinity places a pod near other pods, or away from them.
type PodAffinity struct {
	Required  []PodAffinityTerm         `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm is a preference with a weight from 1 to 100.
type WeightedPodAffinityTerm struct {
	Weight          int32           `json:"weight,omitempty"`
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm,omitzero"`
}

// PodAffinityTerm selects pods, and the node label that defines "near".
type PodAffinityTerm struct {
	LabelSelector     *metav1.LabelSelector `json:"labelSelector,omitempty"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	TopologyKey       string                `json:"topologyKey,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	MatchLabelKeys    []string              `json:"matchLabelKeys,omitempty"`
	MismatchLabelKeys []string              `json:"mismatchLabelKeys,omitempty"`
}
