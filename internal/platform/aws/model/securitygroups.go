package model

import (
	"cmp"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// securityGroup is a group as its rules see it.
type securityGroup struct {
	node string // the name of its node
	// called is what names of rules call it, where they are made of both ends.
	called string
	// suffix ends the fixed names of rules, so that each group of a role has its own.
	suffix      string
	override    string // the identifier of an existing group, or empty
	description string
}

func (g securityGroup) id() resource.Value { return kinds.SecurityGroups.Out(g.node, "id") }

// identity distinguishes groups, independent of their names.
func (g securityGroup) identity() string { return cmp.Or(g.override, g.node) }

// own returns a group of the cluster's own.
func (m *model) own(short, title string) securityGroup {
	name := short + "." + m.name
	return securityGroup{node: name, called: name, description: "Security group for " + title}
}

// override returns an existing group that stands for one of the cluster's.
func override(id, role string) securityGroup {
	name := id + "-" + role
	return securityGroup{node: name, called: name, suffix: "-" + id, override: id}
}

// controlPlaneGroups returns the groups of the machines that run an API server.
func (m *model) controlPlaneGroups() []securityGroup {
	return m.roleGroups(m.own("masters", "masters"), api.RoleControlPlane, api.RoleAPIServer)
}

func (m *model) nodeGroups() []securityGroup {
	return m.roleGroups(m.own("nodes", "nodes"), api.RoleNode)
}

func (m *model) bastionGroups() []securityGroup {
	if !m.hasBastion() {
		return nil
	}
	return m.roleGroups(m.own("bastion", "bastion"), api.RoleBastion)
}

// roleGroups returns the base group of some roles, unless all their instance
// groups override it, and the overrides.
func (m *model) roleGroups(base securityGroup, roles ...api.InstanceGroupRole) []securityGroup {
	all := m.groupsOf(roles...)
	var list []securityGroup
	if len(all) == 0 || slices.ContainsFunc(all, func(g *api.InstanceGroup) bool { return or(g.Spec.SecurityGroupOverride, "") == "" }) {
		list = append(list, base)
	}
	for _, g := range all {
		if id := or(g.Spec.SecurityGroupOverride, ""); id != "" {
			if o := override(id, string(g.Spec.Role)); !slices.Contains(list, o) {
				list = append(list, o)
			}
		}
	}
	return list
}

// groupOf returns the security group of an instance group's machines.
func (m *model) groupOf(g *api.InstanceGroup) securityGroup {
	if id := or(g.Spec.SecurityGroupOverride, ""); id != "" {
		return override(id, string(g.Spec.Role))
	}
	switch g.Spec.Role {
	case api.RoleControlPlane, api.RoleAPIServer:
		return m.own("masters", "masters")
	case api.RoleBastion:
		return m.own("bastion", "bastion")
	}
	return m.own("nodes", "nodes")
}

// securityGroupIDs are those that an instance group's machines get. What may
// reach the API's load balancer may reach what is behind it.
func (m *model) securityGroupIDs(g *api.InstanceGroup) []resource.Value {
	ids := append([]resource.Value{m.groupOf(g).id()}, resource.Lits(g.Spec.AdditionalSecurityGroups...)...)
	if m.apiLB != nil && g.HasAPIServer() {
		ids = append(ids, resource.Lits(m.apiLB.spec.AdditionalSecurityGroups...)...)
	}
	return unique(ids)
}

// unique drops values that were there before.
func unique(vs []resource.Value) []resource.Value {
	var list []resource.Value
	for _, v := range vs {
		if !slices.ContainsFunc(list, func(o resource.Value) bool { return o.String() == v.String() }) {
			list = append(list, v)
		}
	}
	return list
}

// securityGroups is the groups and their rules.
func (m *model) securityGroups() ([]resource.Node, error) {
	groups := slices.Concat(m.controlPlaneGroups(), m.nodeGroups(), m.bastionGroups())
	for _, lb := range []*loadBalancer{m.apiLB, m.bastionLB} {
		if lb != nil {
			groups = append(groups, lb.group)
		}
	}
	var nodes []resource.Node
	for _, g := range groups {
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
