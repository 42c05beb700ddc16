package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store/clusterstore"
)

// DiagnoseOptions say what a diagnosis looks at.
type DiagnoseOptions struct {
	ReachOptions
	// Machine limits it to one machine or node, of that name.
	Machine string
	// Lines is how many lines of a console or a log are kept; 0 means 20.
	Lines int
	// On receives the events of the diagnosis.
	On On
}

// mostDiagnosed is how many machines a diagnosis asks for the account of their
// start, those in trouble first, and mostLogs from how many pods it reads logs.
const (
	mostDiagnosed = 50
	mostLogs      = 20
)

// Diagnose checks a cluster once, and collects the boot reports of its machines and the ends
// of the logs of critical pods that do not run. Problems of the cluster are in the result and
// not an error.
func (c *Client) Diagnose(ctx context.Context, name string, o DiagnoseOptions) (*Diagnosis, error) {
	k, err := c.checkup(ctx, &call{cluster: name, on: o.On}, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	w, err := k.Look(ctx)
	if err != nil {
		return nil, err
	}
	return c.diagnose(ctx, k, w, o)
}

// diagnose collects it of a cluster that was looked at.
func (c *Client) diagnose(ctx context.Context, k *pipeline.Checkup, w health.World, o DiagnoseOptions) (*Diagnosis, error) {
	if o.Lines <= 0 {
		o.Lines = 20
	}
	wanting := health.Wanting(w)
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			if !slices.ContainsFunc(wanting, func(x platform.Machine) bool { return x.Name == m.Name }) {
				wanting = append(wanting, m)
			}
		}
	}
	if o.Machine != "" {
		var err error
		if wanting, err = only(wanting, o.Machine, w.Cluster); err != nil {
			return nil, err
		}
	}
	w.Starts = k.Starts(ctx, wanting, mostDiagnosed)
	w.Rolling = c.rolling(ctx, w.Cluster)
	d := health.Diagnose(w, o.Lines)
	_, err := k.Places.Keysets(ctx)
	d.Failures = append(d.Failures, keyTrouble(err)...)
	judged, err := k.Stale(ctx, w, pipeline.StaleOptions{})
	if err != nil {
		d.Failures = append(d.Failures, health.Failure{Kind: health.KindMachine, Name: w.Cluster, Message: "cannot tell which machines are stale: " + err.Error(), Remedy: fault.Remedy(err)})
	}
	for i := range d.Machines {
		staleness(&d.Machines[i], judged)
	}
	d.Failures = append(d.Failures, c.refusals(ctx, newCluster(k.Cluster))...)
	d.Failures = append(d.Failures, c.etcdTrouble(ctx, newCluster(k.Cluster), roomy)...)
	if o.Machine != "" {
		health.Limit(d, wanting[0])
	}
	for i := range d.Pods[:min(len(d.Pods), mostLogs)] {
		p := &d.Pods[i]
		at := slices.IndexFunc(w.API.Pods, func(x corev1.Pod) bool { return x.Namespace == p.Namespace && x.Name == p.Name })
		k.Logs(ctx, &w.API.Pods[at], p, o.Lines)
	}
	return d, ctx.Err()
}

// keyTrouble returns a failure for a damaged keyset. A keyset that kops cannot read, for lack of
// permission or for now, or whose key is kept elsewhere, is not a failure: a kubeconfig suffices.
func keyTrouble(err error) []health.Failure {
	var broken *clusterstore.BrokenError
	if !errors.As(err, &broken) || errors.Is(err, pki.ErrNoKey) {
		return nil
	}
	return []health.Failure{{Kind: status.KindKeyset, Name: broken.Name, Message: fmt.Sprintf("its file %s cannot be read: %v", broken.URL, broken.Err), Remedy: fault.Remedy(err)}}
}

// rolling are the machines that a rolling update is changing, by name, and how far it is. A
// rollout that cannot be read explains nothing.
func (c *Client) rolling(ctx context.Context, cluster string) map[string]string {
	s, _, err := c.storedRollout(ctx, cluster)
	if err != nil || s == nil || !s.Ended.IsZero() {
		return nil
	}
	out := map[string]string{}
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			if !slices.Contains([]roll.Phase{roll.Pending, roll.Done, roll.Kept}, m.Phase) {
				out[m.Name] = string(m.Phase)
			}
		}
	}
	return out
}

// staleness adds to a machine in what it is not what the spec says.
func staleness(m *status.Machine, judged []stale.Machine) {
	for _, j := range judged {
		if j.Name == m.Name && j.Stale() {
			m.Effect, m.Reasons = status.Effect(j.Effect.String()), reasons(j.Reasons)
		}
	}
}

// only returns the machine of a name, or of a node's name.
func only(machines []platform.Machine, name, cluster string) ([]platform.Machine, error) {
	var known []string
	for _, m := range machines {
		if m.Name == name || m.Node == name {
			return []platform.Machine{m}, nil
		}
		known = append(known, m.Name)
	}
	err := fmt.Errorf("cluster %s has no machine %s", cluster, name)
	if near := diag.Nearest(name, known); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return nil, fault.Wrap(fault.Gone, err, "")
}
