package validate

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
)

const balancerPath = "spec.api.loadBalancer."

func (c *Check) balancer() *api.LoadBalancerAccessSpec { return c.Spec.API.LoadBalancer }

func balancerClass(c *Check) {
	lb := c.balancer()
	switch {
	case lb == nil:
	case !c.platform.Has.BalancerClass:
		if lb.Class != "" {
			c.Bad(balancerPath+"class", string(lb.Class), "load balancers on "+c.title()+" do not have a class", "remove it")
		}
	case lb.Class == api.LoadBalancerClassic:
		c.Bad(balancerPath+"class", string(lb.Class), "classic load balancers are no longer supported", "set it to Network; the API gets a new address")
	case lb.Class == "":
		c.Bad(balancerPath+"class", "", "is not set, which meant a classic load balancer up to kOps 1.36, and these are no longer supported", "set it to Network; the API gets a new address")
	}
}

func balancerType(c *Check) {
	lb := c.balancer()
	if lb == nil {
		return
	}
	private := slices.ContainsFunc(c.Spec.Networking.Subnets, func(s api.ClusterSubnetSpec) bool {
		return s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack
	})
	if lb.Type == api.LoadBalancerInternal && !private {
		c.Bad(balancerPath+"type", string(lb.Type), "needs a subnet of type Private", "add one, or set it to Public")
	}
	if lb.UseForInternalAPI && lb.Type == api.LoadBalancerInternal && lb.Class == api.LoadBalancerNetwork {
		c.Bad(balancerPath+"useForInternalApi", "true", "machines behind an internal network load balancer cannot reach themselves through it", "set it to false")
	}
}

func balancerGroups(c *Check) {
	lb := c.balancer()
	if lb == nil {
		return
	}
	if !c.platform.Has.SecurityGroups {
		return // see balancerAbilities
	}
	if lb.SecurityGroupOverride != nil {
		c.GroupID(balancerPath+"securityGroupOverride", *lb.SecurityGroupOverride)
	}
	for i, id := range lb.AdditionalSecurityGroups {
		c.GroupID(At(balancerPath+"additionalSecurityGroups", i), id)
	}
	c.Unique(balancerPath+"additionalSecurityGroups", lb.AdditionalSecurityGroups)
}

// GroupID checks the id of a security group.
func (c *Check) GroupID(path, id string) {
	if !strings.HasPrefix(id, "sg-") {
		c.Bad(path, id, "is not the ID of a security group", "write one such as sg-0123456789abcdef0")
	}
}

func balancerAbilities(c *Check) {
	lb := c.balancer()
	if lb == nil || c.platform.Has.SecurityGroups {
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
			c.Bad(balancerPath+f.name, "", "does not exist on "+c.title(), "remove it")
		}
	}
}

func balancerCertificate(c *Check) {
	lb := c.balancer()
	if lb == nil || !c.platform.Has.SecurityGroups {
		return
	}
	network := lb.Class == api.LoadBalancerNetwork
	if lb.SSLCertificate != "" && !network {
		c.Bad(balancerPath+"sslCertificate", lb.SSLCertificate, "needs a network load balancer", "set class to Network")
	}
	if lb.SSLPolicy != nil && (!network || lb.SSLCertificate == "") {
		c.Bad(balancerPath+"sslPolicy", *lb.SSLPolicy, "needs a network load balancer with a certificate", "add sslCertificate, or remove it")
	}
}

// balancerSubnets checks the subnets if they have an effect; see NoEffect.
func balancerSubnets(c *Check) {
	lb := c.balancer()
	if lb == nil || !c.platform.Has.BalancerSubnets {
		return
	}
	for i, s := range lb.Subnets {
		path := At(balancerPath+"subnets", i)
		if s.Name == "" {
			c.Required(path+".name", "specify a subnet of the cluster")
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
			c.Bad(path+".allocationId", *s.AllocationID, "needs a public network load balancer", "remove it")
		}
	}
}

func (c *Check) balancerAddress(path, value string, subnet api.ClusterSubnetSpec) {
	a, err := netip.ParseAddr(value)
	if err != nil || !a.Is4() {
		c.Bad(path, value, "is not an IPv4 address", "use an address in the subnet's range")
		return
	}
	if r, ok := Parsed(subnet.CIDR); ok && !r.Contains(a) {
		c.Bad(path, value, "is not in the subnet's range "+subnet.CIDR, "use an address in the subnet's range")
	}
	if lb := c.balancer(); lb.Class != api.LoadBalancerNetwork || lb.Type != api.LoadBalancerInternal {
		c.Bad(path, value, "needs an internal network load balancer", "remove it")
	}
}
