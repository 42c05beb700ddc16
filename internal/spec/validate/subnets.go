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
		c.Need(s.Name != "", path+".name", "specify the name of the subnet")
		names = append(names, s.Name)
		if s.ID != "" {
			shared++
		}
		if c.platform.Network.SpansRegion && s.Zone != "" {
			c.Bad(path+".zone", s.Zone, "subnets of "+c.title()+" span their region", "remove it, and set zones in the instance groups")
		}
		// The zones of shared subnets are known from the cloud.
		c.Need(!c.platform.Network.Zoned || s.Zone != "" || s.ID != "" && !c.input.Strict, path+".zone", "specify the zone of the subnet, such as us-east-1a")
		if f := c.Facts; c.platform.Network.Zoned && len(f.Zones) > 0 && c.region(s) == f.Region && !slices.Contains(f.Zones, s.Zone) {
			c.Bad(path+".zone", s.Zone, "is not an available zone of "+f.Region, "use one of "+strings.Join(f.Zones, ", "))
		}
		if region := c.region(s); region != "" {
			regions = append(regions, region)
			if region != regions[0] {
				c.Bad(path, s.Name, "is in region "+region+", but other subnets are in "+regions[0], "keep the cluster in one region")
			}
		}
	})
	c.Unique("spec.subnets", names)
	if shared > 0 && shared < len(names) {
		c.Bad("spec.subnets", "", "some subnets are shared and others are not", "set the id of all subnets, or of no subnet")
	}
}

// region returns where a subnet is, or "" if it does not specify it.
func (c *Check) region(s *api.ClusterSubnetSpec) string {
	if s.Region == "" && s.Zone != "" {
		return c.platform.Network.Region(s.Zone)
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
			c.Bad(path+".cidr", s.CIDR, "is not in the network's range "+n.NetworkCIDR, "choose a range inside it, or add a range to additionalNetworkCIDRs")
		case hasPods && n.AmazonVPC == nil && r.Overlaps(pods):
			c.Bad(path+".cidr", s.CIDR, "overlaps podCIDR "+n.PodCIDR, "choose ranges that do not overlap")
		case hasServices && r.Overlaps(services):
			c.Bad(path+".cidr", s.CIDR, "overlaps serviceClusterIPRange "+n.ServiceClusterIPRange, "choose ranges that do not overlap")
		default:
			for _, o := range before {
				if other, _ := Parsed(o.CIDR); r.Overlaps(other) {
					c.Bad(path+".cidr", s.CIDR, "overlaps "+o.CIDR+" of subnet "+o.Name, "choose ranges that do not overlap")
				}
			}
			before = append(before, *s)
		}
	})
}

// part matches an IPv6 range that is a part of the network's: a length, and its number in
// hexadecimal.
var part = regexp.MustCompile(`^/(\d+)#[0-9a-fA-F]+$`)

func subnetIPv6(c *Check) {
	services, hasServices := Parsed(c.Spec.Networking.ServiceClusterIPRange)
	c.EachSubnet(func(path string, s *api.ClusterSubnetSpec) {
		path += ".ipv6CIDR"
		switch {
		case s.IPv6CIDR == "":
			return
		case !c.platform.Has.IPv6:
			c.Bad(path, s.IPv6CIDR, "subnets of "+c.title()+" have no IPv6 ranges", "remove it")
			return
		case strings.HasPrefix(s.IPv6CIDR, "/"):
			m := part.FindStringSubmatch(s.IPv6CIDR)
			if m != nil {
				if bits, err := strconv.Atoi(m[1]); err == nil && bits <= 128 {
					return
				}
			}
			c.Bad(path, s.IPv6CIDR, "is not in the network's IPv6 range", "write its prefix length and number, such as /64#1")
			return
		}
		r, ok := c.CIDR(path, s.IPv6CIDR)
		switch {
		case !ok:
		case !r.Addr().Is6():
			c.Bad(path, s.IPv6CIDR, "is an IPv4 range", "write it in cidr")
		case hasServices && r.Overlaps(services):
			c.Bad(path, s.IPv6CIDR, "overlaps serviceClusterIPRange "+services.String(), "choose ranges that do not overlap")
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
		if own := c.platform.Network.Egress; own != nil {
			c.OneOf(path+".egress", s.Egress, append(slices.Clone(own), "External")...)
		} else if !slices.Contains([]string{"nat", "eipalloc", "i", "tgw"}, kind) {
			c.Bad(path+".egress", s.Egress, "is not a supported egress", "write the id of a NAT gateway (nat-), an address (eipalloc-), an instance (i-) or a transit gateway (tgw-), or External")
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
			c.Bad(path, "", "is only supported in private subnets whose routes kops manages", "remove them")
		}
		var ranges []string
		for i, r := range s.AdditionalRoutes {
			ranges = append(ranges, r.CIDR)
			to, ok := c.CIDR(At(path, i)+".cidr", r.CIDR)
			kind, _, _ := strings.Cut(r.Target, "-")
			if !slices.Contains([]string{"pcx", "i", "nat", "tgw", "igw", "eigw"}, kind) {
				c.Bad(At(path, i)+".target", r.Target, "is not a valid route target", "write the id of a peering (pcx-), an instance (i-), or a gateway (nat-, tgw-, igw-, eigw-)")
			}
			if ok && to.Bits() == 0 {
				c.Bad(At(path, i)+".cidr", r.CIDR, "is the default route, which every private subnet has", "set the egress of the subnet instead")
			}
			if ok && kind == "pcx" && slices.ContainsFunc(network, func(o netip.Prefix) bool { return contains(o, to) }) {
				c.Bad(At(path, i)+".cidr", r.CIDR, "is inside the network, so it cannot be routed to a peering", "use a range of the other network")
			}
		}
		c.Unique(path, ranges)
	})
}
