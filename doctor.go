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

// DiagnoseOptions configure a diagnosis.
type DiagnoseOptions struct {
	ReachOptions
	// Machine limits it to the machine or node with that name.
	Machine string
	// Lines is how many lines of a console or a log are kept; 0 means 20.
	Lines int
	// On receives the events of the diagnosis.
	On On
}

// maxDiagnosed is the maximum number of machines whose boot report a diagnosis
// requests, those in trouble first, and maxLogs of pods whose logs it reads.
const (
	maxDiagnosed = 50
	maxLogs      = 20
)

// Diagnose checks a cluster once, and collects the boot reports of its machines and the ends
// of the logs of critical pods that do not run. Problems of the cluster are in the result and
// not an error.
func (c *Client) Diagnose(ctx context.Context, name string, o DiagnoseOptions) (*Diagnosis, error) {
	k, err := c.checkup(ctx, &reporter{cluster: name, on: o.On}, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	w, err := k.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return c.diagnose(ctx, k, w, o)
}

// diagnose collects the diagnosis of a cluster that has been checked.
func (c *Client) diagnose(ctx context.Context, k *pipeline.Checkup, w health.World, o DiagnoseOptions) (*Diagnosis, error) {
	if o.Lines <= 0 {
		o.Lines = 20
	}
	wanting := health.MachinesInTrouble(w)
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			if !slices.ContainsFunc(wanting, func(x platform.Machine) bool { return x.Name == m.Name }) {
				wanting = append(wanting, m)
			}
		}
	}
	if o.Machine != "" {
		var err error
		if wanting, err = onlyMachine(wanting, o.Machine, w.Cluster); err != nil {
			return nil, err
		}
	}
	w.Starts = k.Starts(ctx, wanting, maxDiagnosed)
	if k.Provider.Fleet.BootRecord == nil {
		for _, m := range wanting {
			w.Starts[m.Name] = health.Unrecorded(k.Provider.Title)
		}
	}
	w.Rolling = c.rollingMachines(ctx, w.Cluster)
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
	for i := range d.Pods[:min(len(d.Pods), maxLogs)] {
		p := &d.Pods[i]
		at := slices.IndexFunc(w.API.Pods, func(x corev1.Pod) bool { return x.Namespace == p.Namespace && x.Name == p.Name })
		k.Logs(ctx, &w.API.Pods[at], p, o.Lines)
	}
	return d, ctx.Err()
}

// keyTrouble returns a failure for a damaged keyset. A keyset that kops cannot read for lack of
// permission or temporarily, or whose key is kept elsewhere, is not a failure: a kubeconfig is sufficient.
func keyTrouble(err error) []health.Failure {
	var broken *clusterstore.BrokenError
	if !errors.As(err, &broken) || errors.Is(err, pki.ErrNoKey) {
		return nil
	}
	return []health.Failure{{Kind: status.KindKeyset, Name: broken.Name, Message: fmt.Sprintf("its file %s cannot be read: %v", broken.URL, broken.Err), Remedy: fault.Remedy(err)}}
}

// rollingMachines returns the progress of the machines that a rolling update is changing, by name. A
// rollout that cannot be read is ignored.
func (c *Client) rollingMachines(ctx context.Context, cluster string) map[string]string {
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

// staleness adds to a machine how it differs from the spec.
func staleness(m *status.Machine, judged []stale.Machine) {
	for _, j := range judged {
		if j.Name == m.Name && j.Stale() {
			m.Effect, m.Reasons = status.Effect(j.Effect.String()), publicReasons(j.Reasons)
		}
	}
}

// onlyMachine returns the machine with a name, or with a node's name.
func onlyMachine(machines []platform.Machine, name, cluster string) ([]platform.Machine, error) {
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
