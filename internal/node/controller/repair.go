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
	// joinTime is the minimum time that a machine is given from its start until its node registers.
	joinTime = 10 * time.Minute
	// confirmed is how long a machine must be found dead before it is replaced: right
	// after a restore of etcd, nodes briefly show an old state.
	confirmed = time.Minute
	// repairPeriod is how often machines are checked.
	repairPeriod = 20 * time.Second
)

// Fleet lists and replaces the machines of the cluster.
type Fleet interface {
	// List returns the existing machines that are not being terminated.
	List(ctx context.Context) ([]FleetMachine, error)
	// Serving returns those of the machines, all without a node, that should have one: a machine
	// that waits in a warm pool should not.
	Serving(ctx context.Context, machines []FleetMachine) ([]FleetMachine, error)
	// Replace terminates a machine, which its group replaces.
	Replace(ctx context.Context, m FleetMachine) error
}

// FleetMachine is one machine.
type FleetMachine struct {
	// Name is the platform's name of the machine, Node the name of its node.
	Name, Node, Group string
	Created           time.Time
	// KeepsName is set if the replacement has the same name. The node is then deleted first,
	// because its addresses and other fields would be taken for the replacement's.
	KeepsName bool
}

// Repair replaces machines that have been dead for longer than their group's policy allows.
type Repair struct {
	Nodes corev1client.NodeInterface
	Fleet Fleet
	// Groups returns the current policies of the groups that have one.
	Groups func() (map[string]controllerconfig.Repair, error)
	Clock  bootstrap.Clock
	Log    *slog.Logger

	// unhealthySince is since when a machine needs to be replaced, by machine name; lastMessages
	// has the last message about a group in which too many machines are dead.
	unhealthySince map[string]time.Time
	lastMessages   map[string]string
}

// Run checks machines until the context ends.
func (r *Repair) Run(ctx context.Context) error {
	for {
		if err := r.Once(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("cannot check for dead machines; trying again", "error", err)
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
	// Nodes are listed last: a machine that is new in the list may have a node by now.
	nodes, err := nodesByName(ctx, r.Nodes)
	if err != nil {
		return err
	}
	machines, err = r.serving(ctx, machines, nodes)
	if err != nil {
		return err
	}
	due, trouble := selectUnhealthy(groups, machines, nodes, r.Clock.Now())
	r.logSkipped(trouble)
	return r.replace(ctx, due, nodes)
}

// serving leaves out the machines that wait in a warm pool.
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
		return nil, fmt.Errorf("find out which machines are in reserve: %w", err)
	}
	return append(with, without...), nil
}

// logSkipped logs once for a group that none of its machines is replaced.
func (r *Repair) logSkipped(trouble map[string]string) {
	for group, text := range trouble {
		if r.lastMessages[group] != text {
			r.Log.Warn("dead machines are left alone", "group", group, "why", text)
		}
	}
	r.lastMessages = trouble
}

// replace replaces the machines that have been due for long enough.
func (r *Repair) replace(ctx context.Context, due []unhealthyMachine, nodes map[string]*corev1.Node) error {
	now, found := r.Clock.Now(), map[string]time.Time{}
	var errs []error
	for _, p := range due {
		since, before := r.unhealthySince[p.Name]
		if !before {
			since = now
		}
		found[p.Name] = since
		if now.Sub(since) < confirmed {
			continue
		}
		r.Log.Info("replace a dead machine", "machine", p.Name, "group", p.Group, "why", p.reason, "since", p.unhealthySince)
		err := r.removeNode(ctx, p.FleetMachine, nodes[p.Node])
		if err == nil {
			err = r.Fleet.Replace(ctx, p.FleetMachine)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("replace the machine %s: %w", p.Name, err))
		}
	}
	r.unhealthySince = found
	return errors.Join(errs...)
}

// removeNode deletes the node of a machine whose replacement gets the same name.
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

// unhealthyMachine is an unhealthy machine.
type unhealthyMachine struct {
	FleetMachine
	reason         string
	unhealthySince time.Time
}

// selectUnhealthy returns the machines that have been dead for too long, and by group why others
// are left alone. A group is left alone if more of its machines are dead than its policy
// allows, and so is a control plane that would lose its majority.
func selectUnhealthy(groups map[string]controllerconfig.Repair, machines []FleetMachine, nodes map[string]*corev1.Node, now time.Time) (due []unhealthyMachine, alone map[string]string) {
	size, ill, late := map[string]int{}, map[string][]unhealthyMachine{}, map[string][]unhealthyMachine{}
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
		p, well := checkHealth(m, nodes[m.Node])
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
		if bound > 0 && now.Sub(p.unhealthySince) >= bound {
			late[m.Group] = append(late[m.Group], p)
		}
	}
	alone = map[string]string{}
	for group, list := range late {
		policy := groups[group]
		most := maxUnhealthy(policy.MaxUnhealthy, size[group])
		switch {
		case policy.ControlPlane && (down > 1 || servers < 3):
			alone[group] = fmt.Sprintf("%d of %d machines of the control plane are dead, and etcd might lose its majority with one more", down, servers)
		case len(ill[group]) > most:
			alone[group] = fmt.Sprintf("%d of %d machines are dead, but machines are replaced only while at most %d are (spec.repair.maxUnhealthy)", len(ill[group]), size[group], most)
		default:
			due = append(due, list...)
		}
	}
	slices.SortFunc(due, func(a, b unhealthyMachine) int {
		return cmp.Or(a.unhealthySince.Compare(b.unhealthySince), cmp.Compare(a.Name, b.Name))
	})
	return due, alone
}

// checkHealth reports whether a machine is unhealthy, and if so why and since when.
func checkHealth(m FleetMachine, n *corev1.Node) (unhealthyMachine, bool) {
	if n == nil {
		return unhealthyMachine{m, "it has not joined the cluster", m.Created}, false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return unhealthyMachine{m, cmp.Or(c.Message, c.Reason, "its node is not ready"), c.LastTransitionTime.Time}, c.Status == corev1.ConditionTrue
		}
	}
	return unhealthyMachine{m, "its kubelet has not reported yet", n.CreationTimestamp.Time}, false
}

// maxUnhealthy returns how many machines of a group may be dead for dead ones to be replaced: at
// least one.
func maxUnhealthy(share *intstr.IntOrString, size int) int {
	if share == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(share, size, false)
	if err != nil { // the update has rejected other values
		return 1
	}
	return max(1, n)
}
