package validate

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// PodNetwork is a pod network that a spec can choose.
type PodNetwork struct {
	Name   string // its name in v1alpha2
	chosen bool
	// platformOnly means that it is specific to a platform, gone that it is no longer supported,
	// noIPv6 that it only gives pods IPv4 addresses.
	platformOnly, removed, noIPv6 bool
}

func podNetworks(n *api.NetworkingSpec) []PodNetwork {
	return []PodNetwork{
		{Name: "kubenet", chosen: n.Kubenet != nil, noIPv6: true},
		{Name: "external", chosen: n.External != nil, removed: true},
		{Name: "cni", chosen: n.CNI != nil},
		{Name: "kopeio", chosen: n.Kopeio != nil, noIPv6: true},
		{Name: "weave", chosen: n.Weave != nil, removed: true},
		{Name: "flannel", chosen: n.Flannel != nil, noIPv6: true},
		{Name: "calico", chosen: n.Calico != nil},
		{Name: "canal", chosen: n.Canal != nil, removed: true},
		{Name: "kuberouter", chosen: n.KubeRouter != nil, noIPv6: true},
		{Name: "amazonvpc", chosen: n.AmazonVPC != nil, platformOnly: true, noIPv6: true},
		{Name: "cilium", chosen: n.Cilium != nil},
		{Name: "gce", chosen: n.GCP != nil, platformOnly: true, noIPv6: true},
		{Name: "kindnet", chosen: n.Kindnet != nil},
	}
}

// EachNetwork calls do for every pod network that is chosen.
func (c *Check) EachNetwork(do func(path string, p PodNetwork)) {
	for _, p := range podNetworks(&c.Spec.Networking) {
		if p.chosen {
			do("spec.networking."+p.Name, p)
		}
	}
}

func networkingChoice(c *Check) {
	first := ""
	c.EachNetwork(func(path string, p PodNetwork) {
		switch {
		case first != "":
			c.Bad(path, "", "is a second pod network; the first is "+first, "remove one of them")
		case p.removed:
			c.Bad(path, "", "is no longer supported", c.network("another"))
		}
		first = p.Name
	})
	c.Need(first != "", "spec.networking", c.network("a pod"))
}

func networkingIPv6(c *Check) {
	c.EachNetwork(func(path string, p PodNetwork) {
		if p.noIPv6 && c.IPv6() {
			c.Bad(path, "", "gives pods only IPv4 addresses, but the cluster uses IPv6", c.network("another"))
		}
	})
}

// network returns the remedy of choosing a pod network on the cluster's platform; kind is "a pod"
// or "another".
func (c *Check) network(kind string) string {
	if o := c.platform.Network.Only; o != nil {
		return o.Remedy
	}
	return "choose " + kind + " network, such as cilium"
}

func networkingCloud(c *Check) {
	c.EachNetwork(func(path string, p PodNetwork) {
		if o := c.platform.Network.Only; o != nil {
			if !p.removed && !slices.Contains(o.Names, p.Name) {
				c.Bad(path, "", "is not supported on "+c.title()+", "+o.Why, o.Remedy)
			}
			return
		}
		if p.platformOnly && !c.platform.Network.OwnsPodNetwork(p.Name) {
			c.Bad(path, "", "does not exist on "+c.title(), c.network("another"))
		}
	})
}

func proxyReplaced(c *Check) {
	n := &c.Spec.Networking
	by := ""
	switch {
	case n.KubeRouter != nil && !c.besideProxy("kuberouter"):
		by = "kube-router"
	case n.Cilium != nil && n.Cilium.EnableNodePort:
		by = "Cilium with enableNodePort"
	case n.Calico != nil && n.Calico.BPFEnabled:
		by = "Calico with bpfEnabled"
	}
	off := c.Spec.KubeProxy != nil && IsFalse(c.Spec.KubeProxy.Enabled)
	switch {
	case by != "" && !off:
		c.Bad("spec.kubeProxy.enabled", "", by+" replaces kube-proxy", "set it to false")
	case by == "" && off && !ownProxy(n):
		report := c.Warn
		if c.platform.Network.Only != nil { // all others are known
			report = c.Bad
		}
		c.EachNetwork(func(_ string, p PodNetwork) {
			if !p.removed {
				report("spec.kubeProxy.enabled", "false", "leaves Services without a proxy: "+p.Name+" does not replace kube-proxy", "set it to true, or remove it")
			}
		})
	}
}

// ownProxy reports whether something else may replace kube-proxy: what users install themselves, or what
// Cilium's own configuration says.
func ownProxy(n *api.NetworkingSpec) bool {
	return n.CNI != nil || n.Cilium != nil && n.Cilium.ExtraConfig["kube-proxy-replacement"] == "true"
}

// besideProxy reports whether a pod network leaves services to kube-proxy on the cluster's platform.
func (c *Check) besideProxy(network string) bool {
	o := c.platform.Network.Only
	return o != nil && slices.Contains(o.BesideProxy, network)
}

func flannel(c *Check) {
	if f := c.Spec.Networking.Flannel; f != nil {
		c.Need(f.Backend != "", "spec.networking.flannel.backend", "write udp or vxlan")
		c.OneOf("spec.networking.flannel.backend", f.Backend, "udp", "vxlan")
	}
}

func kindnet(c *Check) {
	k := c.Spec.Networking.Kindnet
	if k == nil || k.Masquerade == nil {
		return
	}
	for i, r := range k.Masquerade.NonMasqueradeCIDRs {
		c.CIDR(At("spec.networking.kindnet.masquerade.nonMasqueradeCIDRs", i), r)
	}
}

func calico(c *Check) {
	k := c.Spec.Networking.Calico
	if k == nil {
		return
	}
	const path = "spec.networking.calico."
	c.OneOf(path+"bpfExternalServiceMode", k.BPFExternalServiceMode, "Tunnel", "DSR")
	c.OneOf(path+"bpfLogLevel", k.BPFLogLevel, "Off", "Info", "Debug")
	c.OneOf(path+"chainInsertMode", k.ChainInsertMode, "insert", "append")
	c.OneOf(path+"iptablesBackend", k.IptablesBackend, "Auto", "Legacy", "NFT")
	if k.TyphaReplicas < 0 {
		c.Bad(path+"typhaReplicas", Number(k.TyphaReplicas), "is less than 0", "write a number from 0")
	}
	if k.MTU != nil && *k.MTU < 0 {
		c.Bad(path+"mtu", Number(*k.MTU), "is less than 0", "write a number of bytes such as 1440, or remove it; Calico then chooses what fits the machine's network")
	}
	if IsTrue(k.WireguardEnabled) && c.IPv6() {
		c.Bad(path+"wireguardEnabled", "true", "does not encrypt IPv6", "remove it")
	}
}

func calicoEncapsulation(c *Check) {
	k := c.Spec.Networking.Calico
	if k == nil {
		return
	}
	const path = "spec.networking.calico."
	c.OneOf(path+"encapsulationMode", k.EncapsulationMode, "ipip", "vxlan", "none")
	c.OneOf(path+"ipipMode", k.IPIPMode, "Always", "CrossSubnet", "Never")
	c.OneOf(path+"vxlanMode", k.VXLANMode, "Always", "CrossSubnet", "Never")
	used := func(mode string) bool { return mode != "" && mode != "Never" }
	switch {
	case k.EncapsulationMode == "":
	case c.IPv6() && k.EncapsulationMode != "none":
		c.Bad(path+"encapsulationMode", k.EncapsulationMode, "IPv6 traffic cannot be encapsulated", "set it to none")
	case !c.IPv6() && k.EncapsulationMode == "none":
		c.Bad(path+"encapsulationMode", k.EncapsulationMode, "IPv4 traffic must be encapsulated", "set it to ipip or vxlan")
	case c.platform.Network.NoIPIP && k.EncapsulationMode == "ipip":
		c.Bad(path+"encapsulationMode", k.EncapsulationMode, c.title()+" drops IP-in-IP", "set it to vxlan")
	}
	if k.EncapsulationMode != "" && k.EncapsulationMode != "ipip" && used(k.IPIPMode) {
		c.Bad(path+"ipipMode", k.IPIPMode, "needs encapsulationMode ipip", "set it to Never, or change encapsulationMode")
	}
	if k.EncapsulationMode != "" && k.EncapsulationMode != "vxlan" && used(k.VXLANMode) {
		c.Bad(path+"vxlanMode", k.VXLANMode, "needs encapsulationMode vxlan", "set it to Never, or change encapsulationMode")
	}
}

func calicoDetection(c *Check) {
	k := c.Spec.Networking.Calico
	if k == nil {
		return
	}
	for _, m := range []struct{ path, value string }{
		{"spec.networking.calico.ipv4AutoDetectionMethod", k.IPv4AutoDetectionMethod},
		{"spec.networking.calico.ipv6AutoDetectionMethod", k.IPv6AutoDetectionMethod},
	} {
		if !detects(m.value) {
			c.Bad(m.path, m.value, "is not a method to detect the node's address", "write first-found, can-reach=ADDRESS, interface=REGEX,… or skip-interface=REGEX,…")
		}
	}
}

// detects reports whether Calico supports the method.
func detects(method string) bool {
	name, value, _ := strings.Cut(method, "=")
	switch name {
	case "", "first-found":
		return value == ""
	case "can-reach":
		_, err := netip.ParseAddr(value)
		return err == nil
	case "interface", "skip-interface":
		return value != "" && !slices.ContainsFunc(strings.Split(value, ","), func(r string) bool {
			_, err := regexp.Compile(r)
			return err != nil
		})
	}
	return false
}
