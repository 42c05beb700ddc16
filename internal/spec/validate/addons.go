package validate

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

func externalDNS(c *check) {
	e := c.spec.ExternalDNS
	if e == nil {
		return
	}
	const path = "spec.externalDns."
	c.oneOf(path+"provider", string(e.Provider), "dns-controller", "external-dns", "none")
	if e.Provider == api.ExternalDNSProviderExternalDNS && complete.DNS(c.spec) == api.DNSNone {
		c.bad(path+"provider", string(e.Provider), "publishes names, and spec.topology.dns.type is None", "use none")
	}
	c.oneOf(path+"watchNamespace", e.WatchNamespace, "kube-system")
}

func certManager(c *check) {
	if m := c.spec.CertManager; m != nil && len(m.HostedZoneIDs) > 0 && !c.permissions() {
		c.bad("spec.certManager.hostedZoneIDs", "", "cert-manager has no permission of its own for zones", "set spec.iam.useServiceAccountExternalPermissions to true")
	}
}

// needsCertManager checks add-ons whose certificates cert-manager makes.
func needsCertManager(c *check) {
	if m := c.spec.CertManager; m != nil && isTrue(m.Enabled) {
		return
	}
	needs := func(on bool, path string) {
		if on {
			c.bad(path, "true", "needs cert-manager", "set spec.certManager.enabled to true")
		}
	}
	if s := c.spec.SnapshotController; s != nil {
		needs(isTrue(s.Enabled), "spec.snapshotController.enabled")
	}
	if a := c.spec.CloudProvider.AWS; a != nil {
		needs(a.LoadBalancerController != nil && isTrue(a.LoadBalancerController.Enabled), "spec.awsLoadBalancerController.enabled")
		needs(a.PodIdentityWebhook != nil && a.PodIdentityWebhook.Enabled, "spec.podIdentityWebhook.enabled")
	}
	if k := c.spec.Networking.Cilium; k != nil {
		needs(k.Hubble != nil && isTrue(k.Hubble.Enabled), "spec.networking.cilium.hubble.enabled")
	}
	if m := c.spec.MetricsServer; m != nil && isTrue(m.Enabled) && isFalse(m.Insecure) {
		c.bad("spec.metricsServer.insecure", "false", "needs cert-manager", "set spec.certManager.enabled to true")
	}
}

func clusterAutoscaler(c *check) {
	a := c.spec.ClusterAutoscaler
	if a == nil || !isTrue(a.Enabled) {
		return
	}
	const path = "spec.clusterAutoscaler."
	c.oneOf(path+"expander", a.Expander, "least-waste", "random", "most-pods", "price", "priority")
	if a.Expander == "price" && c.cloud != api.CloudGCE {
		c.bad(path+"expander", a.Expander, "knows prices on GCE only", "use least-waste")
	}
	if c.cloud == api.CloudOpenstack {
		c.bad(path+"enabled", "true", "does not run on OpenStack", "set it to false")
	}
}

func karpenter(c *check) {
	if k := c.spec.Karpenter; k != nil && k.Enabled && !c.permissions() {
		c.bad("spec.karpenter.enabled", "true", "Karpenter needs permissions of its own", "set spec.iam.useServiceAccountExternalPermissions to true")
	}
}

func storageClasses(c *check) {
	o := c.spec.CloudProvider.Openstack
	if o == nil || o.BlockStorage == nil || o.BlockStorage.CreateStorageClass == nil || c.spec.CloudConfig == nil {
		return
	}
	if m := c.spec.CloudConfig.ManageStorageClasses; m != nil && *m != *o.BlockStorage.CreateStorageClass {
		c.bad("spec.cloudConfig.manageStorageClasses", "", "disagrees with openstack.blockStorage.createStorageClass", "remove one of them")
	}
}
