package model

import (
	"fmt"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/access"
)

// bastionSpec returns the spec of bastions; zero if there is none.
func (m *model) bastionSpec() api.BastionSpec {
	if t := m.spec.Networking.Topology; t != nil && t.Bastion != nil {
		return *t.Bastion
	}
	return api.BastionSpec{}
}

// bastionLoadBalancer returns the load balancer of the bastions; nil if there are none.
func (m *model) bastionLoadBalancer() (*loadBalancer, error) {
	if !access.HasBastions(m.Groups) {
		return nil, nil
	}
	target := m.target("bastion", ports.SSH)
	l := &loadBalancer{
		node: "bastion." + m.name, realName: target.realName, group: m.newSecurityGroup("bastion-elb", "bastion ELB"),
		listeners: []listener{{node: "bastion." + m.name + "-" + strconv.Itoa(ports.SSH), port: ports.SSH, protocol: target.protocol, target: target}},
	}
	if lb := m.bastionSpec().LoadBalancer; lb != nil {
		l.internal, l.more = lb.Type == api.LoadBalancerInternal, lb.AdditionalSecurityGroups
	}
	var err error
	l.subnets, err = m.placements(l.internal)
	if err != nil {
		return nil, fmt.Errorf("load balancer of the bastions: %w", err)
	}
	return l, nil
}
