package validate

import (
	"reflect"
	"slices"

	"kops.local/kops/api"
)

// clusterRules are the rules for a cluster, in the order in which findings are told.
func clusterRules() []rule {
	return slices.Concat(
		[]rule{
			{"enum", func(c *check) { enums(c, "spec", reflect.ValueOf(c.spec)) }},
			{"name", clusterName},
			{"kubernetes-version", kubernetesVersion},
			{"cloud-provider", cloudProvider},
			{"gossip", gossip},
			{"access", access},
			{"update-policy", func(c *check) { updatePolicy(c, c.spec.UpdatePolicy) }},
			{"sysctl", func(c *check) { sysctls(c, c.spec.SysctlParameters) }},
			{"addons", addonManifests},
			{"cloud-labels", func(c *check) { cloudLabels(c, c.spec.CloudLabels, "") }},
			{"assets", assets},
			{"file-repository", fileRepository},
			{"egress-proxy", egressProxy},
			{"file-assets", func(c *check) { fileAssets(c, c.spec.FileAssets) }},
			{"hooks", func(c *check) { hooks(c, c.spec.Hooks) }},
			{"rolling-update", func(c *check) { rollingUpdate(c, c.spec.RollingUpdate, false) }},
			{"config-store", configStore},
		},
		identityRules(), networkRules(), podNetworkRules(), balancerRules(), componentRules(), addonRules(), awsRules(), localRules(),
		[]rule{{"components", components}},
	)
}

func identityRules() []rule {
	return []rule{
		{"service-account-permissions", serviceAccountPermissions},
		{"policies", policies},
		{"issuer-discovery", issuerDiscovery},
		{"kopeio-authentication", kopeioAuthentication},
		{"aws-authentication", awsAuthentication},
	}
}

func networkRules() []rule {
	return []rule{
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

func podNetworkRules() []rule {
	return []rule{
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
	}
}

func balancerRules() []rule {
	return []rule{
		{"api-names", apiNames},
		{"load-balancer-class", balancerClass},
		{"load-balancer-type", balancerType},
		{"load-balancer-groups", balancerGroups},
		{"load-balancer-aws", balancerAWS},
		{"load-balancer-certificate", balancerCertificate},
		{"load-balancer-subnets", balancerSubnets},
	}
}

func componentRules() []rule {
	return []rule{
		{"apiserver", apiServer},
		{"authorization", authorization},
		{"apiserver-authorization", authorizationModes},
		{"apiserver-audit", auditWebhook},
		{"component-cloud", componentCloud},
		{"controller-manager", controllerManager},
		{"scheduler", scheduler},
		{"kube-proxy", kubeProxy},
		{"kubelet", func(c *check) {
			kubelet(c, "spec.kubelet", c.spec.Kubelet)
			kubelet(c, "spec.masterKubelet", c.spec.ControlPlaneKubelet)
		}},
		{"kube-dns", kubeDNS},
		{"kubelet-dns", kubeletDNS},
		{"node-local-dns", nodeLocalDNS},
		{"containerd", func(c *check) { containerd(c, c.spec.Containerd) }},
		{"cluster-runtime", clusterRuntime},
		{"etcd", etcdClusters},
		{"etcd-members", etcdMembers},
		{"etcd-version", etcdVersions},
		{"etcd-timing", etcdTiming},
		{"etcd-backups", etcdBackups},
	}
}

func addonRules() []rule {
	return []rule{
		{"external-dns", externalDNS},
		{"cert-manager", certManager},
		{"needs-cert-manager", needsCertManager},
		{"cluster-autoscaler", clusterAutoscaler},
		{"karpenter", karpenter},
		{"storage-classes", storageClasses},
	}
}

func awsRules() []rule {
	return []rule{
		{"aws-load-balancers", nlbGroups},
		{"aws-node-names", nodeNames},
		{"aws-termination-handler", terminationHandler},
		{"warm-pool", clusterWarmPool},
		{"aws-etcd-volume", etcdVolumes},
	}
}

// groupRules are the rules for a group.
func groupRules() []groupRule {
	return []groupRule{
		{"enum", "", func(c *check, g *api.InstanceGroup) { enums(c, "spec", reflect.ValueOf(&g.Spec)) }},
		{"name", "", groupName},
		{"role", "", groupRole},
		{"apiserver-role", "", apiServerRole},
		{"group-subnets", "", groupSubnets},
		{"group-size", "", groupSize},
		{"etcd-member", "", isMember},
		{"image", "", groupImage},
		{"update-policy", "", func(c *check, g *api.InstanceGroup) { updatePolicy(c, g.Spec.UpdatePolicy) }},
		{"sysctl", "", func(c *check, g *api.InstanceGroup) { sysctls(c, g.Spec.SysctlParameters) }},
		{"cloud-labels", "", func(c *check, g *api.InstanceGroup) { cloudLabels(c, g.Spec.CloudLabels, g.Name) }},
		{"file-assets", "", func(c *check, g *api.InstanceGroup) { fileAssets(c, g.Spec.FileAssets) }},
		{"hooks", "", func(c *check, g *api.InstanceGroup) { hooks(c, g.Spec.Hooks) }},
		{"rolling-update", "", func(c *check, g *api.InstanceGroup) { rollingUpdate(c, g.Spec.RollingUpdate, g.IsControlPlane()) }},
		{"kubelet", "", func(c *check, g *api.InstanceGroup) { kubelet(c, "spec.kubelet", g.Spec.Kubelet) }},
		{"containerd", "", func(c *check, g *api.InstanceGroup) { containerd(c, g.Spec.Containerd) }},
		{"group-runtime", "", groupRuntime},
		{"tenancy", "", tenancy},
		{"volumes", "", volumes},
		{"volume-mounts", "", volumeMounts},
		{"user-data", "", userData},
		{"node-labels", "", nodeLabels},
		{"taints", "", taints},
		{"security-groups", "", securityGroups},
		{"root-volume", "", rootVolume},
		{"spot", "", spot},
		{"instance-metadata", "", instanceMetadata},
		{"mixed-instances", "", mixedInstances},
		{"external-load-balancers", "", externalBalancers},
		{"instance-profile", "", instanceProfile},
		{"lifetime", "", lifetime},
		{"provisioning-model", "", provisioningModel},
		{"warm-pool", "", groupWarmPool},
		{"distribution", "", distribution},
		{"karpenter", "", karpenterGroup},
		{"gce-zones", api.CloudGCE, gceZones},
		{"aws-root-volume", api.CloudAWS, awsRootVolume},
		{"machine-type", api.CloudAWS, machineType},
		{"local-machine-type", api.CloudLocal, localMachineType},
		{"mixed-types", api.CloudAWS, mixedTypes},
	}
}
