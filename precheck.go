package kops

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/precheck"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
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
	return finding.Finding{Rule: precheck.API, Message: "the cluster could not be checked for the upgrade: " + err.Error(), Remedy: fault.Remedy(err), Warning: warning}
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
	if in.Rollout, err = c.unfinished(ctx, cl.Spec.Name); err != nil {
		return nil, err
	}
	if in.Room, err = shortages(ctx, k.Opened, surges(k.Opened, w.Machines)); err != nil {
		return nil, err
	}
	seen, err := precheck.Look(ctx, client, w.API, in)
	if err != nil {
		return nil, err
	}
	return precheck.Judge(in, seen), nil
}

// unfinished says that a rollout was begun and not ended, or "".
func (c *Client) unfinished(ctx context.Context, cluster string) (string, error) {
	s, _, err := c.storedRollout(ctx, cluster)
	if err != nil || s == nil || !s.Ended.IsZero() {
		return "", err
	}
	done, all := rolloutOf(s).Done()
	return fmt.Sprintf("a rollout that began at %s is not finished: %d of %d machines are done", s.Began.Format(time.RFC3339), done, all), nil
}

// surges are how many machines a roll of all groups adds to each at once, by its name.
func surges(o *pipeline.Opened, machines []platform.MachineGroup) map[string]int {
	out := map[string]int{}
	for _, g := range o.Cluster.Groups {
		count := 0
		for _, m := range machines {
			if m.Name == g.Name {
				count = len(m.Machines)
			}
		}
		surge, _ := budgetOf(o.Provider.Roll, o.Cluster.Spec, g, count)
		out[g.Name] = min(surge, count)
	}
	return out
}

// shortages are the groups that lack room for the machines that a rollout adds to them at
// once, where the platform can tell.
func shortages(ctx context.Context, o *pipeline.Opened, adds map[string]int) ([]precheck.Shortage, error) {
	var asked []*api.InstanceGroup
	for _, g := range o.Cluster.Groups {
		if adds[g.Name] > 0 {
			asked = append(asked, g)
		}
	}
	if o.Provider.Room == nil || len(asked) == 0 {
		return nil, nil
	}
	all, err := o.Provider.Room(ctx, o.Session, o.Cluster.Spec, asked)
	if err != nil {
		return nil, err
	}
	var out []precheck.Shortage
	for _, r := range all {
		if add := adds[r.Group]; r.Machines < add {
			out = append(out, precheck.Shortage{Group: r.Group, None: r.Machines == 0, Remedy: r.Remedy + "; or roll without surge machines: spec.rollingUpdate.maxSurge 0",
				Message: fmt.Sprintf("a rolling update needs %d more at a time, but there is capacity for %d: %s", add, r.Machines, r.Why)})
		}
	}
	return out, nil
}
