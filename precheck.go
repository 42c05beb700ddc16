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

// firstAnswer is how long pre-checks wait for an API server to answer at all.
const firstAnswer = 15 * time.Second

// checkHop returns what prevents a hop. Nothing prevents a hop of a cluster that was never applied,
// and for a cluster that cannot be queried there is only a warning, which does not stop it here:
// the objects may be changed, and ReconcileCluster checks again.
func (c *Client) checkHop(ctx context.Context, progress *reporter, cl *Cluster, version string, o UpgradeOptions) (finding.List, error) {
	applied, err := c.wasApplied(ctx, cl)
	if err != nil || !applied {
		return nil, err
	}
	l, err := c.preCheck(ctx, progress, cl, version, o.SkipChecks, o.ReachOptions)
	if ctx.Err() == nil && err != nil {
		return finding.List{uncheckedFinding(err, true)}, nil
	}
	return l, err
}

// uncheckedFinding returns the finding for a cluster that cannot be queried.
func uncheckedFinding(err error, warning bool) finding.Finding {
	return finding.Finding{Rule: precheck.API, Message: "the cluster could not be checked for the upgrade: " + err.Error(), Remedy: fault.Remedy(err), Warning: warning}
}

// preCheck checks a running cluster. An error is the reason why it cannot be queried.
func (c *Client) preCheck(ctx context.Context, progress *reporter, cl *Cluster, version string, skip []string, reach ReachOptions) (finding.List, error) {
	target, err := versions.ParseVersion(version)
	if err != nil {
		return nil, err
	}
	k, err := c.checkup(ctx, progress, reach, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	first, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	w, err := k.Observe(first)
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
	if in.Rollout, err = c.unfinishedRollout(ctx, cl.Spec.Name); err != nil {
		return nil, err
	}
	if in.Room, err = shortages(ctx, k.Opened, surges(k.Opened, w.Machines)); err != nil {
		return nil, err
	}
	seen, err := precheck.Observe(ctx, client, w.API, in)
	if err != nil {
		return nil, err
	}
	return precheck.Judge(in, seen), nil
}

// unfinishedRollout describes a rollout that was begun but not finished, or returns "".
func (c *Client) unfinishedRollout(ctx context.Context, cluster string) (string, error) {
	s, _, err := c.storedRollout(ctx, cluster)
	if err != nil || s == nil || !s.Ended.IsZero() {
		return "", err
	}
	done, all := rolloutOf(s).Done()
	return fmt.Sprintf("a rollout that began at %s is not finished: %d of %d machines are done", s.Began.Format(time.RFC3339), done, all), nil
}

// surges returns how many machines a roll of all groups adds to each at once, by group name.
func surges(o *pipeline.Opened, machines []platform.MachineGroup) map[string]int {
	out := map[string]int{}
	for _, g := range o.Cluster.Groups {
		count := 0
		for _, m := range machines {
			if m.Name == g.Name {
				count = len(m.Machines)
			}
		}
		surge, _ := budgetOf(o.Provider.Fleet.Roll, o.Cluster.Spec, g, count)
		out[g.Name] = min(surge, count)
	}
	return out
}

// shortages returns the groups without room for the machines that a rollout adds to them at
// once, if the platform knows.
func shortages(ctx context.Context, o *pipeline.Opened, adds map[string]int) ([]precheck.Shortage, error) {
	var asked []*api.InstanceGroup
	for _, g := range o.Cluster.Groups {
		if adds[g.Name] > 0 {
			asked = append(asked, g)
		}
	}
	if o.Provider.Fleet.Room == nil || len(asked) == 0 {
		return nil, nil
	}
	all, err := o.Provider.Fleet.Room(ctx, o.Session, o.Cluster.Spec, asked)
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
