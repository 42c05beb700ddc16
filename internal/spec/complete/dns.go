package complete

import (
	"net/netip"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

func setKubeDNS(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeDNS)
	fill.Value(&c.Provider, "CoreDNS")
	fill.Value(&c.CacheMaxSize, 1000)
	fill.Value(&c.CacheMaxConcurrent, 150)
	fill.Value(&c.Domain, p.Spec.ClusterDNSDomain)
	fill.Quantity(&c.MemoryRequest, "70Mi")
	fill.Quantity(&c.CPURequest, "100m")
	fill.Quantity(&c.MemoryLimit, "170Mi")
	if r, err := netip.ParsePrefix(p.Spec.Networking.ServiceClusterIPRange); err == nil {
		fill.Value(&c.ServerIP, nth(r, 10).String())
	}
}

func setNodeLocalDNS(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeDNS.NodeLocalDNS)
	fill.Ptr(&c.Enabled, false)
	fill.Quantity(&c.MemoryRequest, "5Mi")
	fill.Quantity(&c.CPURequest, "25m")
	fill.Ptr(&c.Image, "registry.k8s.io/dns/k8s-dns-node-cache:1.26.0")
	if !*c.Enabled {
		return
	}
	local := "169.254.20.10"
	if p.IPv6() {
		local = "fd00:90de:d95::1"
	}
	fill.Value(&c.LocalIP, local)
	fill.Ptr(&c.ForwardToKubeDNS, false)
}

// setDNSZone finds the hosted zone, public or private like the cluster's names, with the longest
// name that is a suffix of the cluster's name.
func setDNSZone(p *Pass) {
	if p.Spec.DNSZone != "" || p.dns() == api.DNSNone || !p.platform.HasDNS() {
		return
	}
	var found []string
	longest := ""
	for _, z := range p.Facts.DNSZones {
		name := strings.TrimSuffix(z.Name, ".")
		if z.Private != (p.dns() == api.DNSPrivate) || !strings.HasSuffix("."+p.Cluster.Name, "."+name) {
			continue
		}
		switch {
		case len(name) > len(longest):
			longest, found = name, []string{z.ID}
		case name == longest:
			found = append(found, z.ID)
		}
	}
	kind := strings.ToLower(string(p.dns()))
	switch len(found) {
	case 1:
		p.Spec.DNSZone = found[0]
	case 0:
		p.Fail("spec.dnsZone", "", "dns-zone", "no "+kind+" DNS zone of the account contains the cluster's name",
			"create a zone for the domain of the name, specify a zone in spec.dnsZone, or set spec.topology.dns.type to None")
	default:
		p.Fail("spec.dnsZone", strings.Join(found, ","), "dns-zone", "several "+kind+" DNS zones are named "+longest, "set spec.dnsZone to the ID of one of them")
	}
}
