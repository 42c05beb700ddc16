package complete

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

func setCilium(p *Pass) {
	c := p.Spec.Networking.Cilium
	if c == nil {
		return
	}
	fill.Value(&c.Version, "v1.18.12")
	fill.Ptr(&c.EnableEndpointHealthChecking, true)
	fill.Value(&c.IdentityAllocationMode, "crd")
	fill.Value(&c.IdentityChangeGracePeriod, "5s")
	fill.Value(&c.ClusterName, "default")
	fill.Value(&c.MonitorAggregation, "medium")
	fill.Value(&c.SidecarIstioProxyImage, "cilium/istio_proxy")
	fill.Value(&c.ToFQDNsDNSRejectResponseCode, "refused")
	fill.Value(&c.AgentPrometheusPort, 9090)
	fill.Ptr(&c.EnableRemoteNodeIdentity, true)
	fill.Ptr(&c.EnableUnreachableRoutes, false)
	fill.Ptr(&c.EnableL7Proxy, true)
	fill.Ptr(&c.EnableLocalRedirectPolicy, false)
	fill.Ptr(&c.EnableHostFirewall, false)
	fill.Ptr(&c.DisableCNPStatusUpdates, true)
	fill.Ptr(&c.CNIExclusive, true)
	fill.Quantity(&c.CPURequest, "25m")
	fill.Quantity(&c.MemoryRequest, "128Mi")
	if c.EnableEncryption {
		fill.Value(&c.EncryptionType, api.CiliumEncryptionIPSec)
	}
	setCiliumParts(c)
}

// setCiliumParts turns on the parts that the user configures, and no other.
func setCiliumParts(c *api.CiliumNetworkingSpec) {
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

func setCiliumMaps(p *Pass) {
	c := p.Spec.Networking.Cilium
	if c == nil {
		return
	}
	fill.Value(&c.BPFCTGlobalAnyMax, 262144)
	fill.Value(&c.BPFCTGlobalTCPMax, 524288)
	fill.Value(&c.BPFLBAlgorithm, "random")
	fill.Value(&c.BPFLBMaglevTableSize, "16381")
	fill.Value(&c.BPFNATGlobalMax, 524288)
	fill.Value(&c.BPFNeighGlobalMax, 524288)
	fill.Value(&c.BPFPolicyMapMax, 16384)
	fill.Value(&c.BPFLBMapMax, 65536)
}
