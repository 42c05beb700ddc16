package complete

import "kops.local/kops/api"

func setCilium(p *pass) {
	c := p.spec.Networking.Cilium
	if c == nil {
		return
	}
	fill(&c.Version, "v1.18.12")
	fillPtr(&c.EnableEndpointHealthChecking, true)
	fill(&c.IdentityAllocationMode, "crd")
	fill(&c.IdentityChangeGracePeriod, "5s")
	fill(&c.ClusterName, "default")
	fill(&c.MonitorAggregation, "medium")
	fill(&c.SidecarIstioProxyImage, "cilium/istio_proxy")
	fill(&c.ToFQDNsDNSRejectResponseCode, "refused")
	fill(&c.AgentPrometheusPort, 9090)
	fillPtr(&c.EnableRemoteNodeIdentity, true)
	fillPtr(&c.EnableUnreachableRoutes, false)
	fillPtr(&c.EnableL7Proxy, true)
	fillPtr(&c.EnableLocalRedirectPolicy, false)
	fillPtr(&c.EnableHostFirewall, false)
	fillPtr(&c.DisableCNPStatusUpdates, true)
	fillPtr(&c.CNIExclusive, true)
	fillQuantity(&c.CPURequest, "25m")
	fillQuantity(&c.MemoryRequest, "128Mi")
	if c.EnableEncryption {
		fill(&c.EncryptionType, api.CiliumEncryptionIPSec)
	}
	setCiliumParts(c)
}

// setCiliumParts turns on the parts that the user configures, and no other.
func setCiliumParts(c *api.CiliumNetworkingSpec) {
	hubble, ingress, gateway := c.Hubble != nil, c.Ingress != nil, c.GatewayAPI != nil
	fillPtr(&ensure(&c.Hubble).Enabled, hubble)
	fillPtr(&ensure(&c.Ingress).Enabled, ingress)
	fillPtr(&ensure(&c.GatewayAPI).Enabled, gateway)
}

func setCiliumDatapath(p *pass) {
	c := p.spec.Networking.Cilium
	if c == nil {
		return
	}
	fill(&c.IPAM, "kubernetes")
	eni := c.IPAM == "eni"
	tunnel := "vxlan"
	if eni || p.ipv6() {
		tunnel = "disabled"
	}
	fill(&c.Tunnel, tunnel)
	fillPtr(&c.Masquerade, !p.ipv6())
	fillPtr(&c.EnableBPFMasquerade, eni)
}

func setCiliumMaps(p *pass) {
	c := p.spec.Networking.Cilium
	if c == nil {
		return
	}
	fill(&c.BPFCTGlobalAnyMax, 262144)
	fill(&c.BPFCTGlobalTCPMax, 524288)
	fill(&c.BPFLBAlgorithm, "random")
	fill(&c.BPFLBMaglevTableSize, "16381")
	fill(&c.BPFNATGlobalMax, 524288)
	fill(&c.BPFNeighGlobalMax, 524288)
	fill(&c.BPFPolicyMapMax, 16384)
	fill(&c.BPFLBMapMax, 65536)
}
