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

// ReconcileOptions say how a cluster is brought to what its objects say. Rollout begins
// with DefaultRollout; it says how the API server is reached, too.
type ReconcileOptions struct {
	// Apply does it; otherwise it is only said what it would do.
	Apply bool
	// AllowDowngrade and AllowUnverified are those of each update.
	AllowDowngrade, AllowUnverified bool
	// SkipChecks are the names of pre-checks of an upgrade that are not made.
	SkipChecks []string
	Rollout    RolloutOptions
	// On receives the events of the call.
	On On
}

// Reconciliation is what reconciling a cluster comes to, or came to.
type Reconciliation struct {
	// Version is the Kubernetes version in the objects at the end.
	Version string `json:"version"`
	// Stages are what is done for each version, in order.
	Stages []string `json:"stages"`
	// Hops are the upgrades that follow, one after the other.
	Hops []UpgradeHop `json:"hops,omitempty"`
	// Update is what the update of the whole would do now; nil after it was done.
	Update *Update `json:"-"`
	// Findings are what is in the way of an upgrade that is not begun.
	Findings finding.List `json:"findings,omitempty"`
}

// ReconcileStage is a part of the way: Number counts from 1 to Of for each Version.
type ReconcileStage struct {
	Number  int    `json:"number"`
	Of      int    `json:"of"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// awaited is how long the control plane may take to be well after its update (kOps').
const awaited = 10 * time.Minute

// reconciler brings one cluster to what its objects say.
type reconciler struct {
	c    *Client
	told *call
	o    ReconcileOptions
	// before are the failures of the control plane that were there at the beginning, and
	// are no reason to wait.
	before []health.Failure
}

// ReconcileCluster updates a cluster and replaces its machines in the order in which an
// upgrade is safe: the control plane first, then the rest. An upgrade of several hops is
// carried out hop by hop. One that was cut off is finished by the next call, of whomever.
func (c *Client) ReconcileCluster(ctx context.Context, name string, o ReconcileOptions) (*Reconciliation, error) {
	if err := precheck.CheckSkipped(o.SkipChecks); err != nil {
		return nil, err
	}
	r := &reconciler{c: c, told: &call{cluster: name, on: o.On}, o: o}
	r.o.Rollout.On = o.On
	cl, err := c.loaded(ctx, r.told)
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
	err = reconcile.Run(ctx, reconcile.Deeds{Check: r.check, Update: r.update, Await: r.await, Roll: r.roll, Next: r.next, On: r.stage})
	if err != nil {
		return nil, err
	}
	if cl, err = c.Clusters().Get(ctx, name); err != nil {
		return nil, err
	}
	return &Reconciliation{Version: cl.Spec.Spec.KubernetesVersion, Stages: reconcile.Names()}, nil
}

// preview says what there is to do.
func (r *reconciler) preview(ctx context.Context, cl *Cluster) (*Reconciliation, error) {
	out := &Reconciliation{Version: cl.Spec.Spec.KubernetesVersion, Stages: reconcile.Names()}
	hops, err := r.c.following(ctx, cl)
	if err != nil {
		return nil, err
	}
	out.Hops = shownHops(hops)
	if len(hops) > 0 {
		out.Version = hops[len(hops)-1].Version
	}
	if out.Findings, err = r.look(ctx, cl); err != nil {
		return nil, err
	}
	out.Update, err = r.c.Update(ctx, cl.Spec.Name, r.updating(reconcile.All))
	return out, err
}

// following are the hops of an upgrade that come after what the objects ask for.
func (c *Client) following(ctx context.Context, cl *Cluster) ([]upgrade.Hop, error) {
	rest, err := c.remaining(ctx, cl)
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
			in.Cluster, in.Groups = upgrade.Applied(in.Cluster, in.Groups, h.Changes)
		}
	}
	return out, nil
}

// look says what is in the way of the upgrade that the objects ask for. Where their version
// was applied, or tried to be, nothing is: the only way is on.
func (r *reconciler) look(ctx context.Context, cl *Cluster) (finding.List, error) {
	upgrading, err := r.c.upgrading(ctx, cl)
	if err != nil || !upgrading {
		return nil, err
	}
	return r.checked(ctx, cl, cl.Spec.Spec.KubernetesVersion)
}

// checked looks at the cluster before a version; one that cannot be asked is in the way.
func (r *reconciler) checked(ctx context.Context, cl *Cluster, version string) (finding.List, error) {
	l, err := r.c.preCheck(ctx, r.told, cl, version, r.o.SkipChecks, r.o.Rollout.ReachOptions)
	if err != nil && ctx.Err() == nil {
		l, err = finding.List{unchecked(err, slices.Contains(r.o.SkipChecks, precheck.API))}, nil
	}
	if err == nil {
		err = r.told.tell(Event{Kind: EventChecked, Findings: l})
	}
	return l, err
}

// check refuses to begin what something is in the way of.
func (r *reconciler) check(ctx context.Context) error {
	cl, err := r.c.Clusters().Get(ctx, r.told.cluster)
	if err != nil {
		return err
	}
	l, err := r.look(ctx, cl)
	if err != nil {
		return err
	}
	return inTheWay(l)
}

// next takes the next hop, if there is one and nothing is in its way.
func (r *reconciler) next(ctx context.Context) (bool, error) {
	cl, err := r.c.Clusters().Get(ctx, r.told.cluster)
	if err != nil {
		return false, err
	}
	hops, err := r.c.following(ctx, cl)
	if err != nil {
		return false, err
	}
	if len(hops) == 0 {
		return false, r.c.store.DropUpgrade(ctx, r.told.cluster)
	}
	l, err := r.checked(ctx, cl, hops[0].Version)
	if err == nil {
		err = inTheWay(l)
	}
	if err != nil {
		return false, fmt.Errorf("before Kubernetes %s: %w", hops[0].Version, err)
	}
	_, err = r.c.takeHop(ctx, cl, hops[0])
	return true, err
}

// first are the roles that come before all others.
func first() []string { return []string{string(api.RoleControlPlane), string(api.RoleAPIServer)} }

func (r *reconciler) updating(s reconcile.Scope) UpdateOptions {
	o := UpdateOptions{Apply: r.o.Apply, Prune: s == reconcile.Pruned, AllowDowngrade: r.o.AllowDowngrade, AllowUnverified: r.o.AllowUnverified, On: r.o.On}
	if s == reconcile.ControlPlane {
		o.Roles = first()
	}
	return o
}

func (r *reconciler) update(ctx context.Context, s reconcile.Scope) error {
	_, err := r.c.Update(ctx, r.told.cluster, r.updating(s))
	return err
}

// roll replaces machines. A rollout that somebody else began before is finished first: it
// may be about others.
func (r *reconciler) roll(ctx context.Context, s reconcile.Scope) error {
	o := r.o.Rollout
	if s == reconcile.ControlPlane {
		o.Roles = first()
	}
	for {
		asked := r.c.cfg.World.Now()
		done, err := r.c.Rollout(ctx, r.told.cluster, o)
		if err != nil || done == nil || !done.Began.Before(asked) {
			return err
		}
	}
}

// stage tells of a stage.
func (r *reconciler) stage(ctx context.Context, s reconcile.Stage) error {
	cl, err := r.c.Clusters().Get(ctx, r.told.cluster)
	if err != nil {
		return err
	}
	return r.told.tell(Event{Kind: EventStage, Stage: &ReconcileStage{s.Number, s.Of, s.Name, cl.Spec.Spec.KubernetesVersion}})
}

// remember notes what is wrong with the control plane before anything is done. Of a
// cluster that has no keys yet nothing can be.
func (r *reconciler) remember(ctx context.Context, cl *Cluster) error {
	applied, err := r.c.applied(ctx, cl)
	if err != nil || !applied {
		return err
	}
	k, err := r.c.checkup(ctx, r.told, r.o.Rollout.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	w, err := k.Look(ctx)
	if err == nil && w.API.Problem == nil {
		r.before = ofControlPlane(w)
	}
	return err
}

// await waits until the control plane is as well as it was.
func (r *reconciler) await(ctx context.Context) error {
	k, err := r.c.checkup(ctx, r.told, r.o.Rollout.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	for until := r.c.cfg.World.Now().Add(awaited); ; {
		w, err := k.Look(ctx)
		if err != nil {
			return err
		}
		failures := slices.DeleteFunc(ofControlPlane(w), func(f health.Failure) bool { return slices.Contains(r.before, f) })
		if err := r.told.tell(Event{Kind: EventValidation, Validation: &Validation{Failures: failures, Nodes: []health.Node{}}}); err != nil || len(failures) == 0 {
			return err
		}
		if !r.c.cfg.World.Now().Before(until) {
			return fault.Wrap(fault.NotYet, fmt.Errorf("the control plane is not ready after %s: %s", awaited, failures[0]), "fix it, then continue: kops reconcile cluster "+r.told.cluster+" --yes")
		}
		if err := r.c.cfg.World.Sleep(ctx, validationInterval); err != nil {
			return err
		}
	}
}

// ofControlPlane are the failures of the API and of the groups before all others, but for those of pods.
func ofControlPlane(w health.World) []health.Failure {
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
