package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store"
)

// runningTime limits how long an update waits to find out which version the control plane runs.
const runningTime = 10 * time.Second

// findRunning finds out which version of Kubernetes the control plane runs, if workers are about to
// get another one: a kubelet must not be newer than the API server. If the control plane does not
// respond, the result is a warning, and the spec's version is used.
func (o *Opened) findRunning(ctx context.Context, authority *pki.Keyset) (string, diag.List, error) {
	limited, cancel := context.WithTimeout(ctx, runningTime)
	defer cancel()
	running, err := o.queryRunning(limited, authority)
	if ctx.Err() != nil {
		return "", nil, ctx.Err()
	}
	if err != nil {
		return "", diag.List{{
			Object: api.KindCluster + "/" + o.Cluster.Spec.Name, Path: "spec.kubernetesVersion", Value: o.Cluster.Spec.Spec.KubernetesVersion,
			Rule: "running-version", Warning: true, Message: "the control plane's version could not be read, so new workers may get a newer version: " + err.Error(),
			Remedy: "replace the control plane's machines before the workers",
		}}, nil
	}
	return running, nil, nil
}

// areWorkersUpgrading reports whether workers were last configured for another version of
// Kubernetes than the spec's. All get a version together, so the first one suffices.
func (o *Opened) areWorkersUpgrading(ctx context.Context) (bool, error) {
	listing, err := o.Places.Base.Listing(ctx)
	if err != nil {
		return false, err
	}
	for _, g := range o.Cluster.Groups {
		key := layout.NodeConfig(string(g.Spec.Role), g.Name)
		if g.Spec.Role != api.RoleNode || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == key }) {
			continue
		}
		data, _, err := o.Places.Base.Store.Get(ctx, key)
		if err != nil {
			return false, fmt.Errorf("read the version of the workers %s: %w", g.Name, err)
		}
		var last struct{ KubernetesVersion string }
		if err := yaml.Unmarshal(data, &last); err != nil {
			return false, fmt.Errorf("read the version of the workers %s: %w", g.Name, err)
		}
		return last.KubernetesVersion != strings.TrimPrefix(o.Cluster.Spec.Spec.KubernetesVersion, "v"), nil
	}
	return false, nil
}

// queryRunning returns the oldest kubelet version of the control plane.
func (o *Opened) queryRunning(ctx context.Context, authority *pki.Keyset) (string, error) {
	k := &Checkup{Opened: o, authority: authority, life: CheckupLife}
	problem, err := k.open(ctx)
	var seen health.Observation
	if err == nil && problem == nil {
		seen, err = k.api.Observe(ctx)
		problem = seen.Problem
	}
	switch {
	case problem != nil: // it is more informative than the timeout
		return "", errors.New(problem.Text())
	case err != nil:
		return "", err
	}
	var oldest *semver.Version
	for _, n := range seen.Nodes {
		if !health.IsControlPlane(&n) {
			continue
		}
		v, err := versions.ParseVersion(n.Status.NodeInfo.KubeletVersion)
		if err == nil && (oldest == nil || v.LT(*oldest)) {
			oldest = &v
		}
	}
	if oldest == nil {
		return "", errors.New("the control plane has no nodes")
	}
	return oldest.String(), nil
}
