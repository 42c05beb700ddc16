package validate

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
)

func localRules() []rule {
	return []rule{
		{"local-network", localNetwork},
		{"local-pod-network", localPodNetwork},
		{"local-store", localStore},
	}
}

func localNetwork(c *check) {
	n := &c.spec.Networking
	if c.cloud != api.CloudLocal {
		return
	}
	if r, ok := parsed(n.NetworkCIDR); ok && (!r.Addr().Is4() || r.Bits() < 16 || r.Bits() > 28 || r != r.Masked()) {
		c.bad("spec.networkCIDR", n.NetworkCIDR, "cannot be the network of machines on one host", "write an IPv4 range of 16 to 28 bits, such as 10.77.0.0/24")
	}
}

// localPodNetwork refuses what needs a kernel of its own or a cloud.
func localPodNetwork(c *check) {
	if c.cloud != api.CloudLocal {
		return
	}
	c.eachNetwork(func(path string, p podNetwork) {
		if p.name != "kubenet" && p.name != "cni" {
			c.bad(path, "", "is not supported on the local cloud, whose machines share a kernel", "choose kubenet, or cni and install a network yourself")
		}
	})
}

func localStore(c *check) {
	if base := c.spec.ConfigStore.Base; c.cloud == api.CloudLocal && base != "" && !strings.HasPrefix(base, "file://") {
		c.bad("spec.configBase", base, "cannot be read by machines on this host", "keep the state of local clusters in a folder: --state file://…")
	}
}

func localMachineType(c *check, g *api.InstanceGroup) {
	if _, _, ok := names.LocalSize(g.Spec.MachineType); !ok && g.Spec.MachineType != "" {
		c.bad("spec.machineType", g.Spec.MachineType, "is no size of a machine on this host", "write host for all that it has, or such as 2cpu-4gib")
	}
}
