package validate

import (
	"reflect"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/catalogue"
)

// clusterRules returns the rules for a cluster, in the order in which findings are reported.
func clusterRules(on Platform, addons *catalogue.Catalogue) []Rule {
	return slices.Concat(
		[]Rule{
			{"enum", func(c *Check) { enums(c, "spec", reflect.ValueOf(c.Spec)) }},
			{"characters", func(c *Check) { characters(c, reflect.ValueOf(c.Spec)) }},
			{"passwords", func(c *Check) { passwords(c, reflect.ValueOf(c.Spec)) }},
			{"quantities", func(c *Check) { quantities(c, reflect.ValueOf(c.Spec)) }},
			{"annotations", annotations},
			{"node-labels", clusterNodeLabels},
			{"taints", clusterTaints},
			{"ports", func(c *Check) { portNumbers(c, reflect.ValueOf(c.Spec)) }},
			{"hosts", hosts},
			{"name", clusterName},
			{"kubernetes-version", kubernetesVersion},
			{"cloud-provider", cloudProvider},
			{"gossip", gossip},
			{"access", access},
			{"closed", emptyAccess},
			{"update-policy", func(c *Check) { updatePolicy(c, c.Spec.UpdatePolicy) }},
			{"sysctl", func(c *Check) { sysctls(c, c.Spec.SysctlParameters) }},
			{"addons", addonManifests},
			{"cloud-labels", func(c *Check) { cloudLabels(c, c.Spec.CloudLabels, "") }},
			{"assets", assets},
			{"file-repository", fileRepository},
			{"trusted-keys", trustedKeys},
			{"egress-proxy", egressProxy},
			{"file-assets", func(c *Check) { fileAssets(c, c.Spec.FileAssets) }},
			{"hooks", func(c *Check) { hooks(c, c.Spec.Hooks) }},
			{"rolling-update", func(c *Check) { rollingUpdate(c, c.Spec.RollingUpdate, false) }},
			{"repair", func(c *Check) { repair(c, c.Spec.Repair, nil) }},
		},
		identityRules(), networkRules(), podNetworkRules(), balancerRules(), componentRules(), addonRules(), catalogueRules(addons), on.Cluster,
		[]Rule{{"components", components}},
	)
}

func identityRules() []Rule {
	return []Rule{
		{"service-account-permissions", serviceAccountPermissions},
		{"issuer-discovery", issuerDiscovery},
		{"aws-authentication", awsAuthentication},
	}
}

func networkRules() []Rule {
	return []Rule{
		{"network-needs", networkNeeds},
		{"network-cidr", networkCIDR},
		{"non-masquerade-cidr", nonMasqueradeCIDR},
		{"pod-cidr", podCIDR},
		{"service-range", serviceRange},
		{"subnets", subnets},
		{"subnet-cidr", subnetCIDRs},
		{"subnet-ipv6", subnetIPv6},
		{"subnet-type", subnetTypes},
		{"subnet-egress", subnetEgress},
		{"subnet-routes", subnetRoutes},
		{"dns-type", dnsType},
	}
}

func podNetworkRules() []Rule {
	return []Rule{
		{"networking", networkingChoice},
		{"networking-ipv6", networkingIPv6},
		{"networking-cloud", networkingCloud},
		{"kube-proxy-replaced", proxyReplaced},
		{"flannel", flannel},
		{"kindnet", kindnet},
		{"calico", calico},
		{"calico-encapsulation", calicoEncapsulation},
		{"calico-detection", calicoDetection},
		{"cilium-version", ciliumVersion},
		{"cilium", cilium},
		{"cilium-encryption", ciliumEncryption},
		{"cilium-identity", ciliumIdentity},
		{"cilium-cluster", ciliumCluster},
		{"cilium-ports", ciliumPorts},
		{"calico-ports", calicoPorts},
	}
}

func balancerRules() []Rule {
	return []Rule{
		{"load-balancer-class", balancerClass},
		{"load-balancer-type", balancerType},
		{"load-balancer-groups", balancerGroups},
		{"load-balancer-abilities", balancerAbilities},
		{"load-balancer-certificate", balancerCertificate},
		{"load-balancer-subnets", balancerSubnets},
	}
}

func componentRules() []Rule {
	return []Rule{
		{"apiserver", apiServer},
		{"authorization", authorization},
		{"apiserver-authorization", authorizationModes},
		{"apiserver-audit", auditWebhook},
		{"component-cloud", componentCloud},
		{"starts", acceptedValues},
		{"controller-manager", controllerManager},
		{"scheduler", scheduler},
		{"kube-proxy", kubeProxy},
		{"kubelet", func(c *Check) {
			kubelet(c, "spec.kubelet", c.Spec.Kubelet)
			kubelet(c, "spec.masterKubelet", c.Spec.ControlPlaneKubelet)
		}},
		{"kube-dns", kubeDNS},
		{"kubelet-dns", kubeletDNS},
		{"node-local-dns", nodeLocalDNS},
		{"containerd", func(c *Check) { containerd(c, c.Spec.Containerd) }},
		{"cluster-runtime", clusterRuntime},
		{"etcd", etcdClusters},
		{"etcd-members", etcdMembers},
		{"etcd-version", etcdVersions},
		{"etcd-timing", etcdTiming},
		{"etcd-backups", etcdBackups},
		{"etcd-plain", etcdPlain},
	}
}

func addonRules() []Rule {
	return []Rule{
		{"external-dns", externalDNS},
		{"cluster-autoscaler", clusterAutoscaler},
	}
}

// groupRules returns the rules for a group.
func groupRules(on Platform) []GroupRule {
	return slices.Concat([]GroupRule{
		{"enum", func(c *Check, g *api.InstanceGroup) { enums(c, "spec", reflect.ValueOf(&g.Spec)) }},
		{"characters", func(c *Check, g *api.InstanceGroup) { characters(c, reflect.ValueOf(&g.Spec)) }},
		{"passwords", func(c *Check, g *api.InstanceGroup) { passwords(c, reflect.ValueOf(&g.Spec)) }},
		{"ports", func(c *Check, g *api.InstanceGroup) { portNumbers(c, reflect.ValueOf(&g.Spec)) }},
		{"name", groupName},
		{"role", groupRole},
		{"apiserver-role", apiServerRole},
		{"group-subnets", groupSubnets},
		{"group-size", groupSize},
		{"etcd-member", isMember},
		{"image", groupImage},
		{"update-policy", func(c *Check, g *api.InstanceGroup) { updatePolicy(c, g.Spec.UpdatePolicy) }},
		{"sysctl", func(c *Check, g *api.InstanceGroup) { sysctls(c, g.Spec.SysctlParameters) }},
		{"cloud-labels", func(c *Check, g *api.InstanceGroup) { cloudLabels(c, g.Spec.CloudLabels, g.Name) }},
		{"file-assets", func(c *Check, g *api.InstanceGroup) { fileAssets(c, g.Spec.FileAssets) }},
		{"hooks", func(c *Check, g *api.InstanceGroup) { hooks(c, g.Spec.Hooks) }},
		{"rolling-update", func(c *Check, g *api.InstanceGroup) { rollingUpdate(c, g.Spec.RollingUpdate, g.IsControlPlane()) }},
		{"repair", func(c *Check, g *api.InstanceGroup) { repair(c, g.Spec.Repair, c.Spec.Repair) }},
		{"kubelet", func(c *Check, g *api.InstanceGroup) { kubelet(c, "spec.kubelet", g.Spec.Kubelet) }},
		{"containerd", func(c *Check, g *api.InstanceGroup) { containerd(c, g.Spec.Containerd) }},
		{"starts", groupStarts},
		{"group-runtime", groupRuntime},
		{"tenancy", tenancy},
		{"volumes", volumes},
		{"volume-mounts", volumeMounts},
		{"user-data", userData},
		{"node-labels", nodeLabels},
		{"taints", taints},
		{"security-groups", securityGroups},
		{"root-volume", rootVolume},
		{"spot", spot},
		{"instance-metadata", instanceMetadata},
		{"mixed-instances", mixedInstances},
		{"lifetime", lifetime},
		{"warm-pool", groupWarmPool},
		{"distribution", distribution},
		{"karpenter", karpenterGroup},
		{"machine-type", machineType},
		{"mixed-types", mixedTypes},
	}, on.Group)
}
