package validate

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// podNetwork is a pod network that a spec can choose.
type podNetwork struct {
	name   string // as in v1alpha2
	chosen bool
	// only is the cloud that has it; "" is every cloud.
	only api.CloudProviderID
	// gone says that it is no longer supported, noIPv6 that it gives pods IPv4 addresses only.
	gone, noIPv6 bool
}

func podNetworks(n *api.NetworkingSpec) []podNetwork {
	return []podNetwork{
		{name: "kubenet", chosen: n.Kubenet != nil, noIPv6: true},
		{name: "external", chosen: n.External != nil, gone: true},
		{name: "cni", chosen: n.CNI != nil},
		{name: "kopeio", chosen: n.Kopeio != nil, noIPv6: true},
		{name: "weave", chosen: n.Weave != nil, gone: true},
		{name: "flannel", chosen: n.Flannel != nil, noIPv6: true},
		{name: "calico", chosen: n.Calico != nil},
		{name: "canal", chosen: n.Canal != nil, gone: true},
		{name: "kuberouter", chosen: n.KubeRouter != nil, noIPv6: true},
		{name: "amazonvpc", chosen: n.AmazonVPC != nil, only: api.CloudAWS, noIPv6: true},
		{name: "cilium", chosen: n.Cilium != nil},
		{name: "gce", chosen: n.GCP != nil, only: api.CloudGCE, noIPv6: true},
		{name: "kindnet", chosen: n.Kindnet != nil},
	}
}

// eachNetwork calls do for every pod network that is chosen.
func (c *check) eachNetwork(do func(path string, p podNetwork)) {
	for _, p := range podNetworks(&c.spec.Networking) {
		if p.chosen {
			do("spec.networking."+p.name, p)
		}
	}
}

func networkingChoice(c *check) {
	first := ""
	c.eachNetwork(func(path string, p podNetwork) {
		switch {
		case first != "":
			c.bad(path, "", "is a second pod network beside "+first, "leave one")
		case p.gone:
			c.bad(path, "", "is no longer supported", "choose another network, such as cilium")
		}
		first = p.name
	})
	c.need(first != "", "spec.networking", "choose a pod network, such as cilium")
}

func networkingIPv6(c *check) {
	c.eachNetwork(func(path string, p podNetwork) {
		if p.noIPv6 && c.ipv6() {
			c.bad(path, "", "gives pods IPv4 addresses only, and the cluster is IPv6", "choose another network, such as cilium")
		}
	})
}

func networkingCloud(c *check) {
	c.eachNetwork(func(path string, p podNetwork) {
		if p.only != "" && p.only != c.cloud {
			c.bad(path, "", "exists on "+title(p.only)+" only", "choose another network, such as cilium")
		}
	})
}

func proxyReplaced(c *check) {
	n := &c.spec.Networking
	by := ""
	switch {
	case n.KubeRouter != nil:
		by = "kube-router"
	case n.Cilium != nil && n.Cilium.EnableNodePort:
		by = "Cilium with enableNodePort"
	case n.Calico != nil && n.Calico.BPFEnabled:
		by = "Calico with bpfEnabled"
	}
	if by != "" && (c.spec.KubeProxy == nil || !isFalse(c.spec.KubeProxy.Enabled)) {
		c.bad("spec.kubeProxy.enabled", "", by+" takes the place of kube-proxy", "set it to false")
	}
}

func flannel(c *check) {
	if f := c.spec.Networking.Flannel; f != nil {
		c.need(f.Backend != "", "spec.networking.flannel.backend", "write udp or vxlan")
		c.oneOf("spec.networking.flannel.backend", f.Backend, "udp", "vxlan")
	}
}

func kindnet(c *check) {
	k := c.spec.Networking.Kindnet
	if k == nil || k.Masquerade == nil {
		return
	}
	for i, r := range k.Masquerade.NonMasqueradeCIDRs {
		c.cidr(at("spec.networking.kindnet.masquerade.nonMasqueradeCIDRs", i), r)
	}
}

func calico(c *check) {
	k := c.spec.Networking.Calico
	if k == nil {
		return
	}
	const path = "spec.networking.calico."
	c.oneOf(path+"awsSrcDstCheck", k.AWSSrcDstCheck, "Enable", "Disable", "DoNothing")
	if c.ipv6() && (k.AWSSrcDstCheck == "Enable" || k.AWSSrcDstCheck == "Disable") {
		c.bad(path+"awsSrcDstCheck", k.AWSSrcDstCheck, "has no meaning for IPv6 addresses", "set it to DoNothing")
	}
	c.oneOf(path+"bpfExternalServiceMode", k.BPFExternalServiceMode, "Tunnel", "DSR")
	c.oneOf(path+"bpfLogLevel", k.BPFLogLevel, "Off", "Info", "Debug")
	c.oneOf(path+"chainInsertMode", k.ChainInsertMode, "insert", "append")
	c.oneOf(path+"iptablesBackend", k.IptablesBackend, "Auto", "Legacy", "NFT")
	if k.TyphaReplicas < 0 {
		c.bad(path+"typhaReplicas", number(k.TyphaReplicas), "is less than 0", "write a number from 0")
	}
	if isTrue(k.WireguardEnabled) && c.ipv6() {
		c.bad(path+"wireguardEnabled", "true", "does not encrypt IPv6", "remove it")
	}
}

func calicoEncapsulation(c *check) {
	k := c.spec.Networking.Calico
	if k == nil {
		return
	}
	const path = "spec.networking.calico."
	c.oneOf(path+"encapsulationMode", k.EncapsulationMode, "ipip", "vxlan", "none")
	c.oneOf(path+"ipipMode", k.IPIPMode, "Always", "CrossSubnet", "Never")
	c.oneOf(path+"vxlanMode", k.VXLANMode, "Always", "CrossSubnet", "Never")
	used := func(mode string) bool { return mode != "" && mode != "Never" }
	switch {
	case k.EncapsulationMode == "":
	case c.ipv6() && k.EncapsulationMode != "none":
		c.bad(path+"encapsulationMode", k.EncapsulationMode, "IPv6 is not encapsulated", "set it to none")
	case !c.ipv6() && k.EncapsulationMode == "none":
		c.bad(path+"encapsulationMode", k.EncapsulationMode, "IPv4 must be encapsulated", "set it to ipip or vxlan")
	case c.cloud == api.CloudAzure && k.EncapsulationMode == "ipip":
		c.bad(path+"encapsulationMode", k.EncapsulationMode, "Azure drops IP-in-IP", "set it to vxlan")
	}
	if k.EncapsulationMode != "" && k.EncapsulationMode != "ipip" && used(k.IPIPMode) {
		c.bad(path+"ipipMode", k.IPIPMode, "needs encapsulationMode ipip", "set it to Never, or change encapsulationMode")
	}
	if k.EncapsulationMode != "" && k.EncapsulationMode != "vxlan" && used(k.VXLANMode) {
		c.bad(path+"vxlanMode", k.VXLANMode, "needs encapsulationMode vxlan", "set it to Never, or change encapsulationMode")
	}
}

func calicoDetection(c *check) {
	k := c.spec.Networking.Calico
	if k == nil {
		return
	}
	for _, m := range []struct{ path, value string }{
		{"spec.networking.calico.ipv4AutoDetectionMethod", k.IPv4AutoDetectionMethod},
		{"spec.networking.calico.ipv6AutoDetectionMethod", k.IPv6AutoDetectionMethod},
	} {
		if !detects(m.value) {
			c.bad(m.path, m.value, "is not a way to find the node's address", "write first-found, can-reach=ADDRESS, interface=REGEX,… or skip-interface=REGEX,…")
		}
	}
}

// detects reports whether Calico understands the method.
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
