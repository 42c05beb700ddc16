package complete

import (
	"net/netip"
	"strings"

	"kops.local/kops/api"
)

func dropVersionPrefix(p *pass) {
	p.spec.KubernetesVersion = strings.TrimPrefix(p.spec.KubernetesVersion, "v")
}

func setDNSType(p *pass) { fill(&ensure(&p.spec.Networking.Topology).DNS, api.DNSPublic) }

func setAuthorization(p *pass) {
	a := ensure(&p.spec.Authorization)
	if a.AlwaysAllow == nil {
		ensure(&a.RBAC)
	}
}

func setPodCIDR(p *pass) {
	n := &p.spec.Networking
	if n.PodCIDR != "" || p.ipv6() {
		return
	}
	whole, err := netip.ParsePrefix(n.NonMasqueradeCIDR)
	if err == nil {
		whole, err = podRange(whole)
	}
	if err != nil {
		p.fail("spec.nonMasqueradeCIDR", n.NonMasqueradeCIDR, "pod-cidr", "is not a range that pods can be given addresses from", "write an IPv4 range such as "+nonMasquerade)
		return
	}
	n.PodCIDR = whole.String()
}

func setServiceRange(p *pass) {
	r := serviceRange4
	if p.ipv6() {
		r = serviceRange6
	}
	fill(&p.spec.Networking.ServiceClusterIPRange, r)
}

func setStores(p *pass) {
	s := &p.spec.ConfigStore
	if s.Base != "" {
		base := strings.TrimSuffix(s.Base, "/")
		fill(&s.Keypairs, base+"/pki")
		fill(&s.Secrets, base+"/secrets")
	}
}

func setClusterDomain(p *pass) { fill(&p.spec.ClusterDNSDomain, clusterDomain) }

// setAPIAccess chooses how the API is reached by the subnets of the machines that serve it.
func setAPIAccess(p *pass) {
	a := &p.spec.API
	if a.DNS != nil || a.LoadBalancer != nil || p.cloud == api.CloudOpenstack {
		return
	}
	for _, g := range p.groups {
		if !g.HasAPIServer() {
			continue
		}
		for _, name := range g.Spec.Subnets {
			s := p.subnet(name)
			switch {
			case s == nil:
			case s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack:
				ensure(&a.LoadBalancer)
			default:
				ensure(&a.DNS)
			}
		}
	}
	if a.LoadBalancer != nil {
		a.DNS = nil
	}
}

func setLoadBalancer(p *pass) {
	if lb := p.spec.API.LoadBalancer; lb != nil {
		fill(&lb.Type, api.LoadBalancerPublic)
	}
}

func setPublicName(p *pass) { fill(&p.spec.API.PublicName, p.publicName()) }

func setExternalDNS(p *pass) {
	if p.dns() != api.DNSNone {
		fill(&ensure(&p.spec.ExternalDNS).Provider, api.ExternalDNSProviderDNSController)
	}
}
