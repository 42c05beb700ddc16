package complete

import (
	"maps"
	"strings"

	"kops.local/kops/api"
)

// Labels and taints by which nodes say what they are for.
const (
	labelNode         = "node-role.kubernetes.io/node"
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	labelAPIServer    = "node-role.kubernetes.io/api-server"
	labelPKI          = "kops.k8s.io/kops-controller-pki"
	labelNoBalancer   = "node.kubernetes.io/exclude-from-external-load-balancers"

	noSchedule     = "=:NoSchedule"
	taintKarpenter = "karpenter.sh/unregistered=:NoExecute"
)

// roleLabels are the labels of a role; their values are empty.
func (p *pass) roleLabels(role api.InstanceGroupRole) []string {
	switch role {
	case api.RoleControlPlane:
		labels := []string{labelControlPlane, labelPKI, labelNoBalancer}
		if p.in.Features["APIServerNodes"] {
			labels = append(labels, labelAPIServer)
		}
		return labels
	case api.RoleAPIServer:
		return []string{labelAPIServer}
	case api.RoleNode:
		return []string{labelNode}
	default:
		return nil
	}
}

// setNodeLabels puts all labels with which nodes register into the kubelet's
// configuration; the group's own win.
func setNodeLabels(p *pass, g *api.InstanceGroup) {
	labels := map[string]string{}
	for _, l := range p.roleLabels(g.Spec.Role) {
		labels[l] = ""
	}
	maps.Copy(labels, g.Spec.Kubelet.NodeLabels) // those of the cluster's kubelet are in it
	maps.Copy(labels, g.Spec.NodeLabels)
	if len(labels) > 0 {
		g.Spec.Kubelet.NodeLabels = labels
	}
}

// setTaints puts all taints with which nodes register into the kubelet's configuration.
func setTaints(p *pass, g *api.InstanceGroup) {
	base := p.spec.Kubelet
	if g.IsControlPlane() {
		base = p.spec.ControlPlaneKubelet
	}
	var role []string
	switch {
	case g.IsControlPlane():
		role = []string{labelControlPlane + noSchedule}
	case g.Spec.Role == api.RoleAPIServer:
		role = []string{labelAPIServer + noSchedule}
	case g.Spec.Manager == api.ManagerKarpenter:
		role = []string{taintKarpenter}
	}
	g.Spec.Kubelet.Taints = union(base.Taints, g.Spec.Kubelet.Taints, g.Spec.Taints, role)
}

// taintKey is the key of a taint such as key=value:Effect or key:Effect.
func taintKey(taint string) string {
	end := strings.IndexAny(taint, "=:")
	if end < 0 {
		return taint
	}
	return taint[:end]
}
