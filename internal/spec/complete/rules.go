package complete

import (
	"slices"

	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/fill"
)

// storedRules fill what is kept in the stored spec.
func storedRules(on Platform) []Rule {
	return slices.Concat([]Rule{
		{"config-base", "the state store's folder of the cluster", setConfigBase},
		{"etcd-backup-retention", "backups are kept for 90 days", setBackupRetention},
		{"kubernetes-version", "the channel's recommendation for new clusters", setKubernetesVersion},
		{"network-cidr", "the default of the cloud", setNetworkCIDR},
	}, on.Early, []Rule{
		{"non-masquerade-cidr", "100.64.0.0/10, unless the pod network uses addresses of the cloud", setNonMasqueradeCIDR},
	}, on.Ranges, []Rule{
		{"api-public-name", "api.<cluster>, published in DNS", setStoredPublicName},
		{"subnet-cidr", "the network's range, split between the subnets", setSubnets},
		{"egress-proxy-excludes", "addresses inside the cluster need no proxy", setProxyExcludes},
	})
}

// clusterRules fill the rest of the cluster's spec.
func clusterRules(on Platform, addons *catalogue.Catalogue) []Rule {
	return slices.Concat(
		[]Rule{
			{"version-form", "versions are held without a leading v", dropVersionPrefix},
			{"dns-type", "names are published in a public zone unless the spec says otherwise", setDNSType},
			{"authorization", "RBAC is the default", setAuthorization},
			{"pod-cidr", "the upper half of nonMasqueradeCIDR", setPodCIDR},
			{"service-range", "the same for all clusters", setServiceRange},
			{"stores", "below the cluster's folder", setStores},
			{"api-access", "a load balancer for private control planes, DNS for public ones", setAPIAccess},
			{"api-load-balancer", "reached from the internet unless the spec says otherwise", setLoadBalancer},
			{"dns-zone", "the longest zone that the cluster's name ends in", setDNSZone},
			{"public-name", "api.<cluster>, published in DNS", setPublicName},
			{"external-dns", "dns-controller publishes the names", setExternalDNS},
			{"cluster-domain", "the usual domain of services", setClusterDomain},
			{"etcd-version", "by the version of Kubernetes", setEtcdVersion},
			{"etcd-backups", "below the cluster's folder", setEtcdBackups},
		},
		on.Before,
		componentRules(),
		[]Rule{{"storage-classes", "kops makes the cloud's storage classes", func(p *Pass) { fill.Ptr(&fill.Ensure(&p.Spec.CloudConfig).ManageStorageClasses, true) }}},
		on.After,
		addonRules(addons),
		networkingRules(),
	)
}

// componentRules fill the configuration of Kubernetes' own programs.
func componentRules() []Rule {
	return []Rule{
		{"apiserver", "how kops runs the API server", setAPIServer},
		{"apiserver-authorization", "by spec.authorization and spec.authentication", setAPIServerAuth},
		{"apiserver-etcd", "the etcd of the same machine", setAPIServerEtcd},
		{"apiserver-admission", "the plugins that kops turns on", setAdmission},
		{"service-account-issuer", "by the discovery store, else the API server's internal name", setIssuer},
		{"controller-manager", "how kops runs the controller manager", setControllerManager},
		{"controller-manager-network", "by the pod network", setControllerManagerNetwork},
		{"scheduler", "how kops runs the scheduler", setScheduler},
		{"kube-proxy", "how kops runs kube-proxy", setKubeProxy},
		{"dns-addon", "how kops runs CoreDNS", setKubeDNS},
		{"node-local-dns", "how kops runs the DNS cache of nodes", setNodeLocalDNS},
		{"control-plane-kubelet", "the kubelet's settings with those for the control plane over them", mergeControlPlaneKubelet},
		{"isolated-control-plane", "by spec.isolateMasters", isolateControlPlane},
		{"kubelet", "how kops runs the kubelet", setKubelet},
		{"kubelet-dns", "the address of the cluster's DNS", setKubeletDNS},
		{"kubelet-cloud", "the cloud's controllers run outside of the kubelet", setKubeletCloud},
		{"kubelet-shutdown", "pods get 30 s to end when a machine shuts down, critical ones the last 10 s", setKubeletShutdown},
		{"kubelet-gates", "etcd's binaries are image volumes, which are a feature gate before Kubernetes 1.36", setImageVolume},
		{"kubelet-old", "Kubernetes before 1.34 has the setting", setRegisterSchedulable},
		{"kubelet-flatcar", "Flatcar's /usr cannot be written", setVolumePlugins},
		{"containerd", "the version that this kops was tested with", setContainerd},
	}
}

// networkingRules fill the configuration of the pod network.
func networkingRules() []Rule {
	return []Rule{
		{"cilium", "the parts that the user configures, and no other", setCiliumParts},
		{"cilium-datapath", "by the addresses that pods have", setCiliumDatapath},
		{"kindnet", "by the addresses that pods have", setKindnet},
	}
}

// storedGroupRules fill what is kept in the stored spec of a group.
func storedGroupRules() []GroupRule {
	return []GroupRule{
		{"group-subnets", "all subnets that suit the role", setGroupSubnets},
		{"group-size", "one machine for a control plane or a bastion, else two", setSize},
		{"machine-type", "the first of the usual types that the zones offer", setMachineType},
		{"image", "the channel's image for the cloud, the architecture and the version", setImage},
	}
}

// groupRules fill the specs of groups.
func groupRules(on Platform) []GroupRule {
	return slices.Concat(storedGroupRules(), []GroupRule{
		{"group-manager", "the cloud's own scaling group", setManager},
		{"gpu", "the machine type has GPUs and the driver is enabled", setGPU},
		{"gvisor", "gVisor is enabled for the group", setGVisor},
	}, on.Group, []GroupRule{
		{"group-containerd", "the cluster's containerd with the group's settings over it", mergeContainerd},
		{"group-kubelet", "the cluster's kubelet for the role with the group's settings over it", mergeKubelet},
		{"node-labels", "labels of the role, of the kubelet and of the group", setNodeLabels},
		{"node-taints", "taints of the role, of the kubelet and of the group", setTaints},
	})
}
