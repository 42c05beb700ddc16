package complete

import "kops.local/kops/internal/spec/versions"

func addonRules() []rule {
	return []rule{
		{"cluster-autoscaler", "how kops runs the autoscaler", "", setAutoscaler},
		{"karpenter", "how kops runs Karpenter", "aws", setKarpenter},
		{"node-problem-detector", "how kops runs the detector", "", setProblemDetector},
	}
}

// autoscalerImages are the autoscaler's releases by the minor version of Kubernetes, newest first.
func autoscalerImage(p *pass) string {
	tag := "v1.32.7"
	for _, r := range []struct {
		minor uint64
		tag   string
	}{{36, "v1.36.0"}, {35, "v1.35.1"}, {34, "v1.34.4"}, {33, "v1.33.5"}} {
		if versions.AtLeast(p.version, 1, r.minor) {
			tag = r.tag
			break
		}
	}
	return "registry.k8s.io/autoscaling/cluster-autoscaler:" + tag
}

func setAutoscaler(p *pass) {
	c := p.spec.ClusterAutoscaler
	if c == nil || !isTrue(c.Enabled) {
		return
	}
	fillPtr(&c.Image, autoscalerImage(p))
	fill(&c.Expander, "random")
	fillPtr(&c.IgnoreDaemonSetsUtilization, false)
	fillPtr(&c.ScaleDownUtilizationThreshold, "0.5")
	fillPtr(&c.SkipNodesWithCustomControllerPods, true)
	fillPtr(&c.SkipNodesWithLocalStorage, true)
	fillPtr(&c.SkipNodesWithSystemPods, true)
	fillPtr(&c.BalanceSimilarNodeGroups, false)
	fillPtr(&c.EmitPerNodegroupMetrics, false)
	fillPtr(&c.AWSUseStaticInstanceList, false)
	fillPtr(&c.NewPodScaleUpDelay, "0s")
	fillPtr(&c.ScaleDownDelayAfterAdd, "10m0s")
	fillPtr(&c.ScaleDownUnneededTime, "10m0s")
	fillPtr(&c.ScaleDownUnreadyTime, "20m0s")
	fill(&c.MaxNodeProvisionTime, "15m0s")
}

func setKarpenter(p *pass) {
	c := p.spec.Karpenter
	if c == nil || !c.Enabled {
		return
	}
	fill(&c.Image, "public.ecr.aws/karpenter/controller:1.13.0")
	fill(&c.LogEncoding, "console")
	fill(&c.LogLevel, "debug")
}

func setProblemDetector(p *pass) {
	c := p.spec.NodeProblemDetector
	if c == nil {
		return
	}
	fillPtr(&c.Enabled, false)
	fillQuantity(&c.CPURequest, "20m")
	fillQuantity(&c.MemoryRequest, "100Mi")
	fillQuantity(&c.MemoryLimit, "100Mi")
	fillPtr(&c.Image, "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.18")
}
