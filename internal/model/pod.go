package model

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// pod is as much of a Kubernetes pod as the static pods here need.
type pod struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   podMetadata `json:"metadata,omitzero"`
	Spec       podSpec     `json:"spec"`
}

type podMetadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type podSpec struct {
	Containers        []container  `json:"containers"`
	Volumes           []volume     `json:"volumes,omitempty"`
	Tolerations       []toleration `json:"tolerations,omitempty"`
	HostNetwork       bool         `json:"hostNetwork,omitempty"`
	HostPID           bool         `json:"hostPID,omitempty"`
	PriorityClassName string       `json:"priorityClassName,omitempty"`
}

type toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
}

type container struct {
	Name            string           `json:"name"`
	Image           string           `json:"image"`
	Command         []string         `json:"command,omitempty"`
	Args            []string         `json:"args,omitempty"`
	Env             []env            `json:"env,omitempty"`
	Resources       resources        `json:"resources,omitzero"`
	SecurityContext *securityContext `json:"securityContext,omitempty"`
	VolumeMounts    []volumeMount    `json:"volumeMounts,omitempty"`
	LivenessProbe   *probe           `json:"livenessProbe,omitempty"`
	ReadinessProbe  *probe           `json:"readinessProbe,omitempty"`
}

type env struct {
	Name      string     `json:"name"`
	Value     string     `json:"value,omitempty"`
	ValueFrom *valueFrom `json:"valueFrom,omitempty"`
}

type valueFrom struct {
	FieldRef fieldRef `json:"fieldRef"`
}

type fieldRef struct {
	FieldPath string `json:"fieldPath"`
}

type resources struct {
	Requests map[string]string `json:"requests,omitempty"`
}

type securityContext struct {
	Privileged               *bool         `json:"privileged,omitempty"`
	RunAsNonRoot             *bool         `json:"runAsNonRoot,omitempty"`
	RunAsUser                *int64        `json:"runAsUser,omitempty"`
	AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *capabilities `json:"capabilities,omitempty"`
	ReadOnlyRootFilesystem   *bool         `json:"readOnlyRootFilesystem,omitempty"`
	SeccompProfile           *seccomp      `json:"seccompProfile,omitempty"`
}

type seccomp struct {
	Type string `json:"type"`
}

type capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name     string       `json:"name"`
	HostPath *hostPath    `json:"hostPath,omitempty"`
	Image    *imageVolume `json:"image,omitempty"`
}

type hostPath struct {
	Path string `json:"path"`
	Type string `json:"type,omitempty"`
}

// imageVolume mounts the files of a container image.
type imageVolume struct {
	Reference  string `json:"reference"`
	PullPolicy string `json:"pullPolicy,omitempty"`
}

type probe struct {
	HTTPGet             httpGet `json:"httpGet"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"`
	PeriodSeconds       int     `json:"periodSeconds,omitempty"`
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`
	FailureThreshold    int     `json:"failureThreshold,omitempty"`
}

type httpGet struct {
	Host string `json:"host,omitempty"`
	Path string `json:"path"`
	Port int    `json:"port"`
}

// confined is the context of a container with a user and the capabilities named, and no other right.
func confined(uid int64, add ...string) *securityContext {
	yes, no := true, false
	return &securityContext{RunAsUser: &uid, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		SeccompProfile: &seccomp{"RuntimeDefault"}, Capabilities: &capabilities{Drop: []string{"ALL"}, Add: add}}
}

// asUser is the context of a container that is an ordinary user.
func asUser(uid int64) *securityContext {
	yes, c := true, confined(uid)
	c.RunAsNonRoot = &yes
	return c
}

// reader is the context of a container that reads files of whichever user of the
// host's, and may write none but its own.
func reader() *securityContext {
	return confined(0, "DAC_READ_SEARCH")
}

func (p pod) encode() ([]byte, error) {
	p.APIVersion, p.Kind = "v1", "Pod"
	text, err := yaml.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the pod %s: %w", p.Metadata.Name, err)
	}
	return text, nil
}
