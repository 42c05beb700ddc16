package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
)

// Facts are the facts of this host.
type Facts struct {
	// Missing are those of Features that the host's kernel does not have.
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

// checkKernel rejects settings of Cilium that need what the host's kernel does not have: the agents
// would not start, or no pod could reach another machine.
func checkKernel(c *validate.Check) {
	k := c.Spec.Networking.Cilium
	own, err := facts.OwnAs[Facts](c.Facts)
	if err != nil || k == nil {
		return // reading the facts has reported it
	}
	const remedy = "run kops on a host whose kernel has it, or "
	tunnelPath, tunnel := validate.CiliumSetting(k, "tunnel-protocol", "tunnel", k.Tunnel)
	for _, f := range own.Missing {
		switch {
		case f == Geneve && tunnel == Geneve:
			c.Bad(tunnelPath, tunnel, "needs GENEVE, which the kernel of this host does not have", remedy+"use vxlan")
		case f == WireGuard && k.EnableEncryption && k.EncryptionType == api.CiliumEncryptionWireguard:
			c.Bad("spec.networking.cilium.encryptionType", WireGuard, "needs WireGuard, which the kernel of this host does not have", remedy+"remove enableEncryption")
		case f == ESP && k.EnableEncryption && (k.EncryptionType == "" || k.EncryptionType == api.CiliumEncryptionIPSec):
			c.Bad("spec.networking.cilium.enableEncryption", "true", "needs IPsec (ESP), which the kernel of this host does not have", remedy+"remove it")
		}
	}
}
