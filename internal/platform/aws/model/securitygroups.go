package model

import (
	"cmp"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// securityGroup is a group with the data that its rules need.
type securityGroup struct {
	node string // the name of its node
	// title is the group's name in names of rules that are derived from both ends.
	title string
	// suffix is the suffix of fixed rule names, which makes them unique among the groups of a role.
	suffix      string
	override    string // the identifier of an existing group, or empty
	description string
}

func (g securityGroup) id() resource.Value { return kinds.SecurityGroups.Out(g.node, "id") }

// identity distinguishes groups, independent of their names.
func (g securityGroup) identity() string { return cmp.Or(g.override, g.node) }

// newSecurityGroup returns one of the cluster's own groups.
func (m *model) newSecurityGroup(short, title string) securityGroup {
	name := short + "." + m.name
	return securityGroup{node: name, title: name, description: "Security group for " + title}
}

// override returns an existing group that replaces one of the cluster's own.
func override(id, role string) securityGroup {
	name := id + "-" + role
	return securityGroup{node: name, title: name, suffix: "-" + id, override: id}
}

// controlPlaneGroups returns the groups of the machines that run an API server.
func (m *model) controlPlaneGroups() []securityGroup {
	return m.roleGroups(m.newSecurityGroup("masters", "masters"), api.RoleControlPlane, api.RoleAPIServer)
}

func (m *model) nodeGroups() []securityGroup {
	return m.roleGroups(m.newSecurityGroup("nodes", "nodes"), api.RoleNode)
}

func (m *model) bastionGroups() []securityGroup {
	if !access.HasBastions(m.Groups) {
		return nil
	}
	return m.roleGroups(m.newSecurityGroup("bastion", "bastion"), api.RoleBastion)
}

// groupsFor returns the groups of a party, if security groups tell it apart.
func (m *model) groupsFor(p access.Party) []securityGroup {
	switch p {
	case access.Servers, access.ControlPlanes:
		return m.controlPlaneGroups()
	case access.Nodes:
		return m.nodeGroups()
	case access.Bastions:
		return m.bastionGroups()
	case access.Balancer:
		return []securityGroup{m.apiLB.group}
	}
	return nil
}

// roleGroups returns the base group of the roles, unless all their instance groups override it, and
// the overrides.
func (m *model) roleGroups(base securityGroup, roles ...api.InstanceGroupRole) []securityGroup {
	all := m.groupsOf(roles...)
	var list []securityGroup
	if len(all) == 0 || slices.ContainsFunc(all, func(g *api.InstanceGroup) bool { return fill.Or(g.Spec.SecurityGroupOverride, "") == "" }) {
		list = append(list, base)
	}
	for _, g := range all {
		if id := fill.Or(g.Spec.SecurityGroupOverride, ""); id != "" {
			if o := override(id, string(g.Spec.Role)); !slices.Contains(list, o) {
				list = append(list, o)
			}
		}
	}
	return list
}

// groupOf returns the security group of an instance group's machines.
func (m *model) groupOf(g *api.InstanceGroup) securityGroup {
	if id := fill.Or(g.Spec.SecurityGroupOverride, ""); id != "" {
		return override(id, string(g.Spec.Role))
	}
	switch g.Spec.Role {
	case api.RoleControlPlane, api.RoleAPIServer:
		return m.newSecurityGroup("masters", "masters")
	case api.RoleBastion:
		return m.newSecurityGroup("bastion", "bastion")
	}
	return m.newSecurityGroup("nodes", "nodes")
}

// securityGroupIDs returns the security groups of an instance group's machines. Additional groups
// of the API's load balancer also apply to the API servers behind it.
func (m *model) securityGroupIDs(g *api.InstanceGroup) []resource.Value {
	ids := append([]resource.Value{m.groupOf(g).id()}, resource.Lits(g.Spec.AdditionalSecurityGroups...)...)
	if m.apiLB != nil && g.HasAPIServer() {
		ids = append(ids, resource.Lits(m.apiLB.spec.AdditionalSecurityGroups...)...)
	}
	return unique(ids)
}

// unique removes duplicate values.
func unique(vs []resource.Value) []resource.Value {
	var list []resource.Value
	for _, v := range vs {
		if !slices.ContainsFunc(list, func(o resource.Value) bool { return o.String() == v.String() }) {
			list = append(list, v)
		}
	}
	return list
}

// allGroups returns the groups of machines and of load balancers.
func (m *model) allGroups() []securityGroup {
	groups := slices.Concat(m.controlPlaneGroups(), m.nodeGroups(), m.bastionGroups())
	for _, lb := range []*loadBalancer{m.apiLB, m.bastionLB} {
		if lb != nil {
			groups = append(groups, lb.group)
		}
	}
	return groups
}

// securityGroups returns the groups and their rules.
func (m *model) securityGroups() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, g := range m.allGroups() {
		nodes = append(nodes, m.groupNode(g))
	}
	return append(nodes, m.ruleNodes(m.rules())...), nil
}

func (m *model) groupNode(g securityGroup) resource.Node {
	if g.override != "" {
		return kinds.SecurityGroups.Adopt(g.node, g.override, kinds.SecurityGroup{VPC: m.vpcID()})
	}
	return kinds.SecurityGroups.New(g.node, kinds.SecurityGroup{
		Name: g.node, Description: g.description, VPC: m.vpcID(), Tags: m.tags(g.node)})
}
