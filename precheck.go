package kops

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/versions"
)

// firstAnswer bounds how long pre-checks wait for an API server to answer at all.
const firstAnswer = 15 * time.Second

// beforeHop says what is in the way of a hop. A cluster that was never applied has nothing
// in the way, and of one that cannot be asked only that is known, which stops nothing here:
// the objects may be changed, and ReconcileCluster looks again.
func (c *Client) beforeHop(ctx context.Context, told *call, cl *Cluster, version string, o UpgradeOptions) (finding.List, error) {
	applied, err := c.applied(ctx, cl)
	if err != nil || !applied {
		return nil, err
	}
	l, err := c.preCheck(ctx, told, cl, version, o.SkipChecks, o.ReachOptions)
	if ctx.Err() == nil && err != nil {
		return finding.List{unchecked(err, true)}, nil
	}
	return l, err
}

// unchecked is the finding of a cluster that cannot be asked.
func unchecked(err error, warning bool) finding.Finding {
	return finding.Finding{Rule: precheck.API, Message: "the cluster cannot be asked whether it is fit for the upgrade: " + err.Error(), Remedy: fault.Remedy(err), Warning: warning}
}

// preCheck looks at a cluster that runs. The error says why it cannot be asked.
func (c *Client) preCheck(ctx context.Context, told *call, cl *Cluster, version string, skip []string, reach ReachOptions) (finding.List, error) {
	target, err := versions.ParseVersion(version)
	if err != nil {
		return nil, err
	}
	k, err := c.checkup(ctx, told, reach, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	first, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	w, err := k.Look(first)
	if err != nil {
		return nil, err
	}
	if p := w.API.Problem; p != nil {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("%s: %s", p.Name, p.Message), p.Remedy)
	}
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	in := precheck.Input{Target: target, Etcd: cl.Spec.Spec.EtcdClusters, Skip: skip}
	seen, err := precheck.Look(ctx, client, w.API, in)
	if err != nil {
		return nil, err
	}
	return precheck.Judge(in, seen), nil
}
