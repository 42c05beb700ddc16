package complete

import (
	"net/netip"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

func dropVersionPrefix(p *Pass) {
	p.Spec.KubernetesVersion = strings.TrimPrefix(p.Spec.KubernetesVersion, "v")
}

func setDNSType(p *Pass) { fill.Value(&fill.Ensure(&p.Spec.Networking.Topology).DNS, api.DNSPublic) }

func setAuthorization(p *Pass) {
	a := fill.Ensure(&p.Spec.Authorization)
	if a.AlwaysAllow == nil {
		fill.Ensure(&a.RBAC)
	}
}

func setPodCIDR(p *Pass) {
	n := &p.Spec.Networking
	if n.PodCIDR != "" || p.IPv6() {
		return
	}
	whole, err := netip.ParsePrefix(n.NonMasqueradeCIDR)
	if err == nil {
		whole, err = podRange(whole)
	}
	if err != nil {
		p.Fail("spec.nonMasqueradeCIDR", n.NonMasqueradeCIDR, "pod-cidr", "cannot be split into addresses for pods", "write an IPv4 range such as "+nonMasquerade)
		return
	}
	n.PodCIDR = whole.String()
}

func setServiceRange(p *Pass) { p.Spec.Networking.ServiceClusterIPRange = ServiceRange(p.Spec) }

// ServiceRange returns the range of the addresses of services: the user's or, if the spec is not
// completed, the default.
func ServiceRange(s *api.ClusterSpec) string {
	r := s.Networking.ServiceClusterIPRange
	switch {
	case r != "":
		return r
	case s.IPv6Only():
		return serviceRange6
	}
	return serviceRange4
}

func setStores(p *Pass) {
	s := &p.Spec.ConfigStore
	if s.Base != "" {
		base := strings.TrimSuffix(s.Base, "/")
		fill.Value(&s.Keypairs, base+"/pki")
		fill.Value(&s.Secrets, base+"/secrets")
	}
}

func setClusterDomain(p *Pass) { fill.Value(&p.Spec.ClusterDNSDomain, clusterDomain) }

// setAPIAccess chooses how the API is reached, depending on the subnets of the machines that serve
// it.
func setAPIAccess(p *Pass) {
	a := &p.Spec.API
	if a.DNS != nil || a.LoadBalancer != nil || p.platform.Network.BalancedAlways {
		return
	}
	for _, g := range p.groups {
		if !g.HasAPIServer() {
			continue
		}
		for _, name := range g.Spec.Subnets {
			s := p.Subnet(name)
			switch {
			case s == nil:
			case s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack:
				fill.Ensure(&a.LoadBalancer)
			default:
				fill.Ensure(&a.DNS)
			}
		}
	}
	if a.LoadBalancer != nil {
		a.DNS = nil
	}
}

func setLoadBalancer(p *Pass) {
	if lb := p.Spec.API.LoadBalancer; lb != nil {
		fill.Value(&lb.Type, api.LoadBalancerPublic)
	}
}

func setPublicName(p *Pass) { fill.Value(&p.Spec.API.PublicName, p.publicName()) }

func setExternalDNS(p *Pass) {
	if p.dns() != api.DNSNone {
		fill.Value(&fill.Ensure(&p.Spec.ExternalDNS).Provider, api.ExternalDNSProviderDNSController)
	}
}
