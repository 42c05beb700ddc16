package spec

import (
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// completion returns the rules by which a cluster on Azure is completed.
func completion() complete.Rules {
	return complete.Rules{After: []complete.Rule{{Name: "azure-cloud-controller", Why: "the version that this kops was tested with", Do: setController}}}
}

func setController(p *complete.Pass) {
	const version = "v1.36.2"
	c := p.CloudController("mcr.microsoft.com/oss/v2/kubernetes/azure-cloud-controller-manager:" + version)
	fill.Value(&c.AzureNodeManagerImage, "mcr.microsoft.com/oss/v2/kubernetes/azure-cloud-node-manager:"+version)
	fill.Value(&c.LogLevel, 2)
	fill.Value(&c.ClusterName, p.Cluster.Name)
	fill.Value(&c.ClusterCIDR, p.Spec.Networking.PodCIDR)
	routes := p.Spec.Networking.Kubenet != nil || p.Spec.Networking.Kindnet != nil
	fill.Ptr(&c.ConfigureCloudRoutes, routes)
	fill.Ptr(&c.AllocateNodeCIDRs, true)
}
