package model

import (
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// outputs are the cluster's outputs for other configurations, as far as the graph contains them: an
// update may include only a part.
type outputs struct {
	graph *graph.Graph
	all   map[string]terraform.Expression
}

// has reports whether the graph contains everything that a value refers to.
func (o outputs) has(v resource.Value) bool {
	all := true
	v.Refs(func(a resource.Address, _ string) {
		_, ok := o.graph.Get(a)
		all = all && ok
	})
	return all
}

func (o outputs) set(name string, v resource.Value) {
	if o.has(v) {
		o.all[name] = terraform.Of(v)
	}
}

func (o outputs) list(name string, vs []resource.Value) {
	vs = slices.DeleteFunc(slices.Clone(vs), func(v resource.Value) bool { return !o.has(v) })
	if len(vs) > 0 {
		o.all[name] = terraform.List(vs...)
	}
}

func (m *model) outputs(g *graph.Graph) map[string]terraform.Expression {
	o := outputs{g, map[string]terraform.Expression{}}
	o.set("cluster_name", resource.Lit(m.name))
	o.set("region", resource.Lit(m.facts.Region))
	m.networkOutputs(o)
	m.groupOutputs(o)
	m.identityOutputs(o)
	return o.all
}

func (m *model) networkOutputs(o outputs) {
	for name, attr := range map[string]string{"vpc_id": "id", "vpc_cidr_block": "cidr_block", "vpc_ipv6_cidr_block": "ipv6_cidr_block"} {
		o.set(name, kinds.VPCs.Out(m.name, attr))
	}
	if _, ok := o.all["vpc_ipv6_cidr_block"]; ok {
		o.all["vpc_ipv6_cidr_length"] = terraform.Raw(
			`local.vpc_ipv6_cidr_block == "" ? null : tonumber(regex(".*/(\\d+)", local.vpc_ipv6_cidr_block)[0])`)
	}
	var shared []resource.Value
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		o.set("subnet_"+s.Name+"_id", m.subnetID(s))
		if s.ID != "" {
			shared = append(shared, m.subnetID(s))
		}
	}
	o.list("subnet_ids", shared)
	for role, name := range m.tables() {
		o.set("route_table_"+role+"_id", m.tableID(name))
	}
}

// tables returns the names of all route tables that a cluster may have, by their role.
func (m *model) tables() map[string]string {
	names := map[string]string{"public": m.name}
	for _, z := range m.zones() {
		for _, role := range []string{z.privateTable(), z.publicTable()} {
			names[role] = m.routeTable(role)
		}
	}
	return names
}

func (m *model) groupOutputs(o outputs) {
	for _, r := range machineRoles() {
		var groups, security, subnets []resource.Value
		for _, g := range m.scaledGroups() {
			group := kinds.AutoScalingGroups.Out(m.groupName(g), "id")
			if g.Spec.Role != r || !o.has(group) {
				continue
			}
			groups = append(groups, group)
			security = append(security, m.securityGroupIDs(g)...)
			for _, name := range g.Spec.Subnets {
				subnets = append(subnets, m.subnetID(m.subnets[name]))
			}
		}
		o.list(roleKey(r)+"_autoscaling_group_ids", groups)
		o.list(roleKey(r)+"_security_group_ids", security)
		if r == api.RoleNode {
			o.list("node_subnet_ids", subnets)
		}
	}
}

func (m *model) identityOutputs(o outputs) {
	roles := map[string]string{}
	for _, r := range m.identityRoles() {
		roles[rolePlural(r)] = m.roleName(r)
	}
	for _, a := range m.accounts {
		roles[a.export()] = a.role(m)
	}
	for export, name := range roles {
		for _, attr := range []string{"arn", "name"} {
			o.set(export+"_role_"+attr, kinds.IAMRoles.Out(name, attr))
		}
	}
	if provider := kinds.OIDCProviders.Out(m.name, "arn"); m.hasOIDC() && o.has(provider) {
		o.set("iam_openid_connect_provider_arn", provider)
		o.set("iam_openid_connect_provider_issuer", resource.Lit(m.issuer()))
	}
}

// lookups returns how to find resources that are expected to exist: by their names if these are
// unique, otherwise by their tags. It omits resources that have no data source in the provider.
func lookups(g *graph.Graph) map[resource.Address]terraform.Lookup {
	found := map[resource.Address]terraform.Lookup{}
	for n := range g.All() {
		if !n.Expect {
			continue
		}
		if l, ok := lookup(n.Want); ok {
			found[n.Address] = l
		}
	}
	return found
}

func lookup(want any) (terraform.Lookup, bool) {
	switch x := want.(type) {
	case *kinds.VPC:
		return lookupByTags(x.Tags), true
	case *kinds.Subnet:
		return lookupByTags(x.Tags), true
	case *kinds.RouteTable:
		return lookupByTags(x.Tags), true
	case *kinds.InternetGateway:
		return lookupByTags(x.Tags), true
	case *kinds.NATGateway:
		return lookupByTags(x.Tags), true
	case *kinds.ElasticIP:
		return lookupByTags(x.Tags), true
	case *kinds.SecurityGroup:
		return lookupByTags(x.Tags), true
	case *kinds.IAMRole:
		return lookupByName(x.Name, "id", "name"), true
	case *kinds.IAMInstanceProfile: // its data source has a different id
		return lookupByName(x.Name, "id", "name"), true
	case *kinds.KeyPair: // as above
		return terraform.Lookup{By: map[string]string{"key_name": x.Name}, Known: map[string]string{"id": x.Name}}, true
	case *kinds.OIDCProvider:
		return terraform.Lookup{By: map[string]string{"url": x.URL}}, true
	case *kinds.LoadBalancer:
		return lookupByName(x.Name), true
	case *kinds.TargetGroup:
		return lookupByName(x.Name), true
	case *kinds.LaunchTemplate:
		return lookupByName(x.Name), true
	case *kinds.AutoScalingGroup:
		return lookupByName(x.Name, "id"), true
	case *kinds.Queue:
		return lookupByName(x.Name), true
	case *kinds.EventRule:
		return terraform.Lookup{Known: map[string]string{"id": x.Name}}, true
	}
	return terraform.Lookup{}, false
}

// lookupByName finds a resource by its name, which is also the value of the attributes in same.
func lookupByName(name string, same ...string) terraform.Lookup {
	l := terraform.Lookup{By: map[string]string{"name": name}, Known: map[string]string{}}
	for _, attr := range same {
		l.Known[attr] = name
	}
	return l
}

// lookupByTags finds a resource by the tags that identify it.
func lookupByTags(tags map[string]string) terraform.Lookup {
	l := terraform.Lookup{Tags: maps.Clone(tags)}
	maps.DeleteFunc(l.Tags, func(k, _ string) bool { return k != kinds.TagCluster && k != kinds.TagName })
	return l
}
