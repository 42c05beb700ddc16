package node

import (
	"slices"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// cniTemplate is the pod network of a machine whose cloud routes its node's range
// to it: containerd fills in the range once it is known (containerd,
// docs/cri/config.md, "CNI Config Template").
const cniTemplate = `{
  "cniVersion": "1.0.0",
  "name": "kubenet",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "ranges": [{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}],
        "routes": [{{range $i, $r := .Routes}}{{if $i}}, {{end}}{"dst": "{{$r}}"}{{end}}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const cniTemplateFile = "/etc/containerd/config-cni.template"

// cniFromTemplate reports whether containerd itself configures the pod network. On
// platforms without routes, a pod of kops-controller does.
func (b *builder) cniFromTemplate() bool {
	return b.Config.UsesKubenet && !b.Host.Traits.RoutedPods
}

// masquerade replaces the source address of packets that pods send out of the
// cluster with the machine's, where pod addresses are known only inside the
// cluster.
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
	a, err := b.unit(unit, "[Unit]\nDescription=Masquerade traffic from pods to the outside\nBefore=kubelet.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart="+
		script+"\n\n[Install]\nWantedBy=multi-user.target\n", append(slices.Clone(b.packages), resource.Address{Kind: host.Files.Name, Name: script}), text)
	b.node = append(b.node, a)
	return err
}
