package complete

import (
	"net/netip"
	"strings"

	"kops.local/kops/api"
)

func setKubeDNS(p *pass) {
	c := ensure(&p.spec.KubeDNS)
	fill(&c.Provider, "CoreDNS")
	fill(&c.CacheMaxSize, 1000)
	fill(&c.CacheMaxConcurrent, 150)
	fill(&c.Domain, p.spec.ClusterDNSDomain)
	fillQuantity(&c.MemoryRequest, "70Mi")
	fillQuantity(&c.CPURequest, "100m")
	fillQuantity(&c.MemoryLimit, "170Mi")
	if r, err := netip.ParsePrefix(p.spec.Networking.ServiceClusterIPRange); err == nil {
		fill(&c.ServerIP, nth(r, 10).String())
	}
	if p.ipv6() && p.cloud == api.CloudAWS {
		fillList(&c.UpstreamNameservers, "fd00:ec2::253")
	}
}

func setNodeLocalDNS(p *pass) {
	c := ensure(&p.spec.KubeDNS.NodeLocalDNS)
	fillPtr(&c.Enabled, false)
	fillQuantity(&c.MemoryRequest, "5Mi")
	fillQuantity(&c.CPURequest, "25m")
	fillPtr(&c.Image, "registry.k8s.io/dns/k8s-dns-node-cache:1.26.0")
	if !*c.Enabled {
		return
	}
	local := "169.254.20.10"
	if p.ipv6() {
		local = "fd00:90de:d95::1"
	}
	fill(&c.LocalIP, local)
	fillPtr(&c.ForwardToKubeDNS, false)
}

// publishes reports whether the cloud has a DNS service for names of clusters; where
// it has none, validation refuses every kind of DNS but None.
func (p *pass) publishes() bool {
	switch p.cloud {
	case api.CloudAWS, api.CloudGCE, api.CloudOpenstack, api.CloudDO, api.CloudScaleway:
		return true
	}
	return false
}

// setDNSZone finds the hosted zone, public or private as the cluster's names are,
// whose name is the longest that the cluster's name ends in.
func setDNSZone(p *pass) {
	if p.spec.DNSZone != "" || p.dns() == api.DNSNone || !p.publishes() {
		return
	}
	var found []string
	longest := ""
	for _, z := range p.hostedZones() {
		name := strings.TrimSuffix(z.Name, ".")
		if z.Private != (p.dns() == api.DNSPrivate) || !strings.HasSuffix("."+p.cluster.Name, "."+name) {
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
		p.spec.DNSZone = found[0]
	case 0:
		p.fail("spec.dnsZone", "", "dns-zone", "no "+kind+" DNS zone of the account holds the cluster's name",
			"make a zone for the end of the name, name a zone in spec.dnsZone, or set spec.topology.dns.type to None")
	default:
		p.fail("spec.dnsZone", strings.Join(found, ","), "dns-zone", "several "+kind+" DNS zones are named "+longest, "name the id of one of them in spec.dnsZone")
	}
}
