package complete

import (
	"maps"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
)

// Taints that mark nodes for a purpose.
const (
	noSchedule     = "=:NoSchedule"
	taintKarpenter = "karpenter.sh/unregistered=:NoExecute"
)

// roleLabels returns the labels of a role; their values are empty.
func (p *Pass) roleLabels(role api.InstanceGroupRole) []string {
	switch role {
	case api.RoleControlPlane:
		out := []string{labels.ControlPlane, labels.Controller, labels.NoLoadBalancer}
		if p.input.Features["APIServerNodes"] {
			out = append(out, labels.APIServer)
		}
		return out
	case api.RoleAPIServer:
		return []string{labels.APIServer}
	case api.RoleNode:
		return []string{labels.Node}
	default:
		return nil
	}
}

// setNodeLabels puts all labels with which nodes register into the kubelet's configuration; the
// group's own take precedence.
func setNodeLabels(p *Pass, g *api.InstanceGroup) {
	all := map[string]string{}
	for _, l := range p.roleLabels(g.Spec.Role) {
		all[l] = ""
	}
	maps.Copy(all, g.Spec.Kubelet.NodeLabels) // these include the labels of the cluster's kubelet
	maps.Copy(all, g.Spec.NodeLabels)
	if len(all) > 0 {
		g.Spec.Kubelet.NodeLabels = all
	}
}

// setTaints puts all taints with which nodes register into the kubelet's configuration.
func setTaints(p *Pass, g *api.InstanceGroup) {
	base := p.Spec.Kubelet
	if g.IsControlPlane() {
		base = p.Spec.ControlPlaneKubelet
	}
	var role []string
	switch {
	case g.IsControlPlane():
		role = []string{labels.ControlPlane + noSchedule}
	case g.Spec.Role == api.RoleAPIServer:
		role = []string{labels.APIServer + noSchedule}
	case g.Spec.Manager == api.ManagerKarpenter:
		role = []string{taintKarpenter}
	}
	g.Spec.Kubelet.Taints = union(base.Taints, g.Spec.Kubelet.Taints, g.Spec.Taints, role)
}

// taintKey returns the key of a taint such as key=value:Effect or key:Effect.
func taintKey(taint string) string {
	end := strings.IndexAny(taint, "=:")
	if end < 0 {
		return taint
	}
	return taint[:end]
}
