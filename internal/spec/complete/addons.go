package complete

import (
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/versions"
)

func addonRules() []Rule {
	return []Rule{
		{"cluster-autoscaler", "how kops runs the autoscaler", setAutoscaler},
		{"node-problem-detector", "how kops runs the detector", setProblemDetector},
	}
}

// autoscalerImages are the autoscaler's releases by the minor version of Kubernetes, newest first.
func autoscalerImage(p *Pass) string {
	tag := "v1.32.7"
	for _, r := range []struct {
		minor uint64
		tag   string
	}{{36, "v1.36.0"}, {35, "v1.35.1"}, {34, "v1.34.4"}, {33, "v1.33.5"}} {
		if versions.AtLeast(p.Version, 1, r.minor) {
			tag = r.tag
			break
		}
	}
	return "registry.k8s.io/autoscaling/cluster-autoscaler:" + tag
}

func setAutoscaler(p *Pass) {
	c := p.Spec.ClusterAutoscaler
	if c == nil || !isTrue(c.Enabled) {
		return
	}
	fill.Ptr(&c.Image, autoscalerImage(p))
	fill.Value(&c.Expander, "random")
	fill.Ptr(&c.IgnoreDaemonSetsUtilization, false)
	fill.Ptr(&c.ScaleDownUtilizationThreshold, "0.5")
	fill.Ptr(&c.SkipNodesWithCustomControllerPods, true)
	fill.Ptr(&c.SkipNodesWithLocalStorage, true)
	fill.Ptr(&c.SkipNodesWithSystemPods, true)
	fill.Ptr(&c.BalanceSimilarNodeGroups, false)
	fill.Ptr(&c.EmitPerNodegroupMetrics, false)
	fill.Ptr(&c.AWSUseStaticInstanceList, false)
	fill.Ptr(&c.NewPodScaleUpDelay, "0s")
	fill.Ptr(&c.ScaleDownDelayAfterAdd, "10m0s")
	fill.Ptr(&c.ScaleDownUnneededTime, "10m0s")
	fill.Ptr(&c.ScaleDownUnreadyTime, "20m0s")
	fill.Value(&c.MaxNodeProvisionTime, "15m0s")
}

func setProblemDetector(p *Pass) {
	c := p.Spec.NodeProblemDetector
	if c == nil {
		return
	}
	fill.Ptr(&c.Enabled, false)
	fill.Quantity(&c.CPURequest, "20m")
	fill.Quantity(&c.MemoryRequest, "100Mi")
	fill.Quantity(&c.MemoryLimit, "100Mi")
	fill.Ptr(&c.Image, "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.18")
}
