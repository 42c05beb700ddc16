package api

import (
	"encoding/base64"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Values of updatePolicy.
const (
	// UpdateAutomatic lets machines install operating system updates on their own.
	UpdateAutomatic = "automatic"
	// UpdateExternal leaves updates to the user.
	UpdateExternal = "external"
)

// FileAssetSpec describes a file that is written to machines.
type FileAssetSpec struct {
	Name string `json:"name,omitempty"`
	// Path is the path on the machine; <assets folder>/<name> when empty.
	Path string `json:"path,omitempty"`
	// Roles are the groups that get it; all when empty.
	Roles   []InstanceGroupRole `json:"roles,omitempty" enum:"ControlPlane|Node|Bastion|APIServer|Etcd|Scheduler|KubeControllerManager"`
	Content string              `json:"content,omitempty" text:"lines"`
	// IsBase64 means that content is base64.
	IsBase64 bool `json:"isBase64,omitempty"`
	// Mode is octal text, such as "0440".
	Mode string `json:"mode,omitempty"`
}

// Data returns the content of the file, decoded; padding of base64 is optional.
func (f FileAssetSpec) Data() (string, error) {
	if !f.IsBase64 {
		return f.Content, nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(f.Content), "="))
	return string(raw), err
}

// HookSpec describes a systemd unit that machines run.
type HookSpec struct {
	// Name is the name of the unit; generated if empty.
	Name string `json:"name,omitempty"`
	// Enabled false disables a unit of that name that is set for the whole cluster; true when nil.
	Enabled *bool `json:"enabled,omitempty"`
	// Roles are the groups that get it; all when empty.
	Roles []InstanceGroupRole `json:"roles,omitempty" enum:"ControlPlane|Node|Bastion|APIServer|Etcd|Scheduler|KubeControllerManager"`
	// Requires are the units that it depends on.
	Requires []string `json:"requires,omitempty"`
	// Before are units that start only after it.
	Before []string `json:"before,omitempty"`
	// ExecContainer runs a container; it excludes manifest.
	ExecContainer *ExecContainerAction `json:"execContainer,omitempty"`
	// Manifest is the body of the unit's Service section, or the whole unit with useRawManifest.
	Manifest       string `json:"manifest,omitempty" text:"lines"`
	UseRawManifest bool   `json:"useRawManifest,omitempty"`
}

// ExecContainerAction runs a container once.
type ExecContainerAction struct {
	// Image replaces the default image of the version.
	Image       string            `json:"image,omitempty"`
	Command     []string          `json:"command,omitempty" text:"lines"`
	Environment map[string]string `json:"environment,omitempty" text:"lines"`
}

// RollingUpdate limits how many machines are replaced at once; numbers or percentages.
type RollingUpdate struct {
	// DrainAndTerminate false only terminates; true when nil.
	DrainAndTerminate *bool `json:"drainAndTerminate,omitempty"`
	// MaxUnavailable is how many machines may be missing.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many additional machines may exist.
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// RepairSpec enables the replacement of dead machines: those that do not run, or whose node is not ready.
type RepairSpec struct {
	// After is how long a machine must be dead before it is replaced; 0 turns the repair off.
	After *metav1.Duration `json:"after,omitempty"`
	// MaxUnhealthy is the maximum number or percentage of machines of a group that may be dead:
	// when more are dead, no machine is replaced, because the cause is then not a single machine.
	// One may always be dead.
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
}
