package node

import (
	"slices"

	"kops.local/kops/internal/host"
	"kops.local/kops/internal/resource"
)

// masquerade gives what pods send out of the cluster the machine's address,
// where their own is known inside of the cluster alone.
func (b *builder) masquerade() error {
	const script, unit = ownBinaries + "/cni-iptables-setup", "cni-iptables-setup.service"
	text := `#!/bin/bash
# Hides the addresses of pods from whoever is not of the cluster.
set -o errexit
rule() {
  iptables --wait --table nat --check "$@" 2>/dev/null || iptables --wait --table nat --append "$@"
}
iptables --wait --table nat --new-chain IP-MASQ 2>/dev/null || iptables --wait --table nat --flush IP-MASQ # a range of before is gone
rule IP-MASQ --destination ` + b.Config.Networking.NonMasqueradeCIDR + ` --jump RETURN
rule IP-MASQ --jump MASQUERADE
rule POSTROUTING --match addrtype ! --dst-type LOCAL --jump IP-MASQ
`
	if err := b.fileWith(script, text, "0755", 0); err != nil {
		return err
	}
	a, err := b.unit(unit, "[Unit]\nDescription=Hide the addresses of pods from the outside\nBefore=kubelet.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart="+
		script+"\n\n[Install]\nWantedBy=multi-user.target\n", append(slices.Clone(b.packages), resource.Address{Kind: host.Files.Name, Name: script}), text)
	b.node = append(b.node, a)
	return err
}
