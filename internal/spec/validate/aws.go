package validate

import (
	"strings"

	"kops.local/kops/api"
)

func nlbGroups(c *check) {
	if a := c.spec.CloudProvider.AWS; a != nil {
		c.oneOf("spec.cloudConfig.nlbSecurityGroupMode", text(a.NLBSecurityGroupMode), "Managed")
	}
}

func nodeNames(c *check) {
	if a := c.spec.CloudProvider.AWS; a != nil && isTrue(a.UseIPBasedNodeNames) && c.ipv6() {
		c.bad("spec.cloudConfig.useIPBasedNodeNames", "true", "names are made of IPv4 addresses, and the cluster is IPv6", "remove it")
	}
}

func terminationHandler(c *check) {
	a := c.spec.CloudProvider.AWS
	if a == nil || a.NodeTerminationHandler == nil {
		return
	}
	const path = "spec.nodeTerminationHandler."
	h := a.NodeTerminationHandler
	if k := c.spec.Karpenter; k != nil && k.Enabled && isTrue(h.Enabled) {
		c.bad(path+"enabled", "true", "Karpenter drains its nodes itself", "set it to false")
	}
	queue := !isFalse(h.EnableSQSTerminationDraining)
	if queue && isFalse(h.EnableSpotInterruptionDraining) {
		c.bad(path+"enableSpotInterruptionDraining", "false", "the handler's queue always tells it of spot interruptions", "remove it")
	}
	if isTrue(h.EnableRebalanceMonitoring) != isTrue(h.EnableRebalanceDraining) && isTrue(h.EnableRebalanceMonitoring) && queue {
		c.bad(path+"enableRebalanceMonitoring", "true", "has no effect without enableRebalanceDraining", "set both")
	}
}

// clusterWarmPool checks the pool that every group of nodes gets.
func clusterWarmPool(c *check) {
	a := c.spec.CloudProvider.AWS
	if a == nil || a.WarmPool == nil {
		return
	}
	warmPool(c, a.WarmPool)
	if len(a.WarmPool.AdditionalImages) > 0 && a.WarmPool.MaxSize != nil {
		c.bad("spec.warmPool.additionalImages", strings.Join(a.WarmPool.AdditionalImages, ","), "cannot stand together with maxSize", "leave one of them, or set it in the instance groups")
	}
}

// warmPool checks the sizes of a cluster's or a group's warm pool.
func warmPool(c *check, w *api.WarmPoolSpec) {
	if w == nil {
		return
	}
	const path = "spec.warmPool."
	if w.MinSize < 0 {
		c.bad(path+"minSize", number(w.MinSize), "is less than 0", "write a number from 0")
	}
	if w.MaxSize == nil {
		return
	}
	switch {
	case *w.MaxSize < 0:
		c.bad(path+"maxSize", number(*w.MaxSize), "is less than 0", "write a number from 0")
	case w.MinSize > *w.MaxSize:
		c.bad(path+"minSize", number(w.MinSize), "is more than maxSize "+number(*w.MaxSize), "lower it, or raise maxSize")
	}
}
