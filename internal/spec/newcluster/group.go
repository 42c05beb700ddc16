package newcluster

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
)

// GroupOptions are the options for a new group.
type GroupOptions struct {
	Name string
	// Role is control-plane, node, bastion or apiserver, in any spelling of these; "" means node.
	Role string
	// Subnets are names of the cluster's subnets; if empty, all that suit the role.
	Subnets []string
	Zones   []string
}

// NewGroup returns the short spec of a new group for a cluster.
func NewGroup(o GroupOptions, cluster *api.Cluster, w World) (*api.InstanceGroup, diag.List) {
	role, ok := parseRole(o.Role)
	if !ok {
		return nil, diag.List{{Path: "option:Role", Value: o.Role, Rule: "option", Message: "unknown role", Remedy: "use control-plane, node, bastion or apiserver"}}
	}
	g := newGroup(cluster.Name, o.Name, role)
	g.Spec.Subnets, g.Spec.Zones = o.Subnets, o.Zones
	if len(g.Spec.Subnets) == 0 && role == api.RoleControlPlane {
		return nil, diag.List{{Path: "option:Subnets", Rule: "option", Message: "a control plane needs a subnet", Remedy: "specify it with option:Subnets"}}
	}
	if add := w.Platform.Rules.Group; add != nil {
		if findings := add(g); findings.Err() != nil {
			return nil, findings
		}
	}
	return complete.AssignGroup(complete.Input{
		Platform: w.Complete, Cluster: cluster, Facts: w.Facts, Channel: w.Channel, KopsVersion: w.KopsVersion, Features: w.Features,
	}, g)
}

// parseRole reads a role in any of the spellings that users and API versions use.
func parseRole(text string) (api.InstanceGroupRole, bool) {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(text)) {
	case "", "node", "nodes":
		return api.RoleNode, true
	case "controlplane", "master":
		return api.RoleControlPlane, true
	case "bastion":
		return api.RoleBastion, true
	case "apiserver":
		return api.RoleAPIServer, true
	}
	return "", false
}
