package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/upgrade"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store/clusterstore"
)

// RollBackOptions say how an upgrade is taken back.
type RollBackOptions struct {
	// Apply puts the objects back; otherwise it is only said what would change.
	Apply bool
	ReachOptions
	// On is told of it.
	On On
}

// RollBack is what taking back an upgrade means.
type RollBack struct {
	// Revision is the number of the change whose objects are put back.
	Revision int    `json:"revision"`
	From     string `json:"from"`
	To       string `json:"to"`
	// Changes are the fields that change, by their paths in v1alpha2. An etcd cluster that may
	// run a newer version already keeps it, as etcd knows no way back.
	Changes []UpgradeChange `json:"changes"`
	// Warnings are what most likely is wrong with the objects that come of it.
	Warnings finding.List `json:"warnings,omitempty"`
}

// RollBackUpgrade puts back the objects as they were before the last upgrade, as long as no
// machine of the control plane has taken it up: API servers of a later minor version may
// have written what those before cannot read. The error is then Refused. Groups that are
// newer stay; an upgrade of several hops is given up.
func (c *Client) RollBackUpgrade(ctx context.Context, name string, o RollBackOptions) (*RollBack, error) {
	told := &call{cluster: name, on: o.On}
	cl, err := c.loaded(ctx, told)
	if err != nil {
		return nil, err
	}
	before, begun, err := c.beforeUpgrade(ctx, cl)
	if err != nil {
		return nil, err
	}
	if begun {
		if err := c.notMoved(ctx, told, cl, before, o.ReachOptions); err != nil {
			return nil, err
		}
		keepEtcd(cl.Spec, before.cluster)
	}
	ch := &change{was: cl, now: cl.stored().Clone()}
	for _, obj := range before.objects {
		if _, err := ch.put(obj, true); err != nil {
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
	if err := c.store.DropUpgrade(ctx, name); err != nil {
		return r, err
	}
	w, err := c.keep(ctx, ch, ch.now.Spec)
	r.Warnings = w.Warnings
	return r, err
}

// revisionObjects are the objects of a change that was applied.
type revisionObjects struct {
	number  int
	cluster *api.Cluster
	objects []api.Object
}

// beforeUpgrade finds the newest change with an older version of Kubernetes, and whether
// one with the version of now was begun to be applied.
func (c *Client) beforeUpgrade(ctx context.Context, cl *Cluster) (before revisionObjects, begun bool, err error) {
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil {
		return before, false, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	numbers, err := c.store.Revisions(ctx, cl.Spec.Name)
	if err != nil {
		return before, false, err
	}
	for _, n := range numbers { // the newest first
		r, err := c.store.Revision(ctx, cl.Spec.Name, n)
		if err != nil {
			return before, false, err
		}
		of, err := objectsOf(r)
		if err != nil {
			return before, false, err
		}
		if of.cluster == nil {
			continue // of a deletion
		}
		v, err := versions.ParseVersion(of.cluster.Spec.KubernetesVersion)
		if err == nil && v.LT(now) {
			return of, begun, nil
		}
		begun = true
	}
	return before, begun, fault.Wrap(fault.Gone, errors.New("no change that was applied to the cluster had an older version of Kubernetes"), "set what is to change by kops edit cluster")
}

// objectsOf reads the objects of a revision.
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

// notMoved refuses where a machine of the control plane has taken up the upgrade, or
// may have. The way back within a minor version is always free.
func (c *Client) notMoved(ctx context.Context, told *call, cl *Cluster, before revisionObjects, reach ReachOptions) error {
	was, err := versions.ParseVersion(before.cluster.Spec.KubernetesVersion)
	if err != nil {
		return err
	}
	now, err := versions.ParseVersion(cl.Spec.Spec.KubernetesVersion)
	if err != nil || was.Minor == now.Minor && was.Major == now.Major {
		return err
	}
	k, err := c.checkup(ctx, told, reach, pipeline.CheckupLife)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	w, err := k.Look(limited)
	if err == nil && w.API.Problem != nil {
		err = fmt.Errorf("%s: %s", w.API.Problem.Name, w.API.Problem.Message)
	}
	if err != nil {
		return &Refused{fault.Wrap(fault.NotYet, fmt.Errorf("it cannot be seen whether the control plane runs %s already: %w", now, err), "say how its API is reached: option:Server, or option:UseKubeconfig")}
	}
	for _, n := range w.API.Nodes {
		v, err := versions.ParseVersion(n.Status.NodeInfo.KubeletVersion)
		if health.IsControlPlane(&n) && err == nil && versions.AtLeast(v, now.Major, now.Minor) {
			return &Refused{fault.Wrap(fault.Permanent, fmt.Errorf("it is too late to go back to %s: %s of the control plane runs %s, whose API server may have written what %d.%d cannot read", was, n.Name, v, was.Major, was.Minor),
				"go on: kops reconcile cluster --yes; or restore a back-up of etcd from before: kops etcd list")}
		}
	}
	return nil
}

// keepEtcd has etcd clusters keep the version that their managers may have taken up by now.
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
