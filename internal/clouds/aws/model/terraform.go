package model

import (
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/cloud"
	"kops.local/kops/internal/clouds/aws/kinds"
	"kops.local/kops/internal/graph"
	"kops.local/kops/internal/render/terraform"
	"kops.local/kops/internal/resource"
)

// Versions that the configuration needs: of Terraform, and of the provider for AWS.
const (
	terraformVersion = ">= 0.15.0"
	providerVersion  = ">= 5.0.0"
)

// Terraform returns the Terraform document of a graph that Build has added to:
// its outputs and its providers. It fails where the provider has no words for
// what the cluster needs.
func Terraform(in cloud.Model, g *graph.Graph) (terraform.Document, error) {
	m, err := newModel(in)
	if err != nil {
		return terraform.Document{}, err
	}
	for n := range g.All() {
		if r, ok := n.Want.(*kinds.Route); ok && !r.Instance.IsZero() {
			return terraform.Document{}, fmt.Errorf("%s leads to a machine, which Terraform's provider for AWS cannot say", n.Address)
		}
	}
	doc := terraform.Document{
		Graph: g, Outputs: m.outputs(g), Compatible: true, RequiredVersion: terraformVersion,
		RequiredProviders: map[string]terraform.RequiredProvider{
			"aws": {Source: "hashicorp/aws", Version: providerVersion, Aliases: []string{"aws.files"}}},
	}
	extra := api.TerraformSpec{}
	if t := m.spec.Target; t != nil {
		extra = or(t.Terraform, extra)
	}
	doc.Providers = []terraform.Provider{
		provider("", m.facts.Region, extra.ProviderExtraConfig),
		provider("files", m.filesRegion(), extra.FilesProviderExtraConfig),
	}
	return doc, nil
}

// filesRegion is where the bucket of the managed files is.
func (m *model) filesRegion() string {
	for _, region := range []string{m.FilesRegion, m.facts.Buckets[m.FilesBucket]} {
		if region != "" {
			return region
		}
	}
	return m.facts.Region
}

func provider(alias, region string, extra map[string]string) terraform.Provider {
	p := terraform.Provider{Name: "aws", Alias: alias, Attributes: map[string]string{"region": region}}
	maps.Copy(p.Attributes, extra)
	return p
}

// outputs are what other configurations may want to know of the cluster.
func (m *model) outputs(g *graph.Graph) map[string]terraform.Expression {
	o := map[string]terraform.Expression{
		"cluster_name": terraform.Of(resource.Lit(m.name)),
		"region":       terraform.Of(resource.Lit(m.facts.Region)),
	}
	m.networkOutputs(o, g)
	m.groupOutputs(o)
	m.identityOutputs(o)
	return o
}

func (m *model) networkOutputs(o map[string]terraform.Expression, g *graph.Graph) {
	vpc := func(attr string) terraform.Expression { return terraform.Of(out("aws_vpc", m.name, attr)) }
	o["vpc_id"], o["vpc_cidr_block"], o["vpc_ipv6_cidr_block"] = vpc("id"), vpc("cidr_block"), vpc("ipv6_cidr_block")
	o["vpc_ipv6_cidr_length"] = terraform.Raw(
		`local.vpc_ipv6_cidr_block == "" ? null : tonumber(regex(".*/(\\d+)", local.vpc_ipv6_cidr_block)[0])`)
	var shared []resource.Value
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		o["subnet_"+s.Name+"_id"] = terraform.Of(m.subnetID(s))
		if s.ID != "" {
			shared = append(shared, m.subnetID(s))
		}
	}
	if len(shared) > 0 {
		o["subnet_ids"] = terraform.List(shared...)
	}
	for role, name := range m.tables() {
		if a := (resource.Address{Kind: "aws_route_table", Name: name}); has(g, a) {
			o["route_table_"+role+"_id"] = terraform.Of(resource.Out(a, "id"))
		}
	}
}

// tables are the names of all route tables that a cluster may have, by their role.
func (m *model) tables() map[string]string {
	names := map[string]string{"public": m.name}
	for _, z := range m.zones() {
		for _, role := range []string{z.privateTable(), z.publicTable()} {
			names[role] = m.routeTable(role)
		}
	}
	return names
}

func has(g *graph.Graph, a resource.Address) bool { _, ok := g.Get(a); return ok }

func (m *model) groupOutputs(o map[string]terraform.Expression) {
	for _, r := range []api.InstanceGroupRole{api.RoleControlPlane, api.RoleNode, api.RoleBastion} {
		var groups, security, subnets []resource.Value
		for _, g := range m.scaled() {
			if g.Spec.Role != r {
				continue
			}
			groups = append(groups, out("aws_autoscaling_group", m.groupName(g), "id"))
			security = append(security, m.securityGroupIDs(g)...)
			for _, name := range g.Spec.Subnets {
				subnets = append(subnets, m.subnetID(m.subnets[name]))
			}
		}
		if len(groups) == 0 {
			continue
		}
		o[roleKey(r)+"_autoscaling_group_ids"] = terraform.List(groups...)
		o[roleKey(r)+"_security_group_ids"] = terraform.List(security...)
		if r == api.RoleNode {
			o["node_subnet_ids"] = terraform.List(subnets...)
		}
	}
}

func (m *model) identityOutputs(o map[string]terraform.Expression) {
	roles := map[string]string{}
	for _, r := range m.identityRoles() {
		roles[rolePlural(r)] = m.roleName(r)
	}
	for _, a := range m.serviceAccounts() {
		roles[a.export()] = a.role(m)
	}
	for _, export := range slices.Sorted(maps.Keys(roles)) {
		for _, attr := range []string{"arn", "name"} {
			o[export+"_role_"+attr] = terraform.Of(out("aws_iam_role", roles[export], attr))
		}
	}
	if m.hasOIDC() {
		o["iam_openid_connect_provider_arn"] = terraform.Of(out("aws_iam_openid_connect_provider", m.name, "arn"))
		o["iam_openid_connect_provider_issuer"] = terraform.Of(resource.Lit(m.issuer()))
	}
}
