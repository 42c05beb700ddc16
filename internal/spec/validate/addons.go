package validate

import (
	"kops.local/kops/api"
)

func externalDNS(c *Check) {
	e := c.Spec.ExternalDNS
	if e == nil {
		return
	}
	const path = "spec.externalDns."
	c.OneOf(path+"provider", string(e.Provider), "dns-controller", "external-dns", "none")
	if e.Provider == api.ExternalDNSProviderExternalDNS && c.Spec.DNSType() == api.DNSNone {
		c.Bad(path+"provider", string(e.Provider), "publishes names, and spec.topology.dns.type is None", "use none")
	}
	c.OneOf(path+"watchNamespace", e.WatchNamespace, "kube-system")
}

func certManager(c *Check) {
	if m := c.Spec.CertManager; m != nil && len(m.HostedZoneIDs) > 0 && !c.OwnRoles() {
		c.Bad("spec.certManager.hostedZoneIDs", "", "cert-manager has no permission of its own for zones", "set spec.iam.useServiceAccountExternalPermissions to true")
	}
}

// needsCertManager checks add-ons whose certificates cert-manager makes.
func needsCertManager(c *Check) {
	if m := c.Spec.CertManager; m != nil && isTrue(m.Enabled) {
		return
	}
	needs := func(on bool, path string) {
		if on {
			c.Bad(path, "true", "needs cert-manager", "set spec.certManager.enabled to true")
		}
	}
	if s := c.Spec.SnapshotController; s != nil {
		needs(isTrue(s.Enabled), "spec.snapshotController.enabled")
	}
	if a := c.Spec.CloudProvider.AWS; a != nil {
		needs(a.LoadBalancerController != nil && isTrue(a.LoadBalancerController.Enabled), "spec.awsLoadBalancerController.enabled")
		needs(a.PodIdentityWebhook != nil && a.PodIdentityWebhook.Enabled, "spec.podIdentityWebhook.enabled")
	}
	if k := c.Spec.Networking.Cilium; k != nil {
		needs(k.Hubble != nil && isTrue(k.Hubble.Enabled), "spec.networking.cilium.hubble.enabled")
	}
	if m := c.Spec.MetricsServer; m != nil && isTrue(m.Enabled) && isFalse(m.Insecure) {
		c.Bad("spec.metricsServer.insecure", "false", "needs cert-manager", "set spec.certManager.enabled to true")
	}
}

func clusterAutoscaler(c *Check) {
	a := c.Spec.ClusterAutoscaler
	if a == nil || !isTrue(a.Enabled) {
		return
	}
	const path = "spec.clusterAutoscaler."
	c.OneOf(path+"expander", a.Expander, "least-waste", "random", "most-pods", "price", "priority")
	if a.Expander == "price" && !c.on.Has.Prices {
		c.Bad(path+"expander", a.Expander, "knows no prices on "+c.title(), "use least-waste")
	}
}

func karpenter(c *Check) {
	if k := c.Spec.Karpenter; k != nil && k.Enabled && !c.OwnRoles() {
		c.Bad("spec.karpenter.enabled", "true", "Karpenter needs permissions of its own", "set spec.iam.useServiceAccountExternalPermissions to true")
	}
}
