package newcluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// setNetwork says what is known of the network itself.
func (b *builder) setNetwork() {
	n := &b.spec.Networking
	if len(b.NetworkCIDRs) > 0 {
		n.NetworkCIDR, n.AdditionalNetworkCIDRs = b.NetworkCIDRs[0], slices.Clone(b.NetworkCIDRs[1:])
	}
	for _, r := range b.NetworkCIDRs {
		if _, err := netip.ParsePrefix(r); err != nil {
			b.fail("--network-cidr", r, "is not a range of addresses", "write one such as 172.20.0.0/16")
		}
	}
	n.NetworkID = b.NetworkID
	if n.NetworkID == "" {
		n.NetworkID = b.OpenstackNetworkID
	}
	if b.DisableSubnetTags {
		n.TagSubnets = new(bool)
	}
	if b.Topology != "public" && b.Topology != "private" {
		b.fail("--topology", b.Topology, "unknown topology", "use public or private")
	}
	if !b.IPv6 {
		return
	}
	if b.cloud != api.CloudAWS {
		b.fail("--ipv6", "true", "IPv6 clusters are made on AWS only", "leave --ipv6 out")
	}
	n.NonMasqueradeCIDR = "::/0"
	b.spec.CloudControllerManager = &api.CloudControllerManagerConfig{}
}

// setSubnets makes the subnets that the zones need.
func (b *builder) setSubnets() {
	if len(b.zones) == 0 {
		b.fail("--zones", "", "a cluster needs at least one zone", "name zones with --zones")
		return
	}
	main := b.mainSubnets()
	if b.findings.Err() != nil {
		return
	}
	for i := range b.spec.Networking.AdditionalNetworkCIDRs {
		zone := b.zones[i%len(b.zones)]
		main = append(main, api.ClusterSubnetSpec{Name: fmt.Sprintf("%s-%d", zone, i+1), Zone: zone, CIDR: b.spec.Networking.AdditionalNetworkCIDRs[i]})
	}
	kind := api.SubnetPublic
	if b.private() {
		kind = api.SubnetPrivate
	}
	for i := range main {
		main[i].Type = kind
	}
	b.share("--subnets", b.SubnetIDs, main)
	all := main
	if b.private() && b.cloud != api.CloudGCE {
		if b.IPv6 {
			all = slices.Concat(all, companions(main, "dualstack-", api.SubnetDualStack))
		}
		utility := companions(main, "utility-", api.SubnetUtility)
		b.share("--utility-subnets", b.UtilitySubnetIDs, utility)
		all = slices.Concat(all, utility)
	}
	if b.IPv6 {
		for i := range all {
			all[i].IPv6CIDR = fmt.Sprintf("/64#%x", i)
		}
	}
	b.spec.Networking.Subnets = all
}

// companions are subnets of another type beside each of the main ones.
func companions(main []api.ClusterSubnetSpec, prefix string, kind api.SubnetType) []api.ClusterSubnetSpec {
	var out []api.ClusterSubnetSpec
	for _, s := range main {
		out = append(out, api.ClusterSubnetSpec{Name: prefix + s.Name, Zone: s.Zone, Region: s.Region, Type: kind})
	}
	return out
}

// mainSubnets are those in which machines stand: one a zone, or one for the
// region where the cloud's subnets span it.
func (b *builder) mainSubnets() []api.ClusterSubnetSpec {
	switch b.cloud {
	case api.CloudGCE:
		region := b.oneRegion(func(zone string) string { return cutLast(zone, "-") })
		return []api.ClusterSubnetSpec{{Name: region, Region: region}}
	case api.CloudAzure:
		region := b.oneRegion(func(zone string) string { return cutLast(zone, "-") })
		return []api.ClusterSubnetSpec{{Name: b.ClusterName, Region: region}}
	case api.CloudDO, api.CloudLinode:
		region := b.oneRegion(func(zone string) string { return zone })
		return []api.ClusterSubnetSpec{{Name: region, Region: region, Zone: region}}
	case api.CloudHetzner, api.CloudScaleway:
		b.oneRegion(func(zone string) string { return zone })
	}
	var out []api.ClusterSubnetSpec
	for _, zone := range b.zones {
		out = append(out, api.ClusterSubnetSpec{Name: zone, Zone: zone})
	}
	return out
}

// oneRegion is the only region of the zones; several are a finding.
func (b *builder) oneRegion(of func(zone string) string) string {
	region := of(b.zones[0])
	for _, z := range b.zones {
		if of(z) != region {
			b.fail("--zones", strings.Join(b.zones, ","), "a cluster on "+string(b.cloud)+" stands in one region", "name zones of one region only")
			break
		}
	}
	return region
}

// cutLast is the text before the last separator.
func cutLast(s, separator string) string {
	if i := strings.LastIndex(s, separator); i > 0 {
		return s[:i]
	}
	return s
}

// share gives existing subnets to those of the same zone.
func (b *builder) share(flag string, ids []string, subnets []api.ClusterSubnetSpec) {
	for i, id := range ids {
		zone := ""
		switch {
		case b.cloud == api.CloudAWS:
			zone = b.sharedZone(flag, id)
		case i < len(subnets):
			zone = subnets[i].Zone // other clouds are not asked: the order counts
		}
		at := slices.IndexFunc(subnets, func(s api.ClusterSubnetSpec) bool { return s.Zone == zone })
		switch {
		case b.findings.Err() != nil:
			return
		case at < 0:
			b.fail(flag, id, "the subnet is in zone "+zone+", which is none of the cluster's", "add the zone to --zones, or leave the subnet out")
		case subnets[at].ID != "":
			b.fail(flag, strings.Join(ids, ","), "two subnets are in zone "+zone, "name one subnet a zone")
		default:
			subnets[at].ID = id
		}
	}
}

// sharedZone is the zone of a shared subnet of AWS; its VPC becomes the cluster's.
func (b *builder) sharedZone(flag, id string) string {
	if f := b.world.Facts; f != nil && f.AWS != nil {
		if s, ok := f.AWS.Subnets[id]; ok {
			if b.spec.Networking.NetworkID == "" {
				b.spec.Networking.NetworkID = s.VPC
			}
			return s.Zone
		}
	}
	b.fail(flag, id, "the subnet was not found", "check the id and the region")
	return ""
}
