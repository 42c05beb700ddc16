package validate

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
)

func networkNeeds(c *Check) {
	n, want := &c.Spec.Networking, c.platform.Network
	c.Need(!want.NeedsSubnets || len(n.Subnets) > 0, "spec.subnets", "add at least one subnet (kops create cluster --zones creates one for each zone)")
	c.Need(!want.NeedsCIDR || n.NetworkCIDR != "", "spec.networkCIDR", "specify the CIDR of the network, such as 172.20.0.0/16")
	c.Need(!want.NeedsNonMasquerade || n.NonMasqueradeCIDR != "", "spec.nonMasqueradeCIDR", "specify the CIDR of pods and services, such as 100.64.0.0/10")
	if want.NoCIDR && n.NetworkCIDR != "" {
		c.Bad("spec.networkCIDR", n.NetworkCIDR, "has no meaning on "+c.title()+", where networks do not have a CIDR", "remove it")
	}
	if len(n.AdditionalNetworkCIDRs) > 0 && !c.platform.Has.FurtherRanges {
		c.Bad("spec.additionalNetworkCIDRs", strings.Join(n.AdditionalNetworkCIDRs, ","), "a network on "+c.title()+" can have only one CIDR", "remove it")
	}
	for i, s := range n.Subnets {
		c.Need(!want.NeedsSubnetRegion || s.Region != "", At("spec.subnets", i)+".region", "specify the region of the subnet")
		ipv6Only := c.IPv6() && s.IPv6CIDR != "" && s.Type == api.SubnetPrivate
		c.Need(!want.NeedsSubnetCIDR || !c.input.Strict || s.CIDR != "" || ipv6Only, At("spec.subnets", i)+".cidr", "specify the CIDR of the subnet")
	}
}

func (c *Check) IPv6() bool { return c.Spec.IPv6Only() }

// ranges returns the valid ranges of the network.
func (c *Check) ranges() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range slices.Concat([]string{c.Spec.Networking.NetworkCIDR}, c.Spec.Networking.AdditionalNetworkCIDRs) {
		if r, ok := Parsed(s); ok {
			out = append(out, r)
		}
	}
	return out
}

func networkCIDR(c *Check) {
	n := &c.Spec.Networking
	for i, r := range n.AdditionalNetworkCIDRs {
		c.CIDR(At("spec.additionalNetworkCIDRs", i), r)
	}
	if n.NetworkCIDR == "" {
		return
	}
	c.CIDR("spec.networkCIDR", n.NetworkCIDR)
}

// PrivateNetwork is a rule of platforms whose networks have a private range, which a shared one
// already has.
func PrivateNetwork(c *Check) {
	n := &c.Spec.Networking
	r, ok := Parsed(n.NetworkCIDR)
	if !ok {
		return
	}
	if !r.Addr().IsPrivate() {
		c.Bad("spec.networkCIDR", n.NetworkCIDR, "is not a private range", "use one in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
	if n.NetworkID != "" {
		c.Bad("spec.networkCIDR", n.NetworkCIDR, "a shared network has its own range", "remove it, or networkID")
	}
}

func nonMasqueradeCIDR(c *Check) {
	const path = "spec.nonMasqueradeCIDR"
	n := &c.Spec.Networking
	if n.NonMasqueradeCIDR == "" {
		return
	}
	r, ok := c.CIDR(path, n.NonMasqueradeCIDR)
	if !ok {
		return
	}
	if r.Addr().Is6() {
		if r.Bits() != 0 {
			c.Bad(path, n.NonMasqueradeCIDR, "covers only some IPv6 addresses", "write ::/0, or an IPv4 range")
		}
		return
	}
	if n.AmazonVPC != nil || n.Cilium != nil && n.Cilium.IPAM == "eni" {
		return // pods have addresses in the network
	}
	for _, o := range c.ranges() {
		if r.Overlaps(o) {
			c.Bad(path, n.NonMasqueradeCIDR, "overlaps "+o.String()+" of the network", "choose ranges that do not overlap")
		}
	}
}

func podCIDR(c *Check) {
	const path = "spec.podCIDR"
	n := &c.Spec.Networking
	whole, ok := Parsed(n.NonMasqueradeCIDR)
	for _, r := range []struct{ path, value string }{{path, n.PodCIDR}, {"spec.kubeControllerManager.clusterCIDR", c.clusterCIDR()}} {
		if r.value == "" {
			c.Need(r.path != path || !c.input.Strict || c.IPv6(), path, "specify the CIDR of pods")
			continue
		}
		if r.path != path && r.value == n.PodCIDR {
			continue
		}
		if pods, valid := c.CIDR(r.path, r.value); valid && ok && !contains(whole, pods) {
			c.Bad(r.path, r.value, "is not in nonMasqueradeCIDR "+n.NonMasqueradeCIDR, "choose a range inside it")
		}
	}
}

func (c *Check) clusterCIDR() string {
	if m := c.Spec.KubeControllerManager; m != nil {
		return m.ClusterCIDR
	}
	return ""
}

func serviceRange(c *Check) {
	const path = "spec.serviceClusterIPRange"
	services := c.Spec.Networking.ServiceClusterIPRange
	if services == "" {
		c.Need(!c.input.Strict, path, "specify the CIDR of services")
		return
	}
	if _, ok := c.CIDR(path, services); !ok {
		return
	}
	if a := c.Spec.KubeAPIServer; a != nil && a.ServiceClusterIPRange != "" && a.ServiceClusterIPRange != services {
		c.Bad("spec.kubeAPIServer.serviceClusterIPRange", a.ServiceClusterIPRange, "is not spec.serviceClusterIPRange "+services, "remove it")
	}
}

func dnsType(c *Check) {
	const path = "spec.topology.dns.type"
	dns := c.Spec.DNSType()
	have := c.platform.Network.DNS
	if c.platform.Name == "" || dns == api.DNSNone || dns != api.DNSPublic && dns != api.DNSPrivate || slices.Contains(have, dns) {
		return
	}
	remedy := "set it to None"
	for _, d := range have {
		remedy += " or " + string(d)
	}
	c.Bad(path, string(dns), "is not supported on "+c.title(), remedy)
}
