package complete

import (
	"kops.local/kops/internal/spec/fill"
)

func setCalico(p *Pass) {
	c := p.Spec.Networking.Calico
	if c == nil {
		return
	}
	switch {
	case p.IPv6():
		fill.Value(&c.EncapsulationMode, "none")
	case p.on.Network.NoIPIP:
		fill.Value(&c.EncapsulationMode, "vxlan")
		fill.Value(&c.VXLANMode, "Always")
	default:
		fill.Value(&c.EncapsulationMode, "ipip")
	}
}

func setFlannel(p *Pass) {
	if c := p.Spec.Networking.Flannel; c != nil {
		fill.Value(&c.Backend, "udp")
	}
}

func setKindnet(p *Pass) {
	c, n := p.Spec.Networking.Kindnet, &p.Spec.Networking
	if c == nil {
		return
	}
	fill.Value(&c.Version, "v1.0.1")
	fill.Ptr(&c.FastPathThreshold, 0)
	fill.Ptr(&c.LogLevel, 2)
	if c.Masquerade != nil { // it is the user's, as it is
		return
	}
	m := fill.Ensure(&c.Masquerade)
	if p.IPv6() {
		fill.Ptr(&m.Enabled, false)
		fill.Ptr(&c.NAT64, !p.on.Has.OwnNAT64)
		return
	}
	fill.Ptr(&m.Enabled, true)
	if len(m.NonMasqueradeCIDRs) == 0 {
		for _, r := range []string{n.NetworkCIDR, n.PodCIDR, n.ServiceClusterIPRange} {
			if r != "" {
				m.NonMasqueradeCIDRs = append(m.NonMasqueradeCIDRs, r)
			}
		}
	}
}
