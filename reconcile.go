package kops

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/ops/reconcile"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/upgrade"
	"kops.local/kops/internal/spec/validate"
)

// ReconcileOptions configure how a cluster is made to match its objects. Rollout starts
// with DefaultRollout; it also configures how the API server is reached.
type ReconcileOptions struct {
	// Apply runs the stages; otherwise they are only returned.
	Apply bool
	// AllowDowngrade and AllowUnverified are the options of each update.
	AllowDowngrade, AllowUnverified bool
	// SkipChecks are the names of upgrade pre-checks to skip.
	SkipChecks []string
	Rollout    RolloutOptions
	// On receives the events of the call.
	On On
}

// Reconciliation is the plan or the result of a reconciliation.
type Reconciliation struct {
	// Version is the Kubernetes version in the objects when it ends.
	Version string `json:"version"`
	// Stages are the stages for each version, in order.
	Stages []string `json:"stages"`
	// Hops are the upgrades that remain, one after the other.
	Hops []UpgradeHop `json:"hops,omitempty"`
	// Update is what an update of the whole cluster would do now; nil after it was done.
	Update *Update `json:"-"`
	// Findings are the problems that prevent an upgrade from starting.
	Findings finding.List `json:"findings,omitempty"`
}

// ReconcileStage is a stage of a reconciliation: Number counts from 1 to Of for each Version.
type ReconcileStage struct {
	Number  int    `json:"number"`
	Of      int    `json:"of"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// awaited is how long the control plane may take to recover after its update (kOps').
const awaited = 10 * time.Minute

// reconciler makes one cluster match its objects.
type reconciler struct {
	c        *Client
	progress *reporter
	o        ReconcileOptions
	// initialFailures are the initial failures of the control plane, which are not a reason
	// to wait.
	initialFailures []health.Failure
}

// ReconcileCluster updates a cluster and replaces its machines in the order in which an
// upgrade is safe: the control plane first, then the rest. An upgrade of several hops is
// done hop by hop. The next call, by any user, finishes an interrupted one.
func (c *Client) ReconcileCluster(ctx context.Context, name string, o ReconcileOptions) (*Reconciliation, error) {
	if err := precheck.CheckSkipped(o.SkipChecks); err != nil {
		return nil, err
	}
	r := &reconciler{c: c, progress: &reporter{cluster: name, on: o.On}, o: o}
	r.o.Rollout.On = o.On
	cl, err := c.readCluster(ctx, r.progress)
	if err != nil {
		return nil, err
	}
	if err := validate.Gossip(cl.Spec).Err(); err != nil {
		return nil, err
	}
	if !o.Apply {
		return r.preview(ctx, cl)
	}
	if err := r.remember(ctx, cl); err != nil {
		return nil, err
	}
	err = reconcile.Run(ctx, reconcile.Actions{Check: r.check, Update: r.update, Await: r.awaitHealthy, Roll: r.roll, Next: r.next, On: r.stage})
	if err != nil {
		return nil, err
	}
	if cl, err = c.Clusters().Get(ctx, name); err != nil {
		return nil, err
	}
	return &Reconciliation{Version: cl.Spec.Spec.KubernetesVersion, Stages: reconcile.Names()}, nil
}

// preview returns what has to be done.
func (r *reconciler) preview(ctx context.Context, cl *Cluster) (*Reconciliation, error) {
	out := &Reconciliation{Version: cl.Spec.Spec.KubernetesVersion, Stages: reconcile.Names()}
	hops, err := r.c.laterHops(ctx, cl)
	if err != nil {
		return nil, err
	}
	out.Hops = publicHops(hops)
	if len(hops) > 0 {
		out.Version = hops[len(hops)-1].Version
	}
	if out.Findings, err = r.checkObjects(ctx, cl); err != nil {
		return nil, err
	}
	out.Update, err = r.c.Update(ctx, cl.Spec.Name, r.updating(reconcile.All))
	return out, err
}

// laterHops returns the hops of an upgrade that come after the version in the objects.
func (c *Client) laterHops(ctx context.Context, cl *Cluster) ([]upgrade.Hop, error) {
	rest, err := c.remainingHops(ctx, cl)
	if err != nil || len(rest) == 0 {
		return nil, err
	}
	in, err := c.upgradeFrom(ctx, cl, UpgradeOptions{})
	if err != nil {
		return nil, err
	}
	var out []upgrade.Hop
	for _, v := range rest {
		in.To = v
		hops, err := upgrade.Hops(in)
		if err != nil {
			return nil, err
		}
		for _, h := range hops {
			out = append(out, h)
			in.Cluster, in.Groups = upgrade.Apply(in.Cluster, in.Groups, h.Changes)
		}
	}
	return out, nil
}

// checkObjects returns what prevents the upgrade in the objects. If their version was applied, or
// an attempt was made, nothing does: the upgrade must be finished.
func (r *reconciler) checkObjects(ctx context.Context, cl *Cluster) (finding.List, error) {
	upgrading, err := r.c.isUpgrading(ctx, cl)
	if err != nil || !upgrading {
		return nil, err
	}
	return r.checkVersion(ctx, cl, cl.Spec.Spec.KubernetesVersion)
}

// checkVersion checks the cluster before a version; if it cannot be queried, that prevents the
// upgrade.
func (r *reconciler) checkVersion(ctx context.Context, cl *Cluster, version string) (finding.List, error) {
	l, err := r.c.preCheck(ctx, r.progress, cl, version, r.o.SkipChecks, r.o.Rollout.ReachOptions)
	if err != nil && ctx.Err() == nil {
		l, err = finding.List{uncheckedFinding(err, slices.Contains(r.o.SkipChecks, precheck.API))}, nil
	}
	if err == nil {
		err = r.progress.report(Event{Kind: EventChecked, Findings: l})
	}
	return l, err
}

// check refuses to begin if something prevents the upgrade.
func (r *reconciler) check(ctx context.Context) error {
	cl, err := r.c.Clusters().Get(ctx, r.progress.cluster)
	if err != nil {
		return err
	}
	l, err := r.checkObjects(ctx, cl)
	if err != nil {
		return err
	}
	return blockingError(l)
}

// next takes the next hop, if there is one and nothing prevents it.
func (r *reconciler) next(ctx context.Context) (bool, error) {
	cl, err := r.c.Clusters().Get(ctx, r.progress.cluster)
	if err != nil {
		return false, err
	}
	hops, err := r.c.laterHops(ctx, cl)
	if err != nil {
		return false, err
	}
	if len(hops) == 0 {
		return false, r.c.store.DropUpgrade(ctx, r.progress.cluster)
	}
	l, err := r.checkVersion(ctx, cl, hops[0].Version)
	if err == nil {
		err = blockingError(l)
	}
	if err != nil {
		return false, fmt.Errorf("before Kubernetes %s: %w", hops[0].Version, err)
	}
	_, err = r.c.writeHop(ctx, cl, hops[0])
	return true, err
}

// first returns the roles that precede all others.
func first() []string { return []string{string(api.RoleControlPlane), string(api.RoleAPIServer)} }

func (r *reconciler) updating(s reconcile.Scope) UpdateOptions {
	o := UpdateOptions{Apply: r.o.Apply, Prune: s == reconcile.Pruned, AllowDowngrade: r.o.AllowDowngrade, AllowUnverified: r.o.AllowUnverified, On: r.o.On}
	if s == reconcile.ControlPlane {
		o.Roles = first()
	}
	return o
}

func (r *reconciler) update(ctx context.Context, s reconcile.Scope) error {
	_, err := r.c.Update(ctx, r.progress.cluster, r.updating(s))
	return err
}

// roll replaces machines. A rollout that was begun earlier is finished first: it
// may be about other machines.
func (r *reconciler) roll(ctx context.Context, s reconcile.Scope) error {
	o := r.o.Rollout
	if s == reconcile.ControlPlane {
		o.Roles = first()
	}
	for {
		asked := r.c.cfg.World.Now()
		done, err := r.c.Rollout(ctx, r.progress.cluster, o)
		if err != nil || done == nil || !done.Began.Before(asked) {
			return err
		}
	}
}

// stage reports the start of a stage.
func (r *reconciler) stage(ctx context.Context, s reconcile.Stage) error {
	cl, err := r.c.Clusters().Get(ctx, r.progress.cluster)
	if err != nil {
		return err
	}
	return r.progress.report(Event{Kind: EventStage, Stage: &ReconcileStage{s.Number, s.Of, s.Name, cl.Spec.Spec.KubernetesVersion}})
}

// remember records the problems of the control plane before anything is done. A
// cluster without keys has none yet.
func (r *reconciler) remember(ctx context.Context, cl *Cluster) error {
	applied, err := r.c.wasApplied(ctx, cl)
	if err != nil || !applied {
		return err
	}
	k, err := r.c.checkup(ctx, r.progress, r.o.Rollout.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	w, err := k.Observe(ctx)
	if err == nil && w.API.Problem == nil {
		r.initialFailures = controlPlaneFailures(w)
	}
	return err
}

// awaitHealthy waits until the control plane is at least as healthy as before.
func (r *reconciler) awaitHealthy(ctx context.Context) error {
	k, err := r.c.checkup(ctx, r.progress, r.o.Rollout.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	for until := r.c.cfg.World.Now().Add(awaited); ; {
		w, err := k.Observe(ctx)
		if err != nil {
			return err
		}
		failures := slices.DeleteFunc(controlPlaneFailures(w), func(f health.Failure) bool { return slices.Contains(r.initialFailures, f) })
		if err := r.progress.report(Event{Kind: EventValidation, Validation: &Validation{Failures: failures, Nodes: []health.Node{}}}); err != nil || len(failures) == 0 {
			return err
		}
		if !r.c.cfg.World.Now().Before(until) {
			return fault.Wrap(fault.NotYet, fmt.Errorf("the control plane is not ready after %s: %s", awaited, failures[0]), "fix it, then continue: kops reconcile cluster "+r.progress.cluster+" --yes")
		}
		if err := r.c.cfg.World.Sleep(ctx, validationInterval); err != nil {
			return err
		}
	}
}

// controlPlaneFailures returns the failures of the API and of the groups that precede all others,
// except failures of pods.
func controlPlaneFailures(w health.World) []health.Failure {
	var groups []string
	for _, g := range w.Groups {
		if slices.Contains(first(), string(g.Spec.Role)) {
			groups = append(groups, g.Name)
		}
	}
	return slices.DeleteFunc(health.Check(w).Failures, func(f health.Failure) bool {
		api := f.Kind == health.KindAPI || f.Kind == health.KindDNS
		return !api && (f.Kind == health.KindPod || !slices.Contains(groups, f.Group))
	})
}
