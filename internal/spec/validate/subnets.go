package validate

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
)

// EachSubnet calls do for every subnet with its path.
func (c *Check) EachSubnet(do func(path string, s *api.ClusterSubnetSpec)) {
	for i := range c.Spec.Networking.Subnets {
		do(At("spec.subnets", i), &c.Spec.Networking.Subnets[i])
	}
}

func subnets(c *Check) {
	var names, regions []string
	shared := 0
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		c.Need(s.Name != "", path+".name", "name the subnet")
		names = append(names, s.Name)
		if s.ID != "" {
			shared++
		}
		if c.on.Network.SpansRegion && s.Zone != "" {
			c.Bad(path+".zone", s.Zone, "subnets of "+c.title()+" span their region", "remove it, and name zones in the instance groups")
		}
		// Those that are shared are in the zone that the cloud tells.
		c.Need(!c.on.Network.Zoned || s.Zone != "" || s.ID != "" && !c.in.Strict, path+".zone", "name the zone of the subnet, such as us-east-1a")
		if f := c.Facts; c.on.Network.Zoned && len(f.Zones) > 0 && c.region(s) == f.Region && !slices.Contains(f.Zones, s.Zone) {
			c.Bad(path+".zone", s.Zone, "is not a zone of "+f.Region+" that can be used", "use one of "+strings.Join(f.Zones, ", "))
		}
		if region := c.region(s); region != "" {
			regions = append(regions, region)
			if region != regions[0] {
				c.Bad(path, s.Name, "is in region "+region+", and others are in "+regions[0], "keep the cluster in one region")
			}
		}
	})
	c.Unique("spec.subnets", names)
	if shared > 0 && shared < len(names) {
		c.Bad("spec.subnets", "", "some subnets are shared and others are not", "give an id to all of them or to none")
	}
}

// region is where a subnet is, or "" when it does not say.
func (c *Check) region(s *api.ClusterSubnetSpec) string {
	if s.Region == "" && s.Zone != "" {
		return c.on.Network.Region(s.Zone)
	}
	return s.Region
}

func subnetCIDRs(c *Check) {
	n := &c.Spec.Networking
	network := c.ranges()
	pods, hasPods := Parsed(n.PodCIDR)
	services, hasServices := Parsed(n.ServiceClusterIPRange)
	var before []api.ClusterSubnetSpec
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.CIDR == "" {
			return
		}
		r, ok := c.CIDR(path+".cidr", s.CIDR)
		switch {
		case !ok:
		case len(network) > 0 && !slices.ContainsFunc(network, func(o netip.Prefix) bool { return contains(o, r) }):
			c.Bad(path+".cidr", s.CIDR, "is not in the network's range "+n.NetworkCIDR, "choose a part of it, or add a range to additionalNetworkCIDRs")
		case hasPods && n.AmazonVPC == nil && r.Overlaps(pods):
			c.Bad(path+".cidr", s.CIDR, "overlaps podCIDR "+n.PodCIDR, "choose ranges that are apart")
		case hasServices && r.Overlaps(services):
			c.Bad(path+".cidr", s.CIDR, "overlaps serviceClusterIPRange "+n.ServiceClusterIPRange, "choose ranges that are apart")
		default:
			for _, o := range before {
				if other, _ := Parsed(o.CIDR); r.Overlaps(other) {
					c.Bad(path+".cidr", s.CIDR, "overlaps "+o.CIDR+" of subnet "+o.Name, "choose ranges that are apart")
				}
			}
			before = append(before, *s)
		}
	})
}

// part is an IPv6 range as a part of the network's: a length, and its number in hexadecimal.
var part = regexp.MustCompile(`^/(\d+)#[0-9a-fA-F]+$`)

func subnetIPv6(c *Check) {
	services, hasServices := Parsed(c.Spec.Networking.ServiceClusterIPRange)
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		path += ".ipv6CIDR"
		switch {
		case s.IPv6CIDR == "":
			return
		case !c.on.Has.IPv6:
			c.Bad(path, s.IPv6CIDR, "subnets of "+c.title()+" have no IPv6 ranges", "remove it")
			return
		case strings.HasPrefix(s.IPv6CIDR, "/"):
			m := part.FindStringSubmatch(s.IPv6CIDR)
			if m != nil {
				if bits, err := strconv.Atoi(m[1]); err == nil && bits <= 128 {
					return
				}
			}
			c.Bad(path, s.IPv6CIDR, "is not a part of the network's IPv6 range", "write its length and number, such as /64#1")
			return
		}
		r, ok := c.CIDR(path, s.IPv6CIDR)
		switch {
		case !ok:
		case !r.Addr().Is6():
			c.Bad(path, s.IPv6CIDR, "is an IPv4 range", "write it in cidr")
		case hasServices && r.Overlaps(services):
			c.Bad(path, s.IPv6CIDR, "overlaps serviceClusterIPRange "+services.String(), "choose ranges that are apart")
		}
	})
}

func subnetTypes(c *Check) {
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		switch {
		case s.Type == "":
			c.Required(path+".type", "write Public, Private, DualStack or Utility")
		case s.Type == api.SubnetDualStack && !c.IPv6():
			c.Bad(path+".type", string(s.Type), "is for clusters whose pods have IPv6 addresses", "use Private")
		}
	})
}

func subnetEgress(c *Check) {
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		if s.Egress == "" || s.Egress == "External" {
			return
		}
		kind, _, _ := strings.Cut(s.Egress, "-")
		if own := c.on.Network.Egress; own != nil {
			c.OneOf(path+".egress", s.Egress, append(slices.Clone(own), "External")...)
		} else if !slices.Contains([]string{"nat", "eipalloc", "i", "tgw"}, kind) {
			c.Bad(path+".egress", s.Egress, "is not a way out", "write the id of a NAT gateway (nat-), an address (eipalloc-), an instance (i-) or a transit gateway (tgw-), or External")
		}
		private := s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack
		if !private && !(s.Type == api.SubnetPublic && s.IPv6CIDR != "") {
			c.Bad(path+".egress", s.Egress, "has no effect in a subnet of type "+string(s.Type), "remove it")
		}
	})
}

func subnetRoutes(c *Check) {
	network := c.ranges()
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		path += ".additionalRoutes"
		if len(s.AdditionalRoutes) == 0 {
			return
		}
		if s.ID != "" || s.Type != api.SubnetPrivate || s.Egress == "External" {
			c.Bad(path, "", "routes are added to private subnets that kops makes and routes", "remove them")
		}
		var ranges []string
		for i, r := range s.AdditionalRoutes {
			ranges = append(ranges, r.CIDR)
			to, ok := c.CIDR(At(path, i)+".cidr", r.CIDR)
			kind, _, _ := strings.Cut(r.Target, "-")
			if !slices.Contains([]string{"pcx", "i", "nat", "tgw", "igw", "eigw"}, kind) {
				c.Bad(At(path, i)+".target", r.Target, "is not a target of routes", "write the id of a peering (pcx-), an instance (i-), or a gateway (nat-, tgw-, igw-, eigw-)")
			}
			if ok && to.Bits() == 0 {
				c.Bad(At(path, i)+".cidr", r.CIDR, "is the default route, which every private subnet has", "name its target in the egress of the subnet")
			}
			if ok && kind == "pcx" && slices.ContainsFunc(network, func(o netip.Prefix) bool { return contains(o, to) }) {
				c.Bad(At(path, i)+".cidr", r.CIDR, "is inside the network, where a peering cannot lead", "name a range of the other network")
			}
		}
		c.Unique(path, ranges)
	})
}
