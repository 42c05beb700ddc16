package complete

import (
	"slices"

	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/fill"
)

// storedRules returns the rules for what is kept in the stored spec.
func storedRules(on Platform) []Rule {
	return slices.Concat([]Rule{
		{"config-base", "the cluster's folder in the state store", setConfigBase},
		{"etcd-backup-retention", "backups are kept for 90 days", setBackupRetention},
		{"kubernetes-version", "the channel's recommendation for new clusters", setKubernetesVersion},
		{"network-cidr", "the default of the cloud", setNetworkCIDR},
	}, on.Early, []Rule{
		{"non-masquerade-cidr", "100.64.0.0/10, unless pods get addresses from the cloud's network", setNonMasqueradeCIDR},
	}, on.Ranges, []Rule{
		{"api-public-name", "api.<cluster>, published in DNS", setStoredPublicName},
		{"subnet-cidr", "the network's range, split between the subnets", setSubnets},
		{"egress-proxy-excludes", "no proxy is needed for addresses inside the cluster", setProxyExcludes},
	})
}

// clusterRules returns the rules for the rest of the cluster's spec.
func clusterRules(on Platform, addons *catalogue.Catalogue) []Rule {
	return slices.Concat(
		[]Rule{
			{"version-form", "versions are stored without a leading v", dropVersionPrefix},
			{"dns-type", "names are published in a public zone unless the spec says otherwise", setDNSType},
			{"authorization", "RBAC is the default", setAuthorization},
			{"pod-cidr", "the upper half of nonMasqueradeCIDR", setPodCIDR},
			{"service-range", "the same for all clusters", setServiceRange},
			{"stores", "below the cluster's folder", setStores},
			{"api-access", "a load balancer for private control planes, DNS for public ones", setAPIAccess},
			{"api-load-balancer", "reached from the internet unless the spec says otherwise", setLoadBalancer},
			{"dns-zone", "the zone that matches the longest suffix of the cluster's name", setDNSZone},
			{"public-name", "api.<cluster>, published in DNS", setPublicName},
			{"external-dns", "dns-controller publishes the names", setExternalDNS},
			{"cluster-domain", "the usual domain of services", setClusterDomain},
			{"etcd-version", "depends on the Kubernetes version", setEtcdVersion},
			{"etcd-backups", "below the cluster's folder", setEtcdBackups},
		},
		on.Before,
		componentRules(),
		[]Rule{{"storage-classes", "kops creates the cloud's storage classes", func(p *Pass) { fill.Ptr(&fill.Ensure(&p.Spec.CloudConfig).ManageStorageClasses, true) }}},
		on.After,
		addonRules(addons),
		networkingRules(),
		[]Rule{{"amounts", "a default request is at most the limit that the spec has, and a default limit is at least the request", fitAmounts}},
	)
}

// componentRules returns the rules for the configuration of Kubernetes' own programs.
func componentRules() []Rule {
	return []Rule{
		{"zero-amounts", "0 means the default", dropZeroAmounts},
		{"apiserver", "how kops runs the API server", setAPIServer},
		{"apiserver-authorization", "depends on spec.authorization and spec.authentication", setAPIServerAuth},
		{"apiserver-etcd", "the etcd on the same machine", setAPIServerEtcd},
		{"apiserver-admission", "the plugins that kops enables", setAdmission},
		{"service-account-issuer", "the discovery store, or else the API server's internal name", setIssuer},
		{"controller-manager", "how kops runs the controller manager", setControllerManager},
		{"controller-manager-network", "depends on the pod network", setControllerManagerNetwork},
		{"scheduler", "how kops runs the scheduler", setScheduler},
		{"kube-proxy", "how kops runs kube-proxy", setKubeProxy},
		{"dns-addon", "how kops runs CoreDNS", setKubeDNS},
		{"node-local-dns", "how kops runs the nodes' DNS cache", setNodeLocalDNS},
		{"control-plane-kubelet", "the kubelet's settings, overridden by those for the control plane", mergeControlPlaneKubelet},
		{"isolated-control-plane", "depends on spec.isolateMasters", isolateControlPlane},
		{"kubelet", "how kops runs the kubelet", setKubelet},
		{"kubelet-dns", "the address of the cluster's DNS service", setKubeletDNS},
		{"kubelet-cloud", "the cloud's controllers run outside the kubelet", setKubeletCloud},
		{"kubelet-shutdown", "when a machine shuts down, pods get 30 s to terminate, the last 10 s for critical pods", setKubeletShutdown},
		{"kubelet-gates", "etcd's binaries are in image volumes, which need a feature gate before Kubernetes 1.36", setImageVolume},
		{"kubelet-old", "the setting exists only before Kubernetes 1.34", setRegisterSchedulable},
		{"kubelet-flatcar", "/usr is read-only on Flatcar", setVolumePlugins},
		{"containerd", "the version that this kops was tested with", setContainerd},
	}
}

// networkingRules returns the rules for the configuration of the pod network.
func networkingRules() []Rule {
	return []Rule{
		{"cilium", "only the parts that the user configures", setCiliumParts},
		{"cilium-datapath", "depends on the IP family of pods", setCiliumDatapath},
		{"kindnet", "depends on the IP family of pods", setKindnet},
	}
}

// storedGroupRules returns the rules for what is kept in the stored spec of a group.
func storedGroupRules() []GroupRule {
	return []GroupRule{
		{"group-subnets", "all subnets that suit the role", setGroupSubnets},
		{"group-size", "one machine for a control plane or a bastion, two otherwise", setSize},
		{"machine-type", "the first default type that all zones offer", setMachineType},
		{"image", "the channel's image for the cloud, the architecture and the version", setImage},
	}
}

// groupRules returns the rules for the specs of groups.
func groupRules(on Platform) []GroupRule {
	return slices.Concat(storedGroupRules(), []GroupRule{
		{"group-manager", "the cloud's own scaling group", setManager},
		{"gpu", "the machine type has GPUs and the driver is enabled", setGPU},
		{"gvisor", "gVisor is enabled for the group", setGVisor},
	}, on.Group, []GroupRule{
		{"group-containerd", "the cluster's settings, overridden by the group's settings", mergeContainerd},
		{"group-kubelet", "the cluster's settings for the role, overridden by the group's settings", mergeKubelet},
		{"node-labels", "labels of the role, the kubelet and the group", setNodeLabels},
		{"node-taints", "taints of the role, the kubelet and the group", setTaints},
	})
}
