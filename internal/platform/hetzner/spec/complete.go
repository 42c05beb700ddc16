package spec

import (
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// completion returns the rules by which a cluster on Hetzner is completed.
func completion() complete.Rules {
	return complete.Rules{
		Early: []complete.Rule{{Name: "hetzner-shared-network", Why: "the range of the shared network", Do: setNetwork}},
		After: []complete.Rule{{Name: "hetzner-cloud-controller", Why: "the version that this kops was tested with", Do: setController}},
	}
}

func setNetwork(p *complete.Pass) {
	n := &p.Spec.Networking
	if ranges := p.Facts.Networks[n.NetworkID].CIDRs; len(ranges) > 0 {
		fill.Value(&n.NetworkCIDR, ranges[0])
	}
}

func setController(p *complete.Pass) {
	fill.Ptr(&fill.Ensure(&fill.Ensure(&p.Spec.CloudControllerManager).LeaderElection).LeaderElect, false)
	c := p.CloudController("hetznercloud/hcloud-cloud-controller-manager:v1.31.0")
	fill.Value(&c.CloudProvider, "hcloud")
	fill.Ptr(&c.AllowUntaggedCloud, true)
	fill.Value(&c.ClusterCIDR, p.Spec.Networking.PodCIDR)
	fill.Ptr(&c.AllocateNodeCIDRs, true)
	fill.Ptr(&c.ConfigureCloudRoutes, false)
}
