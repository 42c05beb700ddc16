package complete

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

func setNetworkCIDR(p *Pass) {
	if n := &p.Spec.Networking; n.NetworkID == "" {
		fill.Value(&n.NetworkCIDR, p.platform.Network.CIDR)
	}
}

// setSubnets splits the network's range between the subnets that have none.
//
// The range is cut into 1, 2, 4 or 8 equal slices, as many as the subnets need, or more if slices
// overlap ranges that the user specified, as these are dropped. Utility subnets share the first
// slice, an eighth each; the others get a slice each, in the order of the zones.
func setSubnets(p *Pass) {
	if !p.platform.Network.Split || p.failed("network-cidr") {
		return
	}
	n := &p.Spec.Networking
	var big, little []*api.ClusterSubnetSpec
	var given []netip.Prefix
	for i := range n.Subnets {
		s := &n.Subnets[i]
		switch {
		case s.CIDR != "":
			given = Ranges(given, s.CIDR)
		case s.ID != "": // looked up above
		case s.Type == api.SubnetUtility:
			little = append(little, s)
		default:
			big = append(big, s)
		}
	}
	if len(big)+len(little) == 0 {
		return
	}
	whole, err := netip.ParsePrefix(n.NetworkCIDR)
	if err != nil {
		p.Fail("spec.networkCIDR", n.NetworkCIDR, "subnet-cidr", "subnets have no CIDR, and the network has no CIDR to split", "set spec.networkCIDR, or the cidr of every subnet")
		return
	}
	if !whole.Addr().Is4() {
		p.Fail("spec.networkCIDR", n.NetworkCIDR, "subnet-cidr", "is an IPv6 range, but subnets need an IPv4 range", "use a range such as 172.20.0.0/16")
		return
	}
	byZone(big)
	byZone(little)
	if err := assign(p, whole, given, big, little); err != "" {
		p.Fail("spec.networkCIDR", n.NetworkCIDR, "subnet-cidr", err, "enlarge spec.networkCIDR, or set the cidr of every subnet")
	}
}

func byZone(subnets []*api.ClusterSubnetSpec) {
	slices.SortStableFunc(subnets, func(a, b *api.ClusterSubnetSpec) int { return strings.Compare(a.Zone, b.Zone) })
}

// assign gives the subnets their ranges; it returns what is wrong, or "".
func assign(p *Pass, whole netip.Prefix, given []netip.Prefix, big, little []*api.ClusterSubnetSpec) string {
	free, err := slicesFor(whole, given, len(big), len(little) > 0)
	if err != nil {
		return err.Error()
	}
	if len(little) > 0 {
		if len(free) == 0 {
			return "no room is left for utility subnets"
		}
		pieces, err := split(free[0], 3)
		if err != nil {
			return err.Error()
		}
		if len(little) > len(pieces) {
			return "no room is left for so many utility subnets"
		}
		for i, s := range little {
			s.CIDR = pieces[i].String()
		}
		free = free[1:]
	}
	for _, s := range big {
		if p.IPv6() && s.Type == api.SubnetPrivate { // its machines only have IPv6 addresses
			continue
		}
		if len(free) == 0 {
			return "no room is left for subnet " + s.Name
		}
		s.CIDR, free = free[0].String(), free[1:]
	}
	return ""
}

// slicesFor cuts the range into slices, one for each big subnet and one for all little ones, and
// returns those that do not overlap given ranges. At most eight are cut, even if they are too few.
func slicesFor(whole netip.Prefix, given []netip.Prefix, big int, little bool) ([]netip.Prefix, error) {
	const most = 3 // bits
	need := big
	if little {
		need++
	}
	for bits := 0; ; bits++ {
		if bits < most && 1<<bits < need {
			continue
		}
		parts, err := split(whole, bits)
		if err != nil {
			return nil, err
		}
		free := slices.DeleteFunc(parts, func(s netip.Prefix) bool { return overlapsAny(s, given) })
		if bits == most || len(free) >= need {
			return free, nil
		}
	}
}
