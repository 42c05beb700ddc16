package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/effects"
	"kops.local/kops/internal/spec/upgrade"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store/clusterstore"
)

// RollBackOptions configure how an upgrade is rolled back.
type RollBackOptions struct {
	// Apply restores the objects; otherwise the changes are only returned.
	Apply bool
	// Revision is the number of the change whose objects are restored; 0 means the newest with an
	// older version of Kubernetes.
	Revision int
	ReachOptions
	// On receives the events of the call.
	On On
}

// RollBack is the effect of rolling back an upgrade.
type RollBack struct {
	// Revision is the number of the change whose objects are restored.
	Revision int    `json:"revision"`
	From     string `json:"from"`
	To       string `json:"to"`
	// Changes are the changed fields, by their paths in v1alpha2. An etcd cluster that may already
	// run a newer version keeps it, because etcd does not support downgrades.
	Changes []UpgradeChange `json:"changes"`
	// Warnings are probable problems of the resulting objects.
	Warnings finding.List `json:"warnings,omitempty"`
}

// RollBackUpgrade restores the objects as they were before the last upgrade, or at another
// change, unless a machine of the control plane already runs the later minor version: its
// API server may have written data that older ones cannot read. The error is then Refused.
// Newer groups are kept; an upgrade of several hops is abandoned together with its version.
func (c *Client) RollBackUpgrade(ctx context.Context, name string, o RollBackOptions) (*RollBack, error) {
	progress := &reporter{cluster: name, on: o.On}
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, err
	}
	find := c.revisionBeforeUpgrade
	if o.Revision != 0 {
		find = func(ctx context.Context, cl *Cluster) (revisionObjects, bool, error) {
			r, err := c.objectsAt(ctx, cl, o.Revision)
			return r, true, err
		}
	}
	before, begun, err := find(ctx, cl)
	if err != nil {
		return nil, err
	}
	if begun {
		if err := c.checkNotUpgraded(ctx, progress, cl, before, o.ReachOptions); err != nil {
			return nil, err
		}
		keepEtcd(cl.Spec, before.cluster)
	}
	ch := &change{stored: cl, now: cl.stored().Clone()}
	for _, obj := range before.objects {
		if _, err := ch.apply(obj, true); err != nil {
			return nil, err
		}
	}
	now := newCluster(ch.now)
	changes, err := upgrade.Differences(cl.Objects(), now.Objects())
	if err != nil {
		return nil, err
	}
	r := &RollBack{Revision: before.number, From: cl.Spec.Spec.KubernetesVersion, To: before.cluster.Spec.KubernetesVersion, Changes: []UpgradeChange{}}
	for _, c := range changes {
		r.Changes = append(r.Changes, UpgradeChange(c))
	}
	if !o.Apply {
		return r, nil
	}
	if r.From != r.To {
		if err := c.store.DropUpgrade(ctx, name); err != nil {
			return r, err
		}
	}
	w, err := c.keep(ctx, ch, ch.now.Spec)
	r.Warnings = w.Warnings
	return r, err
}

// revisionObjects are the objects of an applied change.
type revisionObjects struct {
	number  int
	cluster *api.Cluster
	objects []api.Object
}

// revisionBeforeUpgrade finds the newest revision with an older version of Kubernetes, and reports
// whether the last apply, or attempt, already had the current version.
func (c *Client) revisionBeforeUpgrade(ctx context.Context, cl *Cluster) (before revisionObjects, begun bool, err error) {
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil {
		return before, false, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	numbers, err := c.store.Revisions(ctx, cl.Spec.Name)
	if err != nil {
		return before, false, err
	}
	found, tried := false, false
	for _, n := range numbers { // newest first
		r, err := c.store.Revision(ctx, cl.Spec.Name, n)
		if err != nil {
			return before, false, err
		}
		of, err := objectsOf(r)
		if err != nil {
			return before, false, err
		}
		if of.cluster == nil {
			continue // it contains no objects
		}
		v, err := versions.ParseVersion(of.cluster.Spec.KubernetesVersion)
		older := err == nil && v.LT(now)
		if !found && older {
			found, before = true, of
		}
		if !tried && r.Plan != "" {
			tried, begun = true, !older
		}
		if found && tried {
			return before, begun, nil
		}
	}
	if !found {
		err = fault.Wrap(fault.Gone, errors.New("no revision of the cluster has an older version of Kubernetes"), "change the cluster with kops edit cluster")
	}
	return before, begun, err
}

// isUpgrading reports whether the objects have a later version of Kubernetes than the last apply,
// or attempt. If nothing was ever applied, there is nothing to upgrade.
func (c *Client) isUpgrading(ctx context.Context, cl *Cluster) (bool, error) {
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil {
		return false, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	numbers, err := c.store.Revisions(ctx, cl.Spec.Name)
	if err != nil {
		return false, err
	}
	for _, n := range numbers { // newest first
		r, err := c.store.Revision(ctx, cl.Spec.Name, n)
		if err != nil {
			return false, err
		}
		if r.Plan == "" {
			continue
		}
		of, err := objectsOf(r)
		if err != nil || of.cluster == nil {
			return false, err
		}
		v, err := versions.ParseVersion(of.cluster.Spec.KubernetesVersion)
		return err == nil && v.LT(now), nil
	}
	return false, nil
}

// objectsAt reads the objects of a change, whose version of Kubernetes must not be newer
// than the cluster's.
func (c *Client) objectsAt(ctx context.Context, cl *Cluster, n int) (out revisionObjects, err error) {
	r, err := c.revisionAt(ctx, cl.Spec.Name, n)
	if err != nil {
		return out, err
	}
	if out, err = objectsOf(r); err != nil {
		return out, err
	}
	if out.cluster == nil {
		return out, fault.New(fault.Permanent, "revision %d contains no objects to restore", n)
	}
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil {
		return out, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	was, err := versions.ParseVersion(out.cluster.Spec.KubernetesVersion)
	if err == nil && was.GT(now) {
		err = fault.Wrap(fault.Permanent, fmt.Errorf("revision %d has Kubernetes %s, which is newer than %s", n, was, now), "kops upgrade cluster "+cl.Spec.Name+" --to "+was.String())
	}
	return out, err
}

// maxRevisions is how many of the newest revisions are searched for one to go back to.
const maxRevisions = 20

// history is the list of applied changes, newest first. Each is read once.
type history struct {
	c       *Client
	cluster string
	unread  []int // numbers of the changes that have not been read
	tries   int   // how many more are searched
	read    []revisionObjects
	effects effects.Table
}

func (c *Client) history(ctx context.Context, cluster string, t effects.Table) (*history, error) {
	numbers, err := c.store.Revisions(ctx, cluster)
	return &history{c: c, cluster: cluster, unread: numbers, tries: maxRevisions, effects: t}, err
}

// changeAt returns the change at an index; false if there is none.
func (h *history) changeAt(ctx context.Context, i int) (revisionObjects, bool, error) {
	for i >= len(h.read) && h.tries > 0 {
		h.tries--
		r, older, err := h.c.store.LastApplied(ctx, h.cluster, h.unread)
		if err != nil || r == nil {
			return revisionObjects{}, false, err
		}
		h.unread = older
		of, err := objectsOf(*r)
		if err != nil {
			return revisionObjects{}, false, err
		}
		h.read = append(h.read, of)
	}
	if i >= len(h.read) {
		return revisionObjects{}, false, nil
	}
	return h.read[i], true, nil
}

// revisionFor returns the newest change before the change of a field that is among the reasons why
// machines of a group are rolled; 0 if no such change is kept, or if the control plane has progressed too
// far to go back to it.
func (h *history) revisionFor(ctx context.Context, cl *clusterstore.Contents, g *api.InstanceGroup, machines []stale.Machine) (int, error) {
	for i := 0; ; i++ {
		of, there, err := h.changeAt(ctx, i)
		if err != nil || !there {
			return 0, err
		}
		was := of.group(g.Name)
		if of.cluster == nil || was == nil {
			return 0, nil // the group did not exist before
		}
		ofCluster, err := stale.Changes(h.effects, of.cluster.Spec, cl.Spec.Spec)
		if err != nil {
			return 0, err
		}
		ofGroup, err := stale.Changes(h.effects, was.Spec, g.Spec)
		if err != nil {
			return 0, err
		}
		if !isReasonFor(append(ofCluster, ofGroup...), machines) {
			continue
		}
		if roll.StageOf(g.Spec.Role) > roll.ControlPlanes && minorOf(of.cluster) != minorOf(cl.Spec) {
			return 0, nil
		}
		return of.number, nil
	}
}

// isReasonFor reports whether one of the changes is a reason why a machine is stale.
func isReasonFor(changes []platform.Change, machines []stale.Machine) bool {
	within := func(a, b string) bool { return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(a, b+"[") }
	for _, m := range machines {
		for _, r := range m.Reasons {
			if r.Effect >= stale.Restart && slices.ContainsFunc(changes, func(c platform.Change) bool { return within(c.Field, r.Field) || within(r.Field, c.Field) }) {
				return true
			}
		}
	}
	return false
}

// minorOf returns a cluster's Kubernetes version without the patch version.
func minorOf(c *api.Cluster) string {
	v, err := versions.ParseVersion(c.Spec.KubernetesVersion)
	if err != nil {
		return c.Spec.KubernetesVersion
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// group returns the group with a name; nil if it does not exist.
func (r *revisionObjects) group(name string) *api.InstanceGroup {
	for _, o := range r.objects {
		if g, ok := o.(*api.InstanceGroup); ok && g.Name == name {
			return g
		}
	}
	return nil
}

// objectsOf parses the objects of a revision.
func objectsOf(r clusterstore.Revision) (out revisionObjects, err error) {
	out.number = r.Number
	if out.objects, _, err = compat.Decode([]byte(r.Spec), compat.Options{Lenient: true}); err != nil {
		return out, fmt.Errorf("read revision %d: %w", r.Number, err)
	}
	for _, o := range out.objects {
		if x, ok := o.(*api.Cluster); ok {
			out.cluster = x
		}
	}
	return out, nil
}

// checkNotUpgraded refuses if a machine of the control plane runs the upgraded version, or
// may. A downgrade within a minor version is always allowed.
func (c *Client) checkNotUpgraded(ctx context.Context, progress *reporter, cl *Cluster, before revisionObjects, reach ReachOptions) error {
	was, err := versions.ParseVersion(before.cluster.Spec.KubernetesVersion)
	if err != nil {
		return err
	}
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil || was.Minor == now.Minor && was.Major == now.Major {
		return err
	}
	k, err := c.checkup(ctx, progress, reach, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	w, err := k.Observe(limited)
	if err == nil && w.API.Problem != nil {
		err = fmt.Errorf("%s: %s", w.API.Problem.Name, w.API.Problem.Message)
	}
	if err != nil {
		return &Refused{fault.Wrap(fault.NotYet, fmt.Errorf("cannot check whether the control plane already runs %s: %w", now, err), "specify how to reach its API: option:Server, or option:UseKubeconfig")}
	}
	for _, n := range w.API.Nodes {
		v, err := versions.ParseVersion(n.Status.NodeInfo.KubeletVersion)
		if health.IsControlPlane(&n) && err == nil && versions.AtLeast(v, now.Major, now.Minor) {
			return &Refused{fault.Wrap(fault.Permanent, fmt.Errorf("it is too late to go back to %s: %s of the control plane runs %s, and its API server may have written data that %d.%d cannot read", was, n.Name, v, was.Major, was.Minor),
				"to continue: kops reconcile cluster --yes; or restore an earlier backup of etcd: kops etcd list")}
		}
	}
	return nil
}

// keepEtcd makes etcd clusters keep the version that their managers may already run.
func keepEtcd(now, before *api.Cluster) {
	is, err := versions.ParseVersion(now.Spec.KubernetesVersion)
	was, werr := versions.ParseVersion(before.Spec.KubernetesVersion)
	if err != nil || werr != nil || complete.EtcdVersion(is) == complete.EtcdVersion(was) {
		return
	}
	for i := range before.Spec.EtcdClusters {
		e := &before.Spec.EtcdClusters[i]
		same := func(o api.EtcdClusterSpec) bool { return o.Name == e.Name && o.Version == "" }
		if e.Version == "" && e.Image == "" && slices.ContainsFunc(now.Spec.EtcdClusters, same) {
			e.Version = complete.EtcdVersion(is)
		}
	}
}
