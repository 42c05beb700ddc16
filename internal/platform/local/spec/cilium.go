package spec

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
)

// Facts are the facts of this host.
type Facts struct {
	// Missing lists the Features that the host's kernel does not have.
	Missing []string `json:"missing,omitempty"`
}

// Features that some settings of pod networks need in the host's kernel: two kinds of network
// links, and the protocol of IPsec.
const (
	Geneve    = "geneve"
	WireGuard = "wireguard"
	ESP       = "esp"
)

// Features returns all features.
func Features() []string { return []string{Geneve, WireGuard, ESP} }

// lack says why a setting of Cilium cannot work on a host that lacks a feature, and what helps.
type lack struct{ message, remedy string }

func lacks() map[string]lack {
	inKernel := func(name string) lack {
		return lack{"needs " + name + ", which the kernel of this host does not have", "run kops on a host whose kernel has it, or remove it"}
	}
	return map[string]lack{
		Geneve: inKernel("GENEVE"), WireGuard: inKernel("WireGuard"), ESP: inKernel("IPsec (ESP)"),
		envoy: {"needs Envoy, which is not built for machines of this host", "remove it"},
	}
}

// envoy is a program without which agents are built; see lacks.
const envoy = "envoy"

// checkCilium rejects settings that need what the host's kernel, or the programs that are built for it, do
// not have: agents would not start, or pods would not get a network. Settings in extraConfig count.
func checkCilium(c *validate.Check) {
	k := c.Spec.Networking.Cilium
	own, err := facts.OwnAs[Facts](c.Facts)
	if err != nil || k == nil {
		return // reading the facts has reported it
	}
	wireGuard := k.EncryptionType == api.CiliumEncryptionWireguard
	missing, why := append(own.Missing, envoy), lacks()
	for _, s := range []struct{ need, key, field, value string }{
		{Geneve, "tunnel-protocol", "tunnel", k.Tunnel},
		{WireGuard, "enable-wireguard", "encryptionType", when(k.EnableEncryption && wireGuard, WireGuard)},
		{ESP, "enable-ipsec", "enableEncryption", when(k.EnableEncryption && !wireGuard, "true")},
		{envoy, "enable-ingress-controller", "ingress.enabled", when(k.Ingress != nil && validate.IsTrue(k.Ingress.Enabled), "true")},
		{envoy, "enable-gateway-api", "gatewayAPI.enabled", when(k.GatewayAPI != nil && validate.IsTrue(k.GatewayAPI.Enabled), "true")},
		{envoy, "enable-envoy-config", "", ""},
	} {
		path, value := validate.CiliumSetting(k, s.key, s.field, s.value)
		if slices.Contains(missing, s.need) && slices.Contains([]string{"true", Geneve, WireGuard}, value) {
			c.Bad(path, value, why[s.need].message, why[s.need].remedy)
		}
	}
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
