package validate

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
)

// eachSubnet calls do for every subnet with its path.
func (c *check) eachSubnet(do func(path string, s *api.ClusterSubnetSpec)) {
	for i := range c.spec.Networking.Subnets {
		do(at("spec.subnets", i), &c.spec.Networking.Subnets[i])
	}
}

func subnets(c *check) {
	var names, regions []string
	shared := 0
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		c.need(s.Name != "", path+".name", "name the subnet")
		names = append(names, s.Name)
		if s.ID != "" {
			shared++
		}
		if c.cloud == api.CloudGCE && s.Zone != "" {
			c.bad(path+".zone", s.Zone, "subnets of GCE span their region", "remove it, and name zones in the instance groups")
		}
		// Those that are shared are in the zone that the cloud tells.
		c.need(c.cloud != api.CloudAWS || s.Zone != "" || s.ID != "" && !c.in.Strict, path+".zone", "name the zone of the subnet, such as us-east-1a")
		if aws := c.awsFacts(); c.cloud == api.CloudAWS && aws != nil && len(aws.Zones) > 0 && c.region(s) == aws.Region && !slices.Contains(aws.Zones, s.Zone) {
			c.bad(path+".zone", s.Zone, "is no zone of "+aws.Region+" that can be used", "use one of "+strings.Join(aws.Zones, ", "))
		}
		if region := c.region(s); region != "" {
			regions = append(regions, region)
			if region != regions[0] {
				c.bad(path, s.Name, "is in region "+region+", and others are in "+regions[0], "keep the cluster in one region")
			}
		}
	})
	c.unique("spec.subnets", names)
	if shared > 0 && shared < len(names) {
		c.bad("spec.subnets", "", "some subnets are shared and others are not", "give an id to all of them or to none")
	}
}

// region is where a subnet is, or "" when it does not say.
func (c *check) region(s *api.ClusterSubnetSpec) string {
	if s.Region == "" && c.cloud == api.CloudAWS && len(s.Zone) > 1 {
		return s.Zone[:len(s.Zone)-1]
	}
	return s.Region
}

func subnetCIDRs(c *check) {
	n := &c.spec.Networking
	network := c.ranges()
	pods, hasPods := parsed(n.PodCIDR)
	services, hasServices := parsed(n.ServiceClusterIPRange)
	var before []api.ClusterSubnetSpec
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.CIDR == "" {
			return
		}
		r, ok := c.cidr(path+".cidr", s.CIDR)
		switch {
		case !ok:
		case len(network) > 0 && !slices.ContainsFunc(network, func(o netip.Prefix) bool { return contains(o, r) }):
			c.bad(path+".cidr", s.CIDR, "is not in the network's range "+n.NetworkCIDR, "choose a part of it, or add a range to additionalNetworkCIDRs")
		case hasPods && n.AmazonVPC == nil && r.Overlaps(pods):
			c.bad(path+".cidr", s.CIDR, "overlaps podCIDR "+n.PodCIDR, "choose ranges that are apart")
		case hasServices && r.Overlaps(services):
			c.bad(path+".cidr", s.CIDR, "overlaps serviceClusterIPRange "+n.ServiceClusterIPRange, "choose ranges that are apart")
		default:
			for _, o := range before {
				if other, _ := parsed(o.CIDR); r.Overlaps(other) {
					c.bad(path+".cidr", s.CIDR, "overlaps "+o.CIDR+" of subnet "+o.Name, "choose ranges that are apart")
				}
			}
			before = append(before, *s)
		}
	})
}

// part is an IPv6 range as a part of the network's: a length, and its number in hexadecimal.
var part = regexp.MustCompile(`^/(\d+)#[0-9a-fA-F]+$`)

func subnetIPv6(c *check) {
	services, hasServices := parsed(c.spec.Networking.ServiceClusterIPRange)
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		path += ".ipv6CIDR"
		switch {
		case s.IPv6CIDR == "":
			return
		case c.cloud != api.CloudAWS:
			c.bad(path, s.IPv6CIDR, "subnets have IPv6 ranges on AWS only", "remove it")
			return
		case strings.HasPrefix(s.IPv6CIDR, "/"):
			m := part.FindStringSubmatch(s.IPv6CIDR)
			if m != nil {
				if bits, err := strconv.Atoi(m[1]); err == nil && bits <= 128 {
					return
				}
			}
			c.bad(path, s.IPv6CIDR, "is not a part of the network's IPv6 range", "write its length and number, such as /64#1")
			return
		}
		r, ok := c.cidr(path, s.IPv6CIDR)
		switch {
		case !ok:
		case !r.Addr().Is6():
			c.bad(path, s.IPv6CIDR, "is an IPv4 range", "write it in cidr")
		case hasServices && r.Overlaps(services):
			c.bad(path, s.IPv6CIDR, "overlaps serviceClusterIPRange "+services.String(), "choose ranges that are apart")
		}
	})
}

func subnetTypes(c *check) {
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		switch {
		case s.Type == "":
			c.required(path+".type", "write Public, Private, DualStack or Utility")
		case s.Type == api.SubnetDualStack && !c.ipv6():
			c.bad(path+".type", string(s.Type), "is for clusters whose pods have IPv6 addresses", "use Private")
		case s.Type == api.SubnetPublic && c.cloud == api.CloudOpenstack && !c.hasExternalNetwork():
			c.bad(path+".type", string(s.Type), "needs an external network", "name one in spec.cloudConfig.openstack.router.externalNetwork")
		}
	})
}

func (c *check) hasExternalNetwork() bool {
	o := c.spec.CloudProvider.Openstack
	return o != nil && o.Router != nil && o.Router.ExternalNetwork != nil
}

func subnetEgress(c *check) {
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.Egress == "" || s.Egress == "External" {
			return
		}
		kind, _, _ := strings.Cut(s.Egress, "-")
		if !slices.Contains([]string{"nat", "eipalloc", "i", "tgw"}, kind) {
			c.bad(path+".egress", s.Egress, "is not a way out", "write the id of a NAT gateway (nat-), an address (eipalloc-), an instance (i-) or a transit gateway (tgw-), or External")
		}
		private := s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack
		if !private && !(s.Type == api.SubnetPublic && s.IPv6CIDR != "") {
			c.bad(path+".egress", s.Egress, "has no effect in a subnet of type "+string(s.Type), "remove it")
		}
	})
}

func subnetRoutes(c *check) {
	network := c.ranges()
	c.eachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		path += ".additionalRoutes"
		if len(s.AdditionalRoutes) == 0 {
			return
		}
		if s.ID != "" || s.Type != api.SubnetPrivate || s.Egress == "External" {
			c.bad(path, "", "routes are added to private subnets that kops makes and routes", "remove them")
		}
		var ranges []string
		for i, r := range s.AdditionalRoutes {
			ranges = append(ranges, r.CIDR)
			to, ok := c.cidr(at(path, i)+".cidr", r.CIDR)
			kind, _, _ := strings.Cut(r.Target, "-")
			if !slices.Contains([]string{"pcx", "i", "nat", "tgw", "igw", "eigw"}, kind) {
				c.bad(at(path, i)+".target", r.Target, "is not a target of routes", "write the id of a peering (pcx-), an instance (i-), or a gateway (nat-, tgw-, igw-, eigw-)")
			}
			if ok && to.Bits() == 0 {
				c.bad(at(path, i)+".cidr", r.CIDR, "is the default route, which every private subnet has", "name its target in the egress of the subnet")
			}
			if ok && kind == "pcx" && slices.ContainsFunc(network, func(o netip.Prefix) bool { return contains(o, to) }) {
				c.bad(at(path, i)+".cidr", r.CIDR, "is inside the network, where a peering cannot lead", "name a range of the other network")
			}
		}
		c.unique(path, ranges)
	})
}
