package node

import (
	"slices"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// cniTemplate is the pod network of a machine whose cloud leads the addresses of
// its node's range to it: containerd fills in the range when it learns of it
// (containerd, docs/cri/config.md, "CNI Config Template").
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

// cniFromTemplate reports whether containerd itself makes the network of pods. Where
// the platform has no routes, a pod of kops-controller's does.
func (b *builder) cniFromTemplate() bool {
	return b.Config.UsesKubenet && !b.Host.Traits.RoutedPods
}

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
