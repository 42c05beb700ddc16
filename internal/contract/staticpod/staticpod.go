// Package staticpod defines the part of a Kubernetes pod that the static pods of a control plane
// need: those that an update writes into the store, and those that a machine creates, which may
// include the containers of the former.
//
// It must not know any component that runs in one.
package staticpod

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
)

// Pod is a pod. Encode adds its API version and kind.
type Pod struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata,omitzero"`
	Spec       Spec     `json:"spec"`
}

// Metadata is a pod's metadata.
type Metadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Spec is a pod's spec.
type Spec struct {
	// Containers has values of type Container, and Volumes of type Volume, or what Merge took from
	// a manifest.
	Containers        []any            `json:"containers"`
	Volumes           []any            `json:"volumes,omitempty"`
	Tolerations       []api.Toleration `json:"tolerations,omitempty"`
	HostNetwork       bool             `json:"hostNetwork,omitempty"`
	HostPID           bool             `json:"hostPID,omitempty"`
	PriorityClassName string           `json:"priorityClassName,omitempty"`
	SecurityContext   *SecurityContext `json:"securityContext,omitempty"`
}

// Container is a container of a pod.
type Container struct {
	Name            string                `json:"name"`
	Image           string                `json:"image"`
	Command         []string              `json:"command,omitempty"`
	Args            []string              `json:"args,omitempty"`
	Env             []api.ContainerEnvVar `json:"env,omitempty"`
	Ports           []Port                `json:"ports,omitempty"`
	Resources       Resources             `json:"resources,omitzero"`
	SecurityContext *SecurityContext      `json:"securityContext,omitempty"`
	LivenessProbe   *Probe                `json:"livenessProbe,omitempty"`
	ReadinessProbe  *Probe                `json:"readinessProbe,omitempty"`
	StartupProbe    *Probe                `json:"startupProbe,omitempty"`
	VolumeMounts    []VolumeMount         `json:"volumeMounts,omitempty"`
}

// Port is a port that a container listens on.
type Port struct {
	Name          string `json:"name"`
	ContainerPort int32  `json:"containerPort"`
	HostPort      int32  `json:"hostPort"`
}

// Resources are the amounts of cpu and memory that a container reserves and may use.
type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// SecurityContext is the permissions of a container, or of all containers of a pod.
type SecurityContext struct {
	Privileged               *bool             `json:"privileged,omitempty"`
	RunAsNonRoot             *bool             `json:"runAsNonRoot,omitempty"`
	RunAsUser                *int64            `json:"runAsUser,omitempty"`
	AllowPrivilegeEscalation *bool             `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *Capabilities     `json:"capabilities,omitempty"`
	ReadOnlyRootFilesystem   *bool             `json:"readOnlyRootFilesystem,omitempty"`
	SeccompProfile           map[string]string `json:"seccompProfile,omitempty"`
	SELinuxOptions           map[string]string `json:"seLinuxOptions,omitempty"`
}

// Capabilities are Linux capabilities.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// Confined returns the context of a container with only the given capabilities, and no other
// privileges.
func Confined(add ...string) *SecurityContext {
	yes, no := true, false
	return &SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		SeccompProfile: map[string]string{"type": "RuntimeDefault"}, Capabilities: &Capabilities{Drop: []string{"ALL"}, Add: add}}
}

// Probe checks the state of a container.
type Probe struct {
	HTTPGet             HTTPGet `json:"httpGet"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`
	PeriodSeconds       int     `json:"periodSeconds,omitempty"`
	FailureThreshold    int     `json:"failureThreshold,omitempty"`
}

// HTTPGet is the request of a probe; without a scheme it uses HTTP.
type HTTPGet struct {
	Scheme string `json:"scheme,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path"`
	Port   int    `json:"port"`
}

// VolumeMount mounts a volume in a container.
type VolumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// Volume is a path on the machine, or the files of a container image.
type Volume struct {
	Name     string    `json:"name"`
	HostPath *HostPath `json:"hostPath,omitempty"`
	Image    *Image    `json:"image,omitempty"`
}

// HostPath is a path on the machine, with a type such as FileOrCreate.
type HostPath struct {
	Path string `json:"path"`
	Type string `json:"type,omitempty"`
}

// Image is a container image whose files are mounted.
type Image struct {
	Reference  string `json:"reference"`
	PullPolicy string `json:"pullPolicy,omitempty"`
}

// Critical returns the tolerations of a pod that runs on every control plane.
func Critical() []api.Toleration {
	return []api.Toleration{{Key: "CriticalAddonsOnly", Operator: "Exists"}}
}

// Encode writes the pod as YAML.
func (p Pod) Encode() ([]byte, error) {
	p.APIVersion, p.Kind = "v1", "Pod"
	text, err := yaml.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the pod %s: %w", p.Metadata.Name, err)
	}
	return text, nil
}

// Merge adds the containers and volumes of a manifest, with all of their fields.
func (p *Pod) Merge(manifest string) error {
	var other struct {
		Spec struct {
			Containers []map[string]any `json:"containers"`
			Volumes    []map[string]any `json:"volumes"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(manifest), &other); err != nil {
		return fmt.Errorf("the manifest to merge into %s: %w", p.Metadata.Name, err)
	}
	for _, c := range other.Spec.Containers {
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for _, v := range other.Spec.Volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return nil
}
