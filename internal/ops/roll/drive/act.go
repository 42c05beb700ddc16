package drive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/drain"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/inplace"
	"kops.local/kops/internal/platform"
)

// runningAction is an action under way, or one that has finished and whose result was not processed
// yet.
type runningAction struct {
	cancel    context.CancelFunc
	cancelled bool
}

// evictionBlockers has, by pod, why it cannot be evicted.
type evictionBlockers map[string]string

func (b evictionBlockers) list() []string {
	var out []string
	for _, pod := range slices.Sorted(maps.Keys(b)) {
		out = append(out, pod+": "+b[pod])
	}
	return out
}

// runActions begins the actions that should be under way and are not, cancels those that should not
// be, and returns the latest time for the next step.
func (d *Driver) runActions(ctx context.Context, actions []roll.Action) (until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a, it := range d.running {
		if !slices.Contains(actions, a) && !it.cancelled {
			it.cancelled = true
			it.cancel()
		}
	}
	for _, a := range actions {
		if a.Do == roll.Sleep {
			if until.IsZero() || a.Until.Before(until) {
				until = a.Until
			}
			continue
		}
		if d.running[a] != nil || d.isCancelling(a) {
			continue // the end of an action pokes
		}
		doing, cancel := context.WithCancel(ctx)
		d.running[a] = &runningAction{cancel: cancel}
		d.run(func() {
			defer cancel()
			d.recordResult(doing, a, d.do(doing, a))
		})
	}
	return until
}

// isCancelling reports whether another action on the same machine has been cancelled and has not
// finished yet.
func (d *Driver) isCancelling(a roll.Action) bool {
	if a.Machine == "" || a.Do == roll.Prompt {
		return false
	}
	for b, it := range d.running {
		if it.cancelled && b.Machine == a.Machine && b.Do != roll.Prompt {
			return true
		}
	}
	return false
}

// recordResult records the result of an action.
func (d *Driver) recordResult(ctx context.Context, a roll.Action, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wakeUp()
	if a.Do == roll.Drain {
		delete(d.drains, a.Machine)
	}
	if ctx.Err() != nil { // it may be requested again
		delete(d.running, a)
		return
	}
	r := roll.Result{Action: a}
	if err != nil {
		var classed *fault.Error
		r.Trouble, r.Final = err.Error(), errors.As(err, &classed) && (classed.Class == fault.Permanent || classed.Class == fault.Denied)
	}
	d.results = append(d.results, r)
}

// do carries out an action. All actions are idempotent.
func (d *Driver) do(ctx context.Context, a roll.Action) error {
	switch a.Do {
	case roll.Prompt:
		return d.prompt(ctx, a.Question)
	case roll.Update:
		return d.after(ctx, d.update(ctx, a.Group))
	case roll.CheckGates:
		return d.runGates(ctx)
	}
	m, node := d.machine(a.Machine)
	switch a.Do {
	case roll.Detach:
		return d.after(ctx, onMachine(ctx, d.Detach, m))
	case roll.Deregister:
		return onMachine(ctx, d.Deregister, m)
	case roll.Terminate:
		return d.after(ctx, d.terminate(ctx, m))
	}
	if node == nil || d.Client == nil {
		return nil // the remaining actions need a node
	}
	switch a.Do {
	case roll.Taint:
		return d.taint(ctx, node.Name, true)
	case roll.Cordon:
		return d.drainer.Cordon(ctx, node.Name)
	case roll.Drain:
		return d.drainer.Drain(ctx, node.Name, drain.Options{Dead: a.Dead, On: func(p drain.Pod) { d.recordBlocker(a.Machine, p) }})
	case roll.RestartInPlace:
		return d.restart(ctx, node, a.Group)
	case roll.Release:
		return d.release(ctx, node.Name, a.StayCordoned)
	}
	return fault.New(fault.Permanent, "unknown action %q", a.Do)
}

// machine finds a machine and its node; either may be unknown.
func (d *Driver) machine(name string) (platform.Machine, *corev1.Node) {
	m := platform.Machine{Name: name}
	groups, _ := d.listing.groupsNow()
	for _, g := range groups {
		for _, found := range g.Machines {
			if found.Name == name {
				m = found
			}
		}
	}
	if d.Client == nil {
		return m, nil
	}
	nodes, _ := d.nodes.objects()
	return m, health.NodeOf(m, nodes)
}

// onMachine calls a function of the platform, if it is supported.
func onMachine(ctx context.Context, f func(context.Context, platform.Machine) error, m platform.Machine) error {
	if f == nil {
		return nil
	}
	return f(ctx, m)
}

// after lists the machines after they were changed, so that the next step sees the change.
func (d *Driver) after(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	_ = d.list(ctx) // what cannot be listed now is unknown in the next view
	return nil
}

func (d *Driver) update(ctx context.Context, group string) error {
	if d.Update == nil {
		return nil
	}
	return d.Update(ctx, group)
}

func (d *Driver) terminate(ctx context.Context, m platform.Machine) error {
	if err := onMachine(ctx, d.Terminate, m); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terminated[m.Name] = true
	return nil
}

// deleteNodes deletes the nodes of machines that are gone, unless another machine has one by that
// name already. kops-controller also does so when it finds out.
func (d *Driver) deleteNodes(ctx context.Context, s roll.State) {
	groups, known := d.listing.groupsNow()
	if d.Client == nil || !known {
		return
	}
	nodes, _ := d.nodes.objects()
	taken := map[string]bool{}
	for _, g := range groups {
		for _, m := range g.Machines {
			if n := health.NodeOf(m, nodes); n != nil && !d.isEnded(m.Name) {
				taken[n.Name] = true
			}
		}
	}
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == m.Node })
			if m.Effect != roll.Replace || m.Phase != roll.Gone && m.Phase != roll.Done || i < 0 || taken[m.Node] {
				continue
			}
			d.deleteNode(ctx, &nodes[i])
		}
	}
}

// deleteNode deletes a node; if that fails, it is tried again, and validation reports the node.
func (d *Driver) deleteNode(ctx context.Context, n *corev1.Node) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	_ = d.Client.Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))})
}

func (d *Driver) isEnded(machine string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.terminated[machine]
}

// taintTries is how often to try to update a node that others update concurrently.
const taintTries = 5

// taint adds the taint to a node, or removes it.
func (d *Driver) taint(ctx context.Context, name string, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var err error
	for range taintTries {
		n, got := d.Client.Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(got) {
			return nil
		}
		if got != nil {
			return fmt.Errorf("taint node %s: %w", name, got)
		}
		if hasTaint(n) == on {
			return nil
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == labels.ScheduledForUpdate })
		if on {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: labels.ScheduledForUpdate, Effect: corev1.TaintEffectPreferNoSchedule})
		}
		if _, err = d.Client.Nodes().Update(ctx, n, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("taint node %s: %w", name, err)
	}
	return nil
}

// release makes a node available again.
func (d *Driver) release(ctx context.Context, node string, cordoned bool) error {
	if err := d.taint(ctx, node, false); err != nil || cordoned {
		return err
	}
	return d.drainer.Uncordon(ctx, node)
}

// restart asks a machine to apply its configuration. The rollout's ID is the nonce, so that
// repeated requests count once.
func (d *Driver) restart(ctx context.Context, node *corev1.Node, group string) error {
	hash, err := d.Hash(ctx, group)
	if err != nil {
		return err
	}
	d.mu.Lock()
	asked := labels.Apply{Hash: hash, Nonce: d.state.ID}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return inplace.RequestRestart(ctx, d.Client.Nodes(), node, asked)
}

// recordBlocker records what blocks a drain.
func (d *Driver) recordBlocker(machine string, p drain.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drains[machine] == nil {
		d.drains[machine] = evictionBlockers{}
	}
	name := p.Namespace + "/" + p.Name
	delete(d.drains[machine], name)
	if p.State == drain.Blocked {
		d.drains[machine][name] = p.Why
	}
	d.wakeUp()
}

func (d *Driver) runGates(ctx context.Context) error {
	d.mu.Lock()
	gates := d.state.Options.Gates
	d.mu.Unlock()
	return CheckGates(ctx, d.HTTP, gates)
}

// prompt asks the user; the answer is a request.
func (d *Driver) prompt(ctx context.Context, id string) error {
	d.mu.Lock()
	i := slices.IndexFunc(d.state.Questions, func(q roll.Question) bool { return q.ID == id })
	var q roll.Question
	if i >= 0 {
		q = d.state.Questions[i]
	}
	d.mu.Unlock()
	if i < 0 || d.Ask == nil {
		<-ctx.Done() // the user cannot be asked here
		return ctx.Err()
	}
	answer, err := d.Ask(ctx, q)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.requests = append(d.requests, roll.Request{Want: roll.Reply, Question: id, Answer: answer})
	d.mu.Unlock()
	return nil
}
