// Package stale finds the machines that do not match the current spec, why, field by
// field, and what it takes to update them.
//
// Judging is pure: Judge takes what was seen. The package must not know how platforms,
// stores and API servers are asked, nor what replaces or restarts a machine.
package stale

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/effects"
)

// Effect is what it takes to have a machine do what the spec says.
type Effect = effects.Effect

// Effects, the lesser first.
const (
	None    = effects.None
	Live    = effects.Live
	Restart = effects.Restart
	Replace = effects.Replace
)

// Reason is one difference between a machine and what the spec says.
type Reason struct {
	// Field is the spec's, such as spec.kubelet.maxPods, or says in words what differs.
	Field string
	// Have and Want are what the machine has, and what it is to have; both may be empty.
	Have, Want string
	Effect     Effect
}

// Machine is a machine of a cluster, and what it is behind in.
type Machine struct {
	platform.Machine
	// Role is its instance group's role; empty when it belongs to none.
	Role api.InstanceGroupRole
	// NodeName is the name of its Node, and Version the version of its kubelet; both are
	// empty if it has no node, or nobody knows.
	NodeName, Version string
	// Ready says that its node is ready.
	Ready bool
	// Effect is the greatest of the reasons'.
	Effect  Effect
	Reasons []Reason
}

// Causes are the reasons for the machine's Effect: of a stale one not what is done live.
func (m *Machine) Causes() []Reason {
	if !m.Stale() {
		return m.Reasons
	}
	return slices.DeleteFunc(slices.Clone(m.Reasons), func(r Reason) bool { return r.Effect < Restart })
}

// Stale reports whether the machine has to be restarted or replaced.
func (m *Machine) Stale() bool { return m.Effect >= Restart }
