package validate

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

const balancerPath = "spec.api.loadBalancer."

func (c *check) balancer() *api.LoadBalancerAccessSpec { return c.spec.API.LoadBalancer }

// apiNames checks that an API without a load balancer is found.
func apiNames(c *check) {
	a := &c.spec.API
	if c.cloud == api.CloudAWS && a.DNS != nil && a.LoadBalancer == nil && complete.DNS(c.spec) == api.DNSNone {
		c.bad("spec.api.dns", "", "the API has no load balancer, and its name is published nowhere, because spec.topology.dns.type is None",
			"write spec.api.loadBalancer with class: Network and type: Public, or publish names")
	}
}

func balancerClass(c *check) {
	lb := c.balancer()
	switch {
	case lb == nil:
	case c.cloud != api.CloudAWS:
		if lb.Class != "" {
			c.bad(balancerPath+"class", string(lb.Class), "load balancers have a class on AWS only", "remove it")
		}
	case lb.Class == api.LoadBalancerClassic:
		c.bad(balancerPath+"class", string(lb.Class), "classic load balancers are no longer supported", "set it to Network; the API gets a new address")
	case lb.Class == "" && c.in.Strict:
		c.required(balancerPath+"class", "set it to Network")
	}
}

func balancerType(c *check) {
	lb := c.balancer()
	if lb == nil {
		return
	}
	private := slices.ContainsFunc(c.spec.Networking.Subnets, func(s api.ClusterSubnetSpec) bool {
		return s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack
	})
	if lb.Type == api.LoadBalancerInternal && !private {
		c.bad(balancerPath+"type", string(lb.Type), "needs a subnet of type Private", "add one, or set it to Public")
	}
	if lb.UseForInternalAPI && lb.Type == api.LoadBalancerInternal && lb.Class == api.LoadBalancerNetwork {
		c.bad(balancerPath+"useForInternalApi", "true", "machines behind an internal network load balancer cannot reach themselves through it", "set it to false")
	}
}

func balancerGroups(c *check) {
	lb := c.balancer()
	if lb == nil {
		return
	}
	if c.cloud != api.CloudAWS {
		return // see balancerAWS
	}
	if lb.SecurityGroupOverride != nil {
		c.groupID(balancerPath+"securityGroupOverride", *lb.SecurityGroupOverride)
	}
	for i, id := range lb.AdditionalSecurityGroups {
		c.groupID(at(balancerPath+"additionalSecurityGroups", i), id)
	}
	c.unique(balancerPath+"additionalSecurityGroups", lb.AdditionalSecurityGroups)
}

// groupID checks the id of a security group.
func (c *check) groupID(path, id string) {
	if !strings.HasPrefix(id, "sg-") {
		c.bad(path, id, "is not the id of a security group", "write one such as sg-0123456789abcdef0")
	}
}

func balancerAWS(c *check) {
	lb := c.balancer()
	if lb == nil || c.cloud == api.CloudAWS {
		return
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"securityGroupOverride", lb.SecurityGroupOverride != nil}, {"additionalSecurityGroups", len(lb.AdditionalSecurityGroups) > 0},
		{"sslCertificate", lb.SSLCertificate != ""}, {"sslPolicy", lb.SSLPolicy != nil},
		{"crossZoneLoadBalancing", lb.CrossZoneLoadBalancing != nil}, {"accessLog", lb.AccessLog != nil},
	} {
		if f.set {
			c.bad(balancerPath+f.name, "", "exists on AWS only", "remove it")
		}
	}
}

func balancerCertificate(c *check) {
	lb := c.balancer()
	if lb == nil || c.cloud != api.CloudAWS {
		return
	}
	network := lb.Class == api.LoadBalancerNetwork
	if lb.SSLCertificate != "" && !network {
		c.bad(balancerPath+"sslCertificate", lb.SSLCertificate, "needs a network load balancer", "set class to Network")
	}
	if lb.SSLPolicy != nil && (!network || lb.SSLCertificate == "") {
		c.bad(balancerPath+"sslPolicy", *lb.SSLPolicy, "needs a network load balancer with a certificate", "add sslCertificate, or remove it")
	}
}

// balancerSubnets checks the subnets where they have an effect, see NoEffect.
func balancerSubnets(c *check) {
	lb := c.balancer()
	if lb == nil || c.cloud != "" && c.cloud != api.CloudAWS {
		return
	}
	for i, s := range lb.Subnets {
		path := at(balancerPath+"subnets", i)
		if s.Name == "" {
			c.required(path+".name", "name a subnet of the cluster")
			continue
		}
		subnet, known := c.subnet(s.Name)
		if !known {
			c.unknownSubnet(path+".name", s.Name)
		}
		if s.PrivateIPv4Address != nil {
			c.balancerAddress(path+".privateIPv4Address", *s.PrivateIPv4Address, subnet)
		}
		if s.AllocationID != nil && (lb.Class != api.LoadBalancerNetwork || lb.Type == api.LoadBalancerInternal) {
			c.bad(path+".allocationId", *s.AllocationID, "needs a public network load balancer", "remove it")
		}
	}
}

func (c *check) balancerAddress(path, value string, subnet api.ClusterSubnetSpec) {
	a, err := netip.ParseAddr(value)
	if err != nil || !a.Is4() {
		c.bad(path, value, "is not an IPv4 address", "write one of the subnet's")
		return
	}
	if r, ok := parsed(subnet.CIDR); ok && !r.Contains(a) {
		c.bad(path, value, "is not in the subnet's range "+subnet.CIDR, "write one of the subnet's")
	}
	if lb := c.balancer(); lb.Class != api.LoadBalancerNetwork || lb.Type != api.LoadBalancerInternal {
		c.bad(path, value, "needs an internal network load balancer", "remove it")
	}
}
