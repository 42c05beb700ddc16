package spec

import (
	"strconv"

	"kops.local/kops/internal/spec/validate"
)

// markBit is the bit of a cluster's number in a mesh of Cilium's with which AWS's network marks
// packets, too.
const markBit = 0x80

// checkCiliumCluster warns about a number of a cluster that conflicts with the marks of AWS's
// network: Cilium's agents exit at once unless a setting allows it (pkg/clustermesh/types/option.go).
func checkCiliumCluster(c *validate.Check) {
	k := c.Spec.Networking.Cilium
	if k == nil {
		return
	}
	path, id := validate.CiliumSetting(k, "cluster-id", "clusterID", validate.Number(int(k.ClusterID)))
	n, err := strconv.ParseUint(id, 0, 32)
	if err != nil || n&markBit == 0 { // validation for all platforms reports what is not a number
		return
	}
	_, ipam := validate.CiliumSetting(k, "ipam", "ipam", k.IPAM)
	_, chaining := validate.CiliumSetting(k, "cni-chaining-mode", "chainingMode", k.ChainingMode)
	allowed, err := strconv.ParseBool(k.ExtraConfig["allow-unsafe-policy-skb-usage"])
	if (ipam == "eni" || chaining == "aws-cni") && (err != nil || !allowed) {
		c.Warn(path, id, "keeps Cilium's agents from starting: AWS's network marks packets with a bit of this number",
			`use a number from 1 to 127, or set allow-unsafe-policy-skb-usage: "true" in extraConfig`)
	}
}
