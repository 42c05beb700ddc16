package newcluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// setNetwork sets what is known about the network itself.
func (b *Builder) setNetwork() {
	n := &b.Spec.Networking
	if len(b.NetworkCIDRs) > 0 {
		n.NetworkCIDR, n.AdditionalNetworkCIDRs = b.NetworkCIDRs[0], slices.Clone(b.NetworkCIDRs[1:])
	}
	for _, r := range b.NetworkCIDRs {
		if _, err := netip.ParsePrefix(r); err != nil {
			b.Fail("option:NetworkCIDRs", r, "is not a CIDR", "write one such as 172.20.0.0/16")
		}
	}
	n.NetworkID = b.NetworkID
	if b.DisableSubnetTags {
		n.TagSubnets = new(bool)
	}
	if b.Topology != "public" && b.Topology != "private" {
		b.Fail("option:Topology", b.Topology, "unknown topology", "use public or private")
	}
	if !b.IPv6 {
		return
	}
	if !b.platform.Has.IPv6 {
		b.Fail("option:IPv6", "true", "IPv6 clusters are not supported on "+b.platform.Title, "leave out option:IPv6")
	}
	n.NonMasqueradeCIDR = "::/0"
	b.Spec.CloudControllerManager = &api.CloudControllerManagerConfig{}
}

// setSubnets creates the subnets that the zones need.
func (b *Builder) setSubnets() {
	if len(b.zones) == 0 {
		b.Fail("option:Zones", "", "a cluster needs at least one zone", "specify zones with option:Zones")
		return
	}
	main := b.mainSubnets()
	if b.findings.Err() != nil {
		return
	}
	for i := range b.Spec.Networking.AdditionalNetworkCIDRs {
		zone := b.zones[i%len(b.zones)]
		main = append(main, api.ClusterSubnetSpec{Name: fmt.Sprintf("%s-%d", zone, i+1), Zone: zone, CIDR: b.Spec.Networking.AdditionalNetworkCIDRs[i]})
	}
	kind := api.SubnetPublic
	if b.private() {
		kind = api.SubnetPrivate
	}
	for i := range main {
		main[i].Type = kind
	}
	b.shareSubnets("option:SubnetIDs", b.SubnetIDs, main)
	all := main
	if b.private() && !b.platform.Network.NoUtility {
		if b.IPv6 {
			all = slices.Concat(all, companions(main, "dualstack-", api.SubnetDualStack))
		}
		utility := companions(main, "utility-", api.SubnetUtility)
		b.shareSubnets("option:UtilitySubnetIDs", b.UtilitySubnetIDs, utility)
		all = slices.Concat(all, utility)
	}
	if b.IPv6 {
		for i := range all {
			all[i].IPv6CIDR = fmt.Sprintf("/64#%x", i)
		}
	}
	b.Spec.Networking.Subnets = all
}

// companions returns a subnet of another type for each of the main ones.
func companions(main []api.ClusterSubnetSpec, prefix string, kind api.SubnetType) []api.ClusterSubnetSpec {
	var out []api.ClusterSubnetSpec
	for _, s := range main {
		out = append(out, api.ClusterSubnetSpec{Name: prefix + s.Name, Zone: s.Zone, Region: s.Region, Type: kind})
	}
	return out
}

// mainSubnets returns the subnets for machines: one per zone, or one for the region if the cloud's
// subnets span it.
func (b *Builder) mainSubnets() []api.ClusterSubnetSpec {
	if n := b.platform.Network; n.OneRegion {
		region := b.oneRegion(func(zone string) string { return cmp.Or(n.Region(zone), zone) })
		if n.RegionSubnet != nil {
			return []api.ClusterSubnetSpec{n.RegionSubnet(b.ClusterName, region)}
		}
	}
	var out []api.ClusterSubnetSpec
	for _, zone := range b.zones {
		out = append(out, api.ClusterSubnetSpec{Name: zone, Zone: zone})
	}
	return out
}

// oneRegion returns the only region of the zones; several are a finding, which says zone where each zone is
// a region.
func (b *Builder) oneRegion(of func(zone string) string) string {
	region, why, remedy := of(b.zones[0]), "a cluster on "+string(b.platform.Name)+" must be in one region", "specify zones of one region"
	if b.platform.Network.RegionOf == nil {
		why, remedy = "a new cluster on "+b.platform.Title+" must be in one zone", "specify one zone"
	}
	for _, z := range b.zones {
		if of(z) != region {
			b.Fail("option:Zones", strings.Join(b.zones, ","), why, remedy)
			break
		}
	}
	return region
}

// shareSubnets maps existing subnets to the subnets of the same zone.
func (b *Builder) shareSubnets(option string, ids []string, subnets []api.ClusterSubnetSpec) {
	for i, id := range ids {
		zone := ""
		switch {
		case b.platform.Network.SharedAreKnown:
			zone = b.sharedZone(option, id)
		case i < len(subnets):
			zone = subnets[i].Zone // other clouds are not queried: the order counts
		}
		at := slices.IndexFunc(subnets, func(s api.ClusterSubnetSpec) bool { return s.Zone == zone })
		switch {
		case b.findings.Err() != nil:
			return
		case at < 0:
			b.Fail(option, id, "the subnet is in zone "+zone+", which is not a zone of the cluster", "add the zone to option:Zones, or leave out the subnet")
		case subnets[at].ID != "":
			b.Fail(option, strings.Join(ids, ","), "two subnets are in zone "+zone, "specify one subnet per zone")
		default:
			subnets[at].ID = id
		}
	}
}

// sharedZone returns the zone of a shared subnet; its network becomes the cluster's.
func (b *Builder) sharedZone(option, id string) string {
	if s, ok := b.Facts.Subnets[id]; ok {
		if b.Spec.Networking.NetworkID == "" {
			b.Spec.Networking.NetworkID = s.Network
		}
		return s.Zone
	}
	b.Fail(option, id, "the subnet was not found", "check the id and the region")
	return ""
}
