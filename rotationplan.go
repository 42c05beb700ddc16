package kops

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/rotate"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
)

// preview returns a preview of a rotation: with the machines that each step changes, and the
// pods that must be restarted by someone else. Anything that cannot be determined is
// omitted, without affecting the rest.
func (r *rotation) preview(ctx context.Context, names []string) *Rotation {
	out := r.public(names)
	if err := r.fillPreview(ctx, out); err != nil {
		out.Unknown = err.Error()
	}
	return out
}

func (r *rotation) fillPreview(ctx context.Context, out *Rotation) error {
	k, err := r.checkup(ctx)
	if err != nil {
		return err
	}
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return err
	}
	nodes, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	if k.Provider.Fleet.Machines == nil {
		return fmt.Errorf("%s cannot list its machines", k.Provider.Title)
	}
	shown, err := k.Machines(ctx)
	if err != nil {
		return err
	}
	touched := slices.DeleteFunc(slices.Clone(k.Cluster.Groups), func(g *api.InstanceGroup) bool { return !rotate.IsAffected(g, out.Keysets) })
	machines := machinesReplaced(shown, nodes.Items, touched, k.Provider.Fleet.Roll.InPlace)
	each := summarize(machines, k.Cluster.Spec, touched, k.Provider.Fleet.Roll)
	for i, s := range out.Steps {
		if s.Moves && !s.Done {
			out.Steps[i].Restarts, out.Steps[i].Replaces, out.Steps[i].Minutes = each.Restarts, each.Replaces, each.Minutes
		}
	}
	if !slices.ContainsFunc(out.Steps, func(s RotationStep) bool {
		return !s.Done && (s.Name == string(rotate.Pods) || s.Name == string(rotate.Tokens))
	}) {
		return nil
	}
	_, out.Left, err = rotate.FindRestarts(ctx, client, r.c.cfg.World.Now())
	return err
}

// machinesReplaced returns the machines of some groups, and how a step changes each: in place if
// its node reports what it runs, because the machine then manages its node, or if nothing replaces
// it.
func machinesReplaced(shown []platform.MachineGroup, nodes []corev1.Node, groups []*api.InstanceGroup, inPlace bool) []stale.Machine {
	var out []stale.Machine
	for _, of := range shown {
		for _, m := range of.Machines {
			if !slices.ContainsFunc(groups, func(g *api.InstanceGroup) bool { return g.Name == m.Group }) {
				continue
			}
			j := stale.Machine{Machine: m, Effect: stale.Replace}
			if inPlace {
				j.Effect = stale.Restart
			}
			if n := health.NodeOf(m, nodes); n != nil {
				if _, tells, err := labels.Read[labels.Running](n.Annotations, labels.NodeConfig); tells && err == nil {
					j.Effect = stale.Restart
				}
			}
			out = append(out, j)
		}
	}
	return out
}
