package validate

import (
	"reflect"
	"regexp"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/fields"
)

// NoManifest is the remedy for fields of an add-on that kops leaves to the user.
const NoManifest = "remove it; this version of kops has no manifest of the add-on, so set this in your own manifest"

// unusedCluster returns the fields of a Cluster without effect on any platform. They include what
// kOps no longer reads either: specs that it stored have such fields.
func unusedCluster() []traits.Unused {
	return []traits.Unused{
		{Blocks: []string{"kubelet", "controlPlaneKubelet"}, Names: oldKubelet(), Remedy: "remove it; kubelets no longer have this setting"},
		{Blocks: []string{"etcdClusters[].backups"}, Names: []string{"image"}, Remedy: "remove it; backups are taken by etcd-manager itself, see manager.image"},
		{Names: []string{"useHostCertificates"}, Remedy: "remove it; programs trust the certificates in their own images"},
		{Blocks: []string{"kubeAPIServer"}, Names: []string{"disableBasicAuth"}, Remedy: "remove it; Kubernetes no longer supports basic authentication"},
		{Blocks: []string{"kubeAPIServer"}, Names: []string{"clientCAFile"}, Remedy: "remove it; kops writes the file"},
		{Blocks: []string{"kubeControllerManager", "kubeScheduler"}, Names: []string{"tlsCertFile", "tlsPrivateKeyFile"}, Remedy: "remove it; kops writes the file"},
		{Blocks: []string{"kubeProxy"}, Names: []string{"master"}, Remedy: "remove it; kops knows where the API is"},
		{Blocks: []string{"kubelet", "controlPlaneKubelet"}, Names: []string{"kubeletCgroups", "runtimeCgroups", "systemCgroups"},
			Remedy: "remove it; kops does not create a cgroup with that name"},
		{Blocks: []string{"kubeScheduler"}, Names: []string{"maxPersistentVolumes"}, Remedy: "remove it; CSI drivers set how many volumes a node can have"},
		{Blocks: []string{"kubeDNS"}, Names: []string{"cacheMaxSize", "cacheMaxConcurrent", "stubDomains"},
			Remedy: "remove it; only kube-dns has this setting, and a Corefile of your own can be set in externalCoreFile"},
		{Blocks: []string{"networking.cilium"}, Names: []string{"sidecarIstioProxyImage", "toFQDNsEnablePoller", "enableHostReachableServices",
			"enableRemoteNodeIdentity", "disableCNPStatusUpdates", "installIptablesRules", "enableUnreachableRoutes"}, Remedy: "remove it; Cilium no longer has this setting"},
		{Blocks: []string{"networking.cilium"}, Names: []string{"bpfCTGlobalTCPMax", "bpfCTGlobalAnyMax", "bpfNATGlobalMax", "bpfNeighGlobalMax", "bpfPolicyMapMax", "bpfLBMapMax"},
			Remedy: "remove it; the sizes are fixed or follow from the machine's memory, and extraConfig can change them"},
		{Blocks: []string{"networking.cilium"}, Names: []string{"enablePolicy", "bpfLBAlgorithm", "bpfLBMaglevTableSize"}, Remedy: "remove it, or set enable-policy, bpf-lb-algorithm or bpf-lb-maglev-table-size in extraConfig"},
		{Blocks: []string{"certManager"}, Names: []string{"image"}, Remedy: "remove it; kops chooses the version of cert-manager; spec.assets sets where its images come from"},
		{Blocks: []string{"karpenter"}, Names: []string{"logEncoding"}, Remedy: "remove it; Karpenter no longer has this setting"},
	}
}

// unusedGroup returns the fields of an InstanceGroup without effect on any platform.
func unusedGroup() []traits.Unused {
	return []traits.Unused{
		{Blocks: []string{"kubelet"}, Names: oldKubelet(), Remedy: "remove it; kubelets no longer have this setting"},
		{Blocks: []string{"kubelet"}, Names: []string{"kubeletCgroups", "runtimeCgroups", "systemCgroups"}, Remedy: "remove it; kops does not create a cgroup with that name"},
	}
}

// unusedByKarpenter returns the fields of an InstanceGroup without effect on machines that Karpenter
// creates: settings of an Auto Scaling group, and types that instanceRequirements replace.
func unusedByKarpenter(g *api.InstanceGroup) []traits.Unused {
	const remedy = "remove it; it is a setting of an Auto Scaling group, and Karpenter creates these machines without one"
	out := []traits.Unused{
		{Names: []string{"autoscale", "autoscalePriority", "capacityRebalance", "cpuCredits", "externalLoadBalancers", "instanceInterruptionBehavior", "instanceProtection",
			"maxInstanceLifetime", "suspendProcesses", "tenancy", "warmPool"}, Remedy: remedy},
		{Blocks: []string{"mixedInstancesPolicy"}, Names: []string{"onDemandAllocationStrategy", "onDemandBase", "spotAllocationStrategy", "spotInstancePools"}, Remedy: remedy},
	}
	if p := g.Spec.MixedInstancesPolicy; p != nil && p.InstanceRequirements != nil {
		out = append(out, traits.Unused{Blocks: []string{"mixedInstancesPolicy"}, Names: []string{"instances"}, Remedy: "remove it, or instanceRequirements, which replaces it"})
	}
	return out
}

// cloudFields returns the fields of a kind that have no use for machines that no cloud creates.
func cloudFields(kind string) []string {
	if kind == api.KindInstanceGroup {
		return []string{"associatePublicIP", "autoscale", "autoscalePriority", "capacityRebalance", "cloudLabels", "cpuCredits", "detailedInstanceMonitoring",
			"additionalSecurityGroups", "securityGroupOverride", "instanceInterruptionBehavior", "instanceMetadata", "instanceProtection", "maxInstanceLifetime", "maxPrice",
			"spotDurationInMinutes", "suspendProcesses", "tenancy", "volumes", "zones"}
	}
	out := []string{"cloudConfig.manageStorageClasses", "cloudControllerManager", "cloudLabels", "iam.useServiceAccountExternalPermissions", "nodePortAccess", "sshKeyName", "snapshotController.installDefaultClass",
		"networking.networkID", "networking.tagSubnets", "networking.topology.bastion", "serviceAccountIssuerDiscovery.additionalAudiences"}
	for _, f := range []string{"id", "publicIP", "region", "egress", "additionalRoutes"} {
		out = append(out, "networking.subnets[]."+f)
	}
	for _, f := range []string{"encryptedVolume", "kmsKeyID", "volumeIOPS", "volumeSize", "volumeThroughput", "volumeType"} {
		out = append(out, "etcdClusters[].etcdMembers[]."+f)
	}
	return out
}

// oldKubelet returns settings of kubelets of long ago.
func oldKubelet() []string {
	return []string{"kubeconfigPath", "registerSchedulable", "allowPrivileged", "seccompProfileRoot", "babysitDaemons", "nvidiaGPUs", "reconcileCIDR",
		"enableCustomMetrics", "imagePullProgressDeadline", "experimentalAllocatableIgnoreEviction"}
}

// unused returns the fields of a kind without effect on a platform: on all, on this one, and
// because of a missing ability.
func unused(t *traits.Traits, kind string) []traits.Unused {
	lacks := func(names ...string) traits.Unused {
		return traits.Unused{Kind: kind, Names: names, Remedy: "remove it; it does not exist on " + t.Title}
	}
	var table []traits.Unused
	if !t.Has.Repair {
		table = append(table, lacks("repair.after", "repair.maxUnhealthy"))
	}
	if !t.Has.GPUDrivers {
		table = append(table, lacks("containerd.nvidiaGPU.image", "containerd.nvidiaGPU.dcgmExporter.enabled"))
	}
	if t.Machines.NoCloud {
		table = append(table, lacks(cloudFields(kind)...))
	}
	if kind == api.KindCluster {
		table = append(table, unusedCluster()...)
		if !t.HasDNS() {
			table = append(table, lacks("dnsZone", "externalDNS.allowedDomains", "externalDNS.watchIngress", "externalDNS.watchNamespace", "externalDNS.priorityClassName"))
		}
		if t.Terraform.Never {
			table = append(table, lacks("target.terraform"))
		}
		if t.Model.FixedDNS {
			table = append(table, traits.Unused{Blocks: []string{"kubeDNS"}, Names: []string{"cpaImage"}, Remedy: "remove it; the number of DNS servers is set in the spec"})
		}
		if t.Network.Zoned && t.Network.RegionOf != nil {
			table = append(table, traits.Unused{Blocks: []string{"networking.subnets[]"}, Names: []string{"region"}, Remedy: "remove it; the zone determines the region"})
		}
		if !t.Has.BalancerSubnets {
			table = append(table, traits.Unused{Blocks: []string{"api.loadBalancer"}, Names: []string{"subnets"}, Remedy: "remove it; the cloud chooses the subnets of its load balancers"})
		}
	} else {
		table = append(table, unusedGroup()...)
		if !t.Has.MixedInstances {
			table = append(table, lacks("mixedInstancesPolicy", "externalLoadBalancers", "iam.profile"))
		}
		if !t.Has.WarmPools {
			table = append(table, lacks("warmPool"))
		}
	}
	for _, u := range t.Unused {
		if u.Kind == kind {
			table = append(table, u)
		}
	}
	return table
}

// NoEffect warns about every field that is set, accepted and has no effect. The objects must be as
// the user wrote them: a completed spec also has values set by rules.
func NoEffect(t *traits.Traits, cluster *api.Cluster, groups []*api.InstanceGroup) diag.List {
	c := newCheck(Input{Cluster: cluster, Platform: Platform{Traits: t}})
	c.rule = "no-effect"
	c.object = api.KindCluster + "/" + c.Cluster.Name
	c.unused(api.KindCluster, reflect.ValueOf(c.Spec))
	if t.Machines.NoCloud {
		c.openToAll("spec.api.access", c.Spec.API.Access)
		c.openToAll("spec.sshAccess", c.Spec.SSHAccess)
	}
	for _, g := range groups {
		c.object = api.KindInstanceGroup + "/" + g.Name
		var further []traits.Unused
		if g.Spec.Manager == api.ManagerKarpenter {
			further = unusedByKarpenter(g)
		}
		c.unused(api.KindInstanceGroup, reflect.ValueOf(&g.Spec), further...)
	}
	return c.findings
}

// openToAll warns about ranges on a platform that does not limit access. The range of all
// addresses, which new clusters have, sets no limit.
func (c *Check) openToAll(list string, ranges []string) {
	for i, r := range ranges {
		if r != "0.0.0.0/0" && r != "::/0" {
			c.Warn(compat.OlderPath(api.KindCluster, At(list, i)), r, "has no effect: kops does not restrict access on "+c.title(), "restrict it with your own firewall")
		}
	}
}

// index matches the index of an item in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// unused warns about the fields of one object that have no effect.
func (c *Check) unused(kind string, spec reflect.Value, further ...traits.Unused) {
	remedies := map[string]string{}
	for _, u := range append(unused(c.platform.Traits, kind), further...) {
		for path := range u.Paths() {
			remedies[path] = u.Remedy
		}
	}
	fields.Each("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		remedy, ok := remedies[index.ReplaceAllString(path, "[]")]
		if of := f.Tag.Get("cloud"); of != "" && of != string(c.platform.Name) {
			remedy, ok = "remove it; it is only for "+of, true
		}
		if ok && !v.IsZero() {
			c.Warn(c.older(path), "", "has no effect", remedy)
		}
		return !ok
	})
}
