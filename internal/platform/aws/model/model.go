// Package model turns a completed cluster into the AWS resources that it needs: nodes of a graph,
// and the other parts of a Terraform document. It is pure.
//
// It must not know how a resource is observed or changed, or how a plan is made or rendered, and it
// looks nothing up: all facts about the account are in its input.
package model

import (
	"errors"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
)

// model is the input and data shared by all its parts. It is immutable.
type model struct {
	platform.Model
	// name is the cluster's name, the suffix of nearly every name here.
	name    string
	spec    *api.ClusterSpec
	aws     *api.AWSSpec
	facts   *facts.Cloud
	account spec.Facts
	// subnets are the spec's subnets by name.
	subnets map[string]*api.ClusterSubnetSpec
	// apiLB and bastionLB are nil where the cluster has none.
	apiLB, bastionLB *loadBalancer
	// accounts are the service accounts with their own roles.
	accounts []account
}

// Build adds the cluster's AWS resources to a graph, each after those it refers to. The cluster
// must be completed and valid; everything in the account that it refers to must be in the facts.
func Build(in platform.Model, g *graph.Graph) error {
	m, err := newModel(in)
	if err != nil {
		return err
	}
	return platform.AddParts(g, m.name, []platform.Part{
		{Name: "network", Nodes: m.network},
		{Name: "routes", Nodes: m.routing},
		{Name: "security groups", Nodes: m.securityGroups},
		{Name: "SSH key", Nodes: m.keyPair},
		{Name: "identities", Nodes: m.identities},
		{Name: "volumes", Nodes: m.volumes},
		{Name: "load balancers", Nodes: m.loadBalancers},
		{Name: "names", Nodes: m.dns},
		{Name: "state store keys", Nodes: m.storeKeys},
		{Name: "launch templates", Nodes: m.launchTemplates},
		{Name: "boot scripts of Karpenter's machines", Nodes: m.scripts},
		{Name: "scaling groups", Nodes: m.scalingGroups},
		{Name: "termination queue", Nodes: m.terminationQueue},
	})
}

func newModel(in platform.Model) (*model, error) {
	switch {
	case in.Cluster.Spec.CloudProvider.AWS == nil:
		return nil, fmt.Errorf("cluster %s is not on AWS", in.Cluster.Name)
	case in.Facts == nil || in.Facts.Clouds[string(api.CloudAWS)] == nil:
		return nil, errors.New("the facts file has no data about AWS")
	}
	known := in.Facts.Of(string(api.CloudAWS))
	own, err := facts.OwnAs[spec.Facts](known)
	if err != nil {
		return nil, err
	}
	m := &model{
		Model: in, name: in.Cluster.Name, spec: &in.Cluster.Spec,
		aws: in.Cluster.Spec.CloudProvider.AWS, facts: known, account: own,
		subnets: map[string]*api.ClusterSubnetSpec{},
	}
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		m.subnets[s.Name] = s
	}
	if m.apiLB, err = m.apiLoadBalancer(); err != nil {
		return nil, err
	}
	if m.bastionLB, err = m.bastionLoadBalancer(); err != nil {
		return nil, err
	}
	m.accounts, err = m.serviceAccounts()
	return m, err
}

// groupsOf returns the instance groups with one of the roles.
func (m *model) groupsOf(roles ...api.InstanceGroupRole) []*api.InstanceGroup {
	return access.GroupsOf(m.Groups, roles...)
}

// scaledGroups returns the groups whose machines a scaling group creates.
func (m *model) scaledGroups() []*api.InstanceGroup {
	var out []*api.InstanceGroup
	for _, g := range m.Groups {
		if g.Spec.Manager != api.ManagerKarpenter {
			out = append(out, g)
		}
	}
	return out
}

// ipv6Only reports whether pods and services have only IPv6 addresses.
func (m *model) ipv6Only() bool { return m.spec.IPv6Only() }

// dnsType returns where the names of the API are published.
func (m *model) dnsType() api.DNSType { return m.spec.DNSType() }

// subnetsOf returns the subnets of a group, in its order.
func (m *model) subnetsOf(g *api.InstanceGroup) ([]*api.ClusterSubnetSpec, error) {
	var out []*api.ClusterSubnetSpec
	for _, name := range g.Spec.Subnets {
		s, ok := m.subnets[name]
		if !ok {
			return nil, fmt.Errorf("group %s: the cluster has no subnet %s", g.Name, name)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("group %s has no subnet", g.Name)
	}
	return out, nil
}

// zoneOf returns the zone of a subnet; a shared subnet's may only be in the facts.
func (m *model) zoneOf(s *api.ClusterSubnetSpec) string {
	if s.Zone != "" {
		return s.Zone
	}
	return m.facts.Subnets[s.ID].Zone
}
