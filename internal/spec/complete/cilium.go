package complete

import "kops.local/kops/internal/spec/fill"

// setCiliumParts turns on the parts that the user configures, and no others.
func setCiliumParts(p *Pass) {
	c := p.Spec.Networking.Cilium
	if c == nil {
		return
	}
	hubble, ingress, gateway := c.Hubble != nil, c.Ingress != nil, c.GatewayAPI != nil
	fill.Ptr(&fill.Ensure(&c.Hubble).Enabled, hubble)
	fill.Ptr(&fill.Ensure(&c.Ingress).Enabled, ingress)
	fill.Ptr(&fill.Ensure(&c.GatewayAPI).Enabled, gateway)
}

func setCiliumDatapath(p *Pass) {
	c := p.Spec.Networking.Cilium
	if c == nil {
		return
	}
	fill.Value(&c.IPAM, "kubernetes")
	eni := c.IPAM == "eni"
	tunnel := "vxlan"
	if eni || p.IPv6() {
		tunnel = "disabled"
	}
	fill.Value(&c.Tunnel, tunnel)
	fill.Ptr(&c.Masquerade, !p.IPv6())
	fill.Ptr(&c.EnableBPFMasquerade, eni)
}
