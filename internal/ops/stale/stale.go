// Package stale finds the machines that do not match the current spec, why, field by field, and
// what it takes to update them.
//
// Judging is pure: Judge takes what was seen. The package must not know how platforms, stores and
// API servers are queried, nor what replaces or restarts a machine.
package stale

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/effects"
)

// Effect is what it takes to bring a machine to its spec.
type Effect = effects.Effect

// Effects, the lesser first.
const (
	None    = effects.None
	Live    = effects.Live
	Restart = effects.Restart
	Replace = effects.Replace
)

// Reason is one difference between a machine and its spec.
type Reason struct {
	// Field is a path in the spec, such as spec.kubelet.maxPods, or a description of what differs.
	Field string
	// Have and Want are what the machine has, and what it should have; both may be empty.
	Have, Want string
	Effect     Effect
}

// Machine is a machine of a cluster, and how it differs from its spec.
type Machine struct {
	platform.Machine
	// Role is its instance group's role; empty if it belongs to none.
	Role api.InstanceGroupRole
	// NodeName is the name of its Node, and Version the version of its kubelet; both are empty if
	// it has no node, or its node is not known.
	NodeName, Version string
	// Ready means that its node is ready.
	Ready bool
	// Effect is the greatest effect of its reasons.
	Effect  Effect
	Reasons []Reason
}

// Causes returns the reasons for the machine's Effect: for a stale machine, those that are not
// applied live.
func (m *Machine) Causes() []Reason {
	if !m.Stale() {
		return m.Reasons
	}
	return slices.DeleteFunc(slices.Clone(m.Reasons), func(r Reason) bool { return r.Effect < Restart })
}

// Stale reports whether the machine must be restarted or replaced.
func (m *Machine) Stale() bool { return m.Effect >= Restart }
