package complete

import (
	"kops.local/kops/internal/spec/fill"
)

func setKindnet(p *Pass) {
	c, n := p.Spec.Networking.Kindnet, &p.Spec.Networking
	if c == nil || c.Masquerade != nil { // the user's own setting is kept
		return
	}
	m := fill.Ensure(&c.Masquerade)
	if p.IPv6() {
		fill.Ptr(&m.Enabled, false)
		fill.Ptr(&c.NAT64, !p.platform.Has.OwnNAT64)
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
