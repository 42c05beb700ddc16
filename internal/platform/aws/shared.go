package aws

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// sharedObjects lists resources that a cluster uses but does not own.
func sharedObjects(c *api.Cluster) ([]resource.Node, error) {
	var out []resource.Node
	if id := c.Spec.Networking.NetworkID; id != "" {
		out = append(out, kinds.VPCs.Adopt(id, id, kinds.VPC{}))
	}
	for _, s := range c.Spec.Networking.Subnets {
		if s.ID != "" {
			out = append(out, kinds.Subnets.Adopt(s.ID, s.ID, kinds.Subnet{}))
		}
		switch {
		case strings.HasPrefix(s.Egress, "nat-"):
			out = append(out, kinds.NATGateways.Adopt(s.Egress, s.Egress, kinds.NATGateway{}))
		case strings.HasPrefix(s.Egress, "eipalloc-"):
			out = append(out, kinds.ElasticIPs.Adopt(s.Egress, s.Egress, kinds.ElasticIP{}))
		}
	}
	seen := map[string]bool{}
	unique := out[:0]
	for _, n := range out {
		if !seen[n.Adopt] {
			seen[n.Adopt] = true
			unique = append(unique, n)
		}
	}
	return unique, nil
}
