package validate

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

// needs is what the network of a cloud must be told.
type needs struct {
	subnets, networkCIDR, nonMasquerade, subnetCIDR, subnetRegion bool
	// further says that the network may have further ranges.
	further bool
	// dns are the kinds of DNS that the cloud has beside None.
	dns []api.DNSType
}

func needsOf(cloud api.CloudProviderID) needs {
	both := []api.DNSType{api.DNSPublic, api.DNSPrivate}
	public := []api.DNSType{api.DNSPublic}
	return map[api.CloudProviderID]needs{
		api.CloudAWS:       {subnets: true, networkCIDR: true, nonMasquerade: true, subnetCIDR: true, further: true, dns: both},
		api.CloudAzure:     {subnets: true, networkCIDR: true, nonMasquerade: true, subnetCIDR: true, subnetRegion: true},
		api.CloudDO:        {nonMasquerade: true, subnetRegion: true, dns: public},
		api.CloudGCE:       {subnets: true, subnetRegion: true, dns: both},
		api.CloudHetzner:   {nonMasquerade: true},
		api.CloudOpenstack: {subnets: true, nonMasquerade: true, dns: both},
		api.CloudScaleway:  {subnets: true, nonMasquerade: true, dns: public},
		api.CloudLinode:    {nonMasquerade: true, subnetRegion: true},
		api.CloudLocal:     {subnets: true, networkCIDR: true, nonMasquerade: true},
		api.CloudMetal:     {subnets: true, nonMasquerade: true},
	}[cloud]
}

func networkNeeds(c *check) {
	n, want := &c.spec.Networking, needsOf(c.cloud)
	c.need(!want.subnets || len(n.Subnets) > 0, "spec.subnets", "add at least one subnet (kops create cluster --zones makes one for each)")
	c.need(!want.networkCIDR || n.NetworkCIDR != "", "spec.networkCIDR", "write the range of the network, such as 172.20.0.0/16")
	c.need(!want.nonMasquerade || n.NonMasqueradeCIDR != "", "spec.nonMasqueradeCIDR", "write the range of pods and services, such as 100.64.0.0/10")
	if c.cloud == api.CloudGCE && n.NetworkCIDR != "" {
		c.bad("spec.networkCIDR", n.NetworkCIDR, "has no meaning on GCE, whose networks have no range", "remove it")
	}
	if len(n.AdditionalNetworkCIDRs) > 0 && !want.further {
		c.bad("spec.additionalNetworkCIDRs", strings.Join(n.AdditionalNetworkCIDRs, ","), "a network has further ranges on AWS only", "remove it")
	}
	for i, s := range n.Subnets {
		c.need(!want.subnetRegion || s.Region != "", at("spec.subnets", i)+".region", "name the region of the subnet")
		ipv6Only := c.ipv6() && s.IPv6CIDR != "" && s.Type == api.SubnetPrivate
		c.need(!want.subnetCIDR || !c.in.Strict || s.CIDR != "" || ipv6Only, at("spec.subnets", i)+".cidr", "write the range of the subnet")
	}
}

func (c *check) ipv6() bool { return complete.IsIPv6(c.spec) }

// ranges are those of the network that can be read.
func (c *check) ranges() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range slices.Concat([]string{c.spec.Networking.NetworkCIDR}, c.spec.Networking.AdditionalNetworkCIDRs) {
		if r, ok := parsed(s); ok {
			out = append(out, r)
		}
	}
	return out
}

func networkCIDR(c *check) {
	n := &c.spec.Networking
	for i, r := range n.AdditionalNetworkCIDRs {
		c.cidr(at("spec.additionalNetworkCIDRs", i), r)
	}
	if n.NetworkCIDR == "" {
		return
	}
	r, ok := c.cidr("spec.networkCIDR", n.NetworkCIDR)
	if !ok || !c.onCloud(api.CloudDO, api.CloudLinode) {
		return
	}
	if !r.Addr().IsPrivate() {
		c.bad("spec.networkCIDR", n.NetworkCIDR, "is not a private range", "use one in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
	}
	if n.NetworkID != "" {
		c.bad("spec.networkCIDR", n.NetworkCIDR, "a shared network has its own range", "remove it, or networkID")
	}
}

func nonMasqueradeCIDR(c *check) {
	const path = "spec.nonMasqueradeCIDR"
	n := &c.spec.Networking
	if n.NonMasqueradeCIDR == "" {
		return
	}
	r, ok := c.cidr(path, n.NonMasqueradeCIDR)
	if !ok {
		return
	}
	if r.Addr().Is6() {
		if r.Bits() != 0 {
			c.bad(path, n.NonMasqueradeCIDR, "is a part of the IPv6 addresses", "write ::/0, or an IPv4 range")
		}
		return
	}
	if n.AmazonVPC != nil || n.Cilium != nil && n.Cilium.IPAM == "eni" {
		return // pods have addresses of the network
	}
	for _, o := range c.ranges() {
		if r.Overlaps(o) {
			c.bad(path, n.NonMasqueradeCIDR, "overlaps "+o.String()+" of the network", "choose ranges that are apart")
		}
	}
}

func podCIDR(c *check) {
	const path = "spec.podCIDR"
	n := &c.spec.Networking
	whole, ok := parsed(n.NonMasqueradeCIDR)
	for _, r := range []struct{ path, value string }{{path, n.PodCIDR}, {"spec.kubeControllerManager.clusterCIDR", c.clusterCIDR()}} {
		if r.value == "" {
			c.need(r.path != path || !c.in.Strict || c.ipv6(), path, "write the range of pods")
			continue
		}
		if r.path != path && r.value == n.PodCIDR {
			continue
		}
		if pods, valid := c.cidr(r.path, r.value); valid && ok && !contains(whole, pods) {
			c.bad(r.path, r.value, "is not in nonMasqueradeCIDR "+n.NonMasqueradeCIDR, "choose a part of it")
		}
	}
}

func (c *check) clusterCIDR() string {
	if m := c.spec.KubeControllerManager; m != nil {
		return m.ClusterCIDR
	}
	return ""
}

func serviceRange(c *check) {
	const path = "spec.serviceClusterIPRange"
	services := c.spec.Networking.ServiceClusterIPRange
	if services == "" {
		c.need(!c.in.Strict, path, "write the range of services")
		return
	}
	if _, ok := c.cidr(path, services); !ok {
		return
	}
	if a := c.spec.KubeAPIServer; a != nil && a.ServiceClusterIPRange != "" && a.ServiceClusterIPRange != services {
		c.bad("spec.kubeAPIServer.serviceClusterIPRange", a.ServiceClusterIPRange, "is not spec.serviceClusterIPRange "+services, "remove it")
	}
}

func dnsType(c *check) {
	const path = "spec.topology.dns.type"
	dns := complete.DNS(c.spec)
	have := needsOf(c.cloud).dns
	if c.cloud == "" || dns == api.DNSNone || dns != api.DNSPublic && dns != api.DNSPrivate || slices.Contains(have, dns) {
		return
	}
	remedy := "set it to None"
	for _, d := range have {
		remedy += " or " + string(d)
	}
	c.bad(path, string(dns), "is not supported on "+title(c.cloud), remedy)
}
