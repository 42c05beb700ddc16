package complete

import "kops.local/kops/api"

func awsRules() []rule {
	return []rule{
		{"aws-cloud-controller", "the version that this kops was tested with", api.CloudAWS, setAWSController},
		{"aws-csi-driver", "the version that this kops was tested with", api.CloudAWS, setEBSDriver},
		{"aws-node-addresses", "nodes of an IPv6 cluster have IPv4 addresses as well", api.CloudAWS, setNodeIPFamilies},
		{"aws-termination-handler", "nodes are drained before their machine goes", api.CloudAWS, setTerminationHandler},
	}
}

func setLoadBalancerClass(p *pass) {
	if lb := p.spec.API.LoadBalancer; lb != nil {
		fill(&lb.Class, api.LoadBalancerClassic)
	}
}

func setAWSController(p *pass) {
	c := p.cloudController("registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.1")
	fill(&c.ClusterName, p.cluster.Name)
	fillPtr(&c.AllocateNodeCIDRs, !p.ipv6())
	fillPtr(&c.ConfigureCloudRoutes, p.spec.Networking.Kubenet != nil)
	if !p.ipv6() {
		fill(&c.ClusterCIDR, p.spec.Networking.PodCIDR)
	}
}

func setEBSDriver(p *pass) {
	fillPtr(&ensure(&p.spec.CloudProvider.AWS.EBSCSIDriver).Version, "v1.58.0")
}

func setNodeIPFamilies(p *pass) {
	if p.ipv6() {
		fillList(&p.spec.CloudProvider.AWS.NodeIPFamilies, "ipv6", "ipv4")
	}
}

// terminationTag marks the scaling groups whose machines the handler watches.
const terminationTag = "aws-node-termination-handler/managed"

func setTerminationHandler(p *pass) {
	if k := p.spec.Karpenter; k != nil && k.Enabled { // Karpenter drains its nodes itself
		return
	}
	h := ensure(&p.spec.CloudProvider.AWS.NodeTerminationHandler)
	fillPtr(&h.Enabled, true)
	fillPtr(&h.DeleteSQSMsgIfNodeNotFound, false)
	fillPtr(&h.EnableSpotInterruptionDraining, true)
	fillPtr(&h.EnableScheduledEventDraining, true)
	fillPtr(&h.EnableRebalanceMonitoring, false)
	fillPtr(&h.EnableRebalanceDraining, false)
	fillPtr(&h.EnableOutOfServiceTaint, false)
	fillPtr(&h.PrometheusEnable, false)
	fillPtr(&h.ExcludeFromLoadBalancers, true)
	fillPtr(&h.ManagedASGTag, terminationTag)
	fillPtr(&h.PodTerminationGracePeriod, -1)
	fillPtr(&h.TaintNode, false)
	fillQuantity(&h.MemoryRequest, "64Mi")
	fillQuantity(&h.CPURequest, "50m")
	fillPtr(&h.Version, "v1.25.5")
}
