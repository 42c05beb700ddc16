package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/node/bootstrap"
)

const (
	// joinTime is how long a machine may at least take from its start to its node.
	joinTime = 10 * time.Minute
	// confirmed is how long a machine must be found to be replaced before it is: after a
	// restore of etcd nodes say for a moment what was so then.
	confirmed = time.Minute
	// repairPeriod is how often machines are looked at.
	repairPeriod = 20 * time.Second
)

// Fleet are the machines of the cluster, each of which can be replaced.
type Fleet interface {
	// List returns the machines that are there and are not about to go.
	List(ctx context.Context) ([]FleetMachine, error)
	// Serving returns the machines, of some without a node, that should have one: a machine that
	// waits in reserve should not.
	Serving(ctx context.Context, machines []FleetMachine) ([]FleetMachine, error)
	// Replace ends a machine, in whose place its group makes another.
	Replace(ctx context.Context, m FleetMachine) error
}

// FleetMachine is one machine.
type FleetMachine struct {
	// Name is the platform's own name, Node the name of the machine's node.
	Name, Node, Group string
	Created           time.Time
	// KeepsName says that the replacement has the same name. The node is removed first, as its
	// addresses and other fields would be taken for the replacement's.
	KeepsName bool
}

// Repair replaces machines that are dead for longer than their group's policy allows.
type Repair struct {
	Nodes corev1client.NodeInterface
	Fleet Fleet
	// Groups returns the policies of the groups that have one, as they are now.
	Groups func() (map[string]controllerconfig.Repair, error)
	Clock  bootstrap.Clock
	Log    *slog.Logger

	// found is since when a machine needs to be replaced, by its name; told is the last message
	// about a group in which too many are dead.
	found map[string]time.Time
	told  map[string]string
}

// Run looks after machines until the context ends.
func (r *Repair) Run(ctx context.Context) error {
	for {
		if err := r.Once(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("cannot look after dead machines; trying again", "error", err)
		}
		if err := r.Clock.Sleep(ctx, repairPeriod); err != nil {
			return err
		}
	}
}

// Once replaces the machines that are due now.
func (r *Repair) Once(ctx context.Context) error {
	groups, err := r.Groups()
	if err != nil || len(groups) == 0 {
		return err
	}
	machines, err := r.Fleet.List(ctx)
	if err != nil {
		return fmt.Errorf("list the machines: %w", err)
	}
	// The nodes come last: a machine that is new among the machines may be a node by now.
	nodes, err := nodesByName(ctx, r.Nodes)
	if err != nil {
		return err
	}
	machines, err = r.serving(ctx, machines, nodes)
	if err != nil {
		return err
	}
	due, trouble := triage(groups, machines, nodes, r.Clock.Now())
	r.tell(trouble)
	return r.replace(ctx, due, nodes)
}

// serving leaves out the machines that wait in reserve.
func (r *Repair) serving(ctx context.Context, machines []FleetMachine, nodes map[string]*corev1.Node) ([]FleetMachine, error) {
	var with, without []FleetMachine
	for _, m := range machines {
		if nodes[m.Node] == nil {
			without = append(without, m)
		} else {
			with = append(with, m)
		}
	}
	if len(without) == 0 {
		return with, nil
	}
	without, err := r.Fleet.Serving(ctx, without)
	if err != nil {
		return nil, fmt.Errorf("find out which machines wait in reserve: %w", err)
	}
	return append(with, without...), nil
}

// tell says once of a group that none of its machines is replaced.
func (r *Repair) tell(trouble map[string]string) {
	for group, text := range trouble {
		if r.told[group] != text {
			r.Log.Warn("dead machines are left alone", "group", group, "why", text)
		}
	}
	r.told = trouble
}

// replace replaces the machines that are due for long enough.
func (r *Repair) replace(ctx context.Context, due []patient, nodes map[string]*corev1.Node) error {
	now, found := r.Clock.Now(), map[string]time.Time{}
	var errs []error
	for _, p := range due {
		since, before := r.found[p.Name]
		if !before {
			since = now
		}
		found[p.Name] = since
		if now.Sub(since) < confirmed {
			continue
		}
		r.Log.Info("replace a dead machine", "machine", p.Name, "group", p.Group, "why", p.why, "since", p.since)
		err := r.removeNode(ctx, p.FleetMachine, nodes[p.Node])
		if err == nil {
			err = r.Fleet.Replace(ctx, p.FleetMachine)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("replace the machine %s: %w", p.Name, err))
		}
	}
	r.found = found
	return errors.Join(errs...)
}

// removeNode removes the node of a machine whose name the next one has.
func (r *Repair) removeNode(ctx context.Context, m FleetMachine, n *corev1.Node) error {
	if !m.KeepsName || n == nil {
		return nil
	}
	err := r.Nodes.Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // gone, or another node of that name by now
		return fmt.Errorf("delete the node %s: %w", n.Name, err)
	}
	return nil
}

// patient is a machine that is not well.
type patient struct {
	FleetMachine
	why   string
	since time.Time
}

// triage returns the machines that are dead for too long, and by group why others are left
// alone. A group whose machines are dead in greater number than its policy says is left
// alone, as is a control plane of which no majority would be left.
func triage(groups map[string]controllerconfig.Repair, machines []FleetMachine, nodes map[string]*corev1.Node, now time.Time) (due []patient, alone map[string]string) {
	size, ill, late := map[string]int{}, map[string][]patient{}, map[string][]patient{}
	servers, down := 0, 0 // of the control plane
	for _, m := range machines {
		policy, on := groups[m.Group]
		if !on {
			continue
		}
		size[m.Group]++
		if policy.ControlPlane {
			servers++
		}
		p, well := examine(m, nodes[m.Node])
		if well {
			continue
		}
		if policy.ControlPlane {
			down++
		}
		ill[m.Group] = append(ill[m.Group], p)
		bound := policy.After.Duration
		if nodes[m.Node] == nil {
			bound = max(bound, joinTime)
		}
		if bound > 0 && now.Sub(p.since) >= bound {
			late[m.Group] = append(late[m.Group], p)
		}
	}
	alone = map[string]string{}
	for group, list := range late {
		policy := groups[group]
		most := most(policy.MaxUnhealthy, size[group])
		switch {
		case policy.ControlPlane && (down > 1 || servers < 3):
			alone[group] = fmt.Sprintf("%d of %d machines of the control plane are dead, and with another one etcd might lose its majority", down, servers)
		case len(ill[group]) > most:
			alone[group] = fmt.Sprintf("%d of %d machines are dead, and at most %d may be when machines are replaced (spec.repair.maxUnhealthy)", len(ill[group]), size[group], most)
		default:
			due = append(due, list...)
		}
	}
	slices.SortFunc(due, func(a, b patient) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Name, b.Name)) })
	return due, alone
}

// examine says whether a machine is well, and else why not and since when.
func examine(m FleetMachine, n *corev1.Node) (patient, bool) {
	if n == nil {
		return patient{m, "it has not joined the cluster", m.Created}, false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return patient{m, cmp.Or(c.Message, c.Reason, "its node is not ready"), c.LastTransitionTime.Time}, c.Status == corev1.ConditionTrue
		}
	}
	return patient{m, "its kubelet has not reported yet", n.CreationTimestamp.Time}, false
}

// most is how many machines of a group may be dead while dead ones are replaced: one at least.
func most(share *intstr.IntOrString, size int) int {
	if share == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(share, size, false)
	if err != nil { // the update has refused what is neither
		return 1
	}
	return max(1, n)
}
