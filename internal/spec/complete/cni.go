package complete

import "kops.local/kops/api"

func setCalico(p *pass) {
	c := p.spec.Networking.Calico
	if c == nil {
		return
	}
	switch {
	case p.ipv6():
		fill(&c.EncapsulationMode, "none")
	case p.cloud == api.CloudAzure:
		fill(&c.EncapsulationMode, "vxlan")
		fill(&c.VXLANMode, "Always")
	default:
		fill(&c.EncapsulationMode, "ipip")
	}
}

func setFlannel(p *pass) {
	if c := p.spec.Networking.Flannel; c != nil {
		fill(&c.Backend, "udp")
	}
}

func setKindnet(p *pass) {
	c, n := p.spec.Networking.Kindnet, &p.spec.Networking
	if c == nil {
		return
	}
	fill(&c.Version, "v1.0.1")
	fillPtr(&c.FastPathThreshold, 0)
	fillPtr(&c.LogLevel, 2)
	if c.Masquerade != nil { // it is the user's, as it is
		return
	}
	m := ensure(&c.Masquerade)
	if p.ipv6() {
		fillPtr(&m.Enabled, false)
		fillPtr(&c.NAT64, p.cloud != api.CloudAWS) // AWS' network has its own
		return
	}
	fillPtr(&m.Enabled, true)
	if len(m.NonMasqueradeCIDRs) == 0 {
		for _, r := range []string{n.NetworkCIDR, n.PodCIDR, n.ServiceClusterIPRange} {
			if r != "" {
				m.NonMasqueradeCIDRs = append(m.NonMasqueradeCIDRs, r)
			}
		}
	}
}
