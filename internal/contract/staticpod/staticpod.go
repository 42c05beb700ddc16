// Package staticpod is as much of a Kubernetes pod as the static pods of a control
// plane need: those that an update writes into the store, and those that a machine
// makes, which may take up the containers of the first.
//
// It must not know any component that runs in one.
package staticpod

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
)

// Pod is a pod. Encode writes its version and its kind.
type Pod struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata,omitzero"`
	Spec       Spec     `json:"spec"`
}

// Metadata names a pod.
type Metadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Spec says what runs in a pod.
type Spec struct {
	// Containers are a Container each, and Volumes a Volume, or what Merge took of a manifest.
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

// SecurityContext is what a container, or all of a pod, may do.
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

// Capabilities are rights of root's, as Linux divides them.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// Confined is the context of a container with the capabilities named, and no other right.
func Confined(add ...string) *SecurityContext {
	yes, no := true, false
	return &SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		SeccompProfile: map[string]string{"type": "RuntimeDefault"}, Capabilities: &Capabilities{Drop: []string{"ALL"}, Add: add}}
}

// Probe asks a container how it is.
type Probe struct {
	HTTPGet             HTTPGet `json:"httpGet"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`
	PeriodSeconds       int     `json:"periodSeconds,omitempty"`
	FailureThreshold    int     `json:"failureThreshold,omitempty"`
}

// HTTPGet is what a probe asks; without a scheme it is HTTP.
type HTTPGet struct {
	Scheme string `json:"scheme,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path"`
	Port   int    `json:"port"`
}

// VolumeMount shows a volume to a container.
type VolumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// Volume is a path of the machine, or the files of a container image.
type Volume struct {
	Name     string    `json:"name"`
	HostPath *HostPath `json:"hostPath,omitempty"`
	Image    *Image    `json:"image,omitempty"`
}

// HostPath is a path of the machine, of a type such as FileOrCreate.
type HostPath struct {
	Path string `json:"path"`
	Type string `json:"type,omitempty"`
}

// Image is a container image whose files are mounted.
type Image struct {
	Reference  string `json:"reference"`
	PullPolicy string `json:"pullPolicy,omitempty"`
}

// Critical are the tolerations of a pod that runs on every control plane.
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

// Merge adds the containers and volumes of a manifest, with all that the manifest says of them.
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
