// Package roster draws conclusions from a platform's list of machines: which nodes have lost their
// machines, to which group a node belongs, and which machines could be replaced. A list that lacks
// the machine on which the process runs is never believed, because it would remove every node.
//
// It must not know any platform, or how one lists its machines.
package roster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
)

// State is what a platform says about a machine.
type State string

const (
	// Starting machines will run soon.
	Starting State = "starting"
	// Running machines run.
	Running State = "running"
	// Stopped machines exist, and may run again.
	Stopped State = "stopped"
	// Ended machines never run again, although the platform still lists them.
	Ended State = "ended"
)

// Machine is one machine in a platform's list.
type Machine struct {
	// ID is the platform's name of the machine, which no other machine ever gets; Node is the name
	// of its node.
	ID, Node string
	// Group is the instance group that the platform has recorded; empty: none.
	Group string
	State State
	// Status is the platform's word for State, and Place is where the machine is, both for messages.
	Status, Place string
	// Created is when the machine was created: an older node of that name belonged to its
	// predecessor. Zero: the age of a node says nothing.
	Created time.Time
	// KeepsName is controller.FleetMachine's. Such machines' provider IDs are their successors', too.
	KeepsName bool
	// ProviderID is what the machine's node reports as its provider ID, unless that is still empty.
	ProviderID string
	// Cluster, Addresses and Names are for List.Call: see bootstrap.Called.
	Cluster          string
	Addresses, Names []string
}

// Fleet returns the machines of groups that run or start.
func Fleet(machines []Machine) []controller.FleetMachine {
	var out []controller.FleetMachine
	for _, m := range machines {
		if m.Group != "" && (m.State == Starting || m.State == Running) {
			out = append(out, controller.FleetMachine{Name: m.ID, Node: m.Node, Group: m.Group, Created: m.Created, KeepsName: m.KeepsName})
		}
	}
	return out
}

// Roster reports which nodes have lost their machines.
type Roster struct {
	// Source names the list in messages; Remedy tells what to do if it lacks this machine, and may
	// be empty.
	Source, Remedy string
	// Self is the node on which this process runs. A list in which its machine does not run is not
	// believed.
	Self string
	// List returns the machines of at least the nodes with these names, Self among them.
	List func(ctx context.Context, nodes []string) ([]Machine, error)
	// Batch is the maximum number of names in a call of List; 0: any number.
	Batch int
	// Judges reports whether the list includes the machine of such a node; nil: of every node.
	Judges func(*corev1.Node) bool
	// Reuses reports whether another machine may get this name; nil: every name.
	Reuses func(node string) bool
	// Grace is how long a machine must be missing before it is gone: a platform may not list new
	// machines immediately. Now is needed for it.
	Grace time.Duration
	Now   func() time.Time
	// IsUnknown asks the platform whether the machine of a node that is missing in the list does not
	// exist; nil: the list is complete.
	IsUnknown func(context.Context, *corev1.Node) (bool, error)

	// missingSince is since when the machine of a node is missing.
	missingSince map[string]time.Time
}

var _ controller.Machines = (*Roster)(nil)

// ListTerminated returns the nodes whose machines have ended or are missing, and those older than
// the machine that has their name.
func (r *Roster) ListTerminated(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return r.Judges != nil && !r.Judges(n) })
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	there, err := r.find(ctx, names)
	if err != nil {
		return nil, err
	}
	var out []string
	missing := map[string]time.Time{}
	for _, n := range nodes {
		m, found := there[n.Name]
		gone := m.State == Ended || isPredecessors(n, m)
		if !found {
			if gone, err = r.isGone(ctx, n, missing); err != nil {
				return nil, err
			}
		}
		if gone {
			out = append(out, n.Name)
		}
	}
	r.missingSince = missing
	return out, nil
}

// isGone reports whether the machine of a node, which the list lacks, is gone, and records in missing
// since when the list has lacked it.
func (r *Roster) isGone(ctx context.Context, n *corev1.Node, missing map[string]time.Time) (bool, error) {
	if r.Grace > 0 {
		since, before := r.missingSince[n.Name]
		if !before {
			since = r.Now()
		}
		missing[n.Name] = since
		if r.Now().Sub(since) < r.Grace {
			return false, nil
		}
	}
	if r.IsUnknown == nil {
		return true, nil
	}
	return r.IsUnknown(ctx, n)
}

// isPredecessors reports whether a node belonged to a predecessor of the machine that now has its
// name. A node that reports the machine itself did not, even if the clocks of the platform and of the
// API server differ. A control-plane node, which joins without kops-controller, may belong to the new
// machine as soon as it is ready.
func isPredecessors(n *corev1.Node, m Machine) bool {
	if n.Spec.ProviderID != "" && n.Spec.ProviderID == m.ProviderID && !m.KeepsName {
		return false
	}
	_, isControlPlane := n.Labels[labels.ControlPlane]
	return n.CreationTimestamp.Time.Before(m.Created) && !(isControlPlane && isReady(n))
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ListExisting returns the names that a machine currently has, of those that can be used again.
func (r *Roster) ListExisting(ctx context.Context, names []string) ([]string, error) {
	again := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return r.Reuses != nil && !r.Reuses(n) })
	if len(again) == 0 {
		return nil, nil
	}
	there, err := r.find(ctx, again)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(again, func(n string) bool { _, known := there[n]; return !known }), nil
}

// find returns the machines by the names of their nodes, of at least the nodes with these names. If a
// platform still lists the machine that had a name before, it is not that one.
func (r *Roster) find(ctx context.Context, names []string) (map[string]Machine, error) {
	size := max(len(names), 1)
	if r.Batch > 0 {
		size = r.Batch - 1
	}
	out := map[string]Machine{}
	for batch := range slices.Chunk(names, size) {
		found, err := r.List(ctx, append(slices.Clone(batch), r.Self))
		if err != nil {
			return nil, err
		}
		own := false
		for _, m := range found {
			if before, known := out[m.Node]; !known || before.State == Ended || m.State != Ended && m.Created.After(before.Created) {
				out[m.Node] = m
			}
			own = own || m.Node == r.Self && m.State == Running
		}
		if !own {
			err := fmt.Errorf("%s lacks %s, where this runs, so it is ignored", r.Source, r.Self)
			return nil, fault.Wrap(fault.Permanent, err, r.Remedy)
		}
	}
	return out, nil
}
