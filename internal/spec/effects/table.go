package effects

import (
	"slices"
	"strings"

	"kops.local/kops/api"
)

// Entry says what a change of a field takes. It covers the fields below, too, unless
// they have entries of their own.
type Entry struct {
	// Path is the field's, in the shape of the objects, without indices: spec.hooks.before.
	// A star stands for any beginning of a name. With a dot at its end the path means the
	// fields below it, and not the presence of the block itself.
	Path   string
	Effect Effect
	// Why is the reason where it is not plain.
	Why string
}

// Table holds the entries of a kind of object: Cluster or InstanceGroup.
func Table(kind string) []Entry {
	switch kind {
	case api.KindCluster:
		return cluster()
	case api.KindInstanceGroup:
		return group()
	}
	return nil
}

func cluster() []Entry {
	return slices.Concat(whole(), ofCloud(), ofMachines(), ofAddons(), ofNetwork())
}

func whole() []Entry {
	return []Entry{
		{"spec.channel", None, "it only proposes versions"},
		{"spec.addons", Restart, "their URLs are flags of a pod of the control plane"},
		{"spec.configStore", Replace, "machines know it from their boot script"},
		{"spec.target", None, "it is of Terraform's files"},
		{"spec.kubernetesVersion", Replace, ""},
		{"spec.dnsZone", Restart, ""},
		{"spec.clusterDNSDomain", Restart, "kubelets pass it to pods that start"},
		{"spec.rollingUpdate", None, "it is read by the roll itself"},
		{"spec.repair", Live, "kops-controller goes by it"},
		{"spec.assets", Replace, "the boot script fetches from there"},
		{"spec.assets.containerRegistry", Restart, "manifests name their images by it"},
		{"spec.assets.containerProxy", Restart, "manifests name their images by it"},
	}
}

// ofCloud is what the cloud makes beside the machines, but for the network.
func ofCloud() []Entry {
	return []Entry{
		{"spec.cloudLabels", Live, "what runs is tagged, and new machines are"},
		{"spec.sshAccess", Live, "it is a rule of a firewall"},
		{"spec.nodePortAccess", Live, "it is a rule of a firewall"},
		{"spec.sshKeyName", Replace, ""},
		{"spec.externalPolicies", Live, "they are of the role that machines have"},
		{"spec.additionalPolicies", Live, "they are of the role that machines have"},
		{"spec.iam", Live, "it is of roles"},
		{"spec.iam.useServiceAccountExternalPermissions", Restart, "the API server issues tokens for them"},
		{"spec.serviceAccountIssuerDiscovery", Restart, "the API server names the issuer"},
		{"spec.api", Live, "it is of a load balancer or a firewall"},
		{"spec.api.publicName", Restart, "it is in the API server's certificate"},
		{"spec.api.additionalSANs", Restart, "they are in the API server's certificate"},
		{"spec.api.dns", Restart, "machines learn where the API is"},
		{"spec.api.loadBalancer.useForInternalAPI", Restart, "machines learn where the API is"},
		{"spec.cloudProvider", Replace, "machines are of it"},
		{"spec.cloudProvider.*.ebsCSIDriver", Live, addon},
		{"spec.cloudProvider.*.loadBalancerController", Live, addon},
		{"spec.cloudProvider.*.nodeTerminationHandler", Live, addon},
		{"spec.cloudProvider.*.podIdentityWebhook", Live, addon},
		{"spec.cloudProvider.*.warmPool", Live, "machines that serve are not of it"},
		{"spec.cloudProvider.*.warmPool.enableLifecycleHook", Replace, "machines notify the hook when they start"},
		{"spec.cloudProvider.*.warmPool.additionalImages", None, "they are pulled before a machine serves"},
		{"spec.cloudProvider.*.disableSecurityGroupIngress", Restart, cloudConfig},
		{"spec.cloudProvider.*.elbSecurityGroup", Restart, cloudConfig},
		{"spec.cloudProvider.*.nlbSecurityGroupMode", Restart, cloudConfig},
		{"spec.cloudProvider.*.pdCSIDriver", Live, addon},
		{"spec.cloudProvider.*.multizone", Restart, cloudConfig},
		{"spec.cloudProvider.*.nodeTags", Restart, cloudConfig},
		{"spec.cloudProvider.*.nodeInstancePrefix", Restart, cloudConfig},
	}
}

// ofMachines is what machines run.
func ofMachines() []Entry {
	return []Entry{
		{"spec.kubelet", Restart, ""},
		{"spec.kubelet.taints", Live, "they are set on nodes"},
		{"spec.kubelet.nodeLabels", Live, "they are set on nodes"},
		{"spec.controlPlaneKubelet", Restart, ""},
		{"spec.controlPlaneKubelet.taints", Live, "they are set on nodes"},
		{"spec.controlPlaneKubelet.nodeLabels", Live, "they are set on nodes"},
		{"spec.containerd", Restart, ""},
		{"spec.containerd.root", Replace, "all that it holds is elsewhere"},
		{"spec.containerd.state", Replace, "all that runs is elsewhere"},
		{"spec.containerd.nvidiaGPU", Replace, "drivers are installed at the start"},
		{"spec.kubeProxy", Restart, ""},
		{"spec.kubeAPIServer", Restart, ""},
		{"spec.kubeAPIServer.apiServerCount", None, "API servers find each other by their leases; the number is taken along"},
		{"spec.kubeControllerManager", Restart, ""},
		{"spec.kubeScheduler", Restart, ""},
		{"spec.etcdClusters", Restart, ""},
		{"spec.etcdClusters.name", Replace, "its disk is another"},
		{"spec.etcdClusters.etcdMembers", Replace, "a member is of a machine, and so is its disk"},
		{"spec.authentication", Restart, "the API server asks it"},
		{"spec.authorization", Restart, "it is of the API server"},
		{"spec.encryptionConfig", Restart, "it is of the API server"},
		{"spec.fileAssets", Restart, ""},
		{"spec.hooks", Restart, "nodeup writes and runs the unit"},
		{"spec.packages", Restart, ""},
		{"spec.sysctlParameters", Restart, ""},
		{"spec.ntp", Restart, ""},
		{"spec.updatePolicy", Restart, ""},
		{"spec.useHostCertificates", None, "nothing reads it"},
	}
}

func ofAddons() []Entry {
	return []Entry{
		{"spec.cloudConfig", Live, addon},
		{"spec.cloudControllerManager", Live, addon},
		{"spec.kubeDNS", Live, addon},
		{"spec.kubeDNS.serverIP", Restart, "kubelets pass it to pods that start"},
		{"spec.kubeDNS.domain", Restart, "kubelets pass it to pods that start"},
		{"spec.kubeDNS.nodeLocalDNS.enabled", Restart, "kubelets pass its address to pods"},
		{"spec.kubeDNS.nodeLocalDNS.localIP", Restart, "kubelets pass its address to pods"},
		{"spec.externalDNS", Live, addon},
		{"spec.nodeProblemDetector", Live, addon},
		{"spec.metricsServer", Live, addon},
		{"spec.certManager", Live, addon},
		{"spec.clusterAutoscaler", Live, addon},
		{"spec.snapshotController", Live, addon},
		{"spec.karpenter", Live, addon},
		{"spec.gossipConfig", None, "it is refused"},
		{"spec.dnsControllerGossipConfig", None, "it is refused"},
	}
}

// ofNetwork: to be of another network takes another machine; what runs in it is an add-on.
func ofNetwork() []Entry {
	return []Entry{
		{"spec.networking", Replace, ""},
		{"spec.networking.additionalNetworkCIDRs", Live, "it is of the cloud's network"},
		{"spec.networking.tagSubnets", Live, "it is of the cloud's network"},
		{"spec.networking.subnets", Live, "a group's own subnets count for its machines"},
		{"spec.networking.subnets.cidr", Replace, "addresses of machines are of it"},
		{"spec.networking.cni", Replace, ""},
		{"spec.networking.egressProxy", Replace, "the boot script goes by it"},
		{"spec.networking.topology", Replace, "machines learn from their boot script where the API is"},
		{"spec.networking.topology.bastion", Live, "it is of a load balancer"},
		{"spec.networking.isolateControlPlane", Live, "it is a rule of a firewall"},
		{"spec.networking.*.", Live, addon},
		{"spec.networking.calico.wireguardEnabled", Restart, "it is of the kernel's modules"},
		{"spec.networking.cilium.etcdManaged", Replace, "it is another etcd"},
		{"spec.networking.cilium.ipam", Replace, "pods get addresses of another range"},
		{"spec.networking.flannel.backend", Replace, "machines would not reach one another"},
	}
}

const (
	addon       = "channels applies the add-on"
	cloudConfig = "it is in a file of the machines"
)

func group() []Entry {
	return []Entry{
		{"spec.role", Replace, ""},
		{"spec.manager", Replace, "others make the machines"},
		{"spec.image", Replace, ""},
		{"spec.machineType", Replace, ""},
		{"spec.minSize", Live, "machines are added or removed"},
		{"spec.maxSize", Live, "machines are added or removed"},
		{"spec.autoscale", Live, "it is of the autoscaler"},
		{"spec.autoscalePriority", Live, "it is of the autoscaler"},
		{"spec.rootVolume", Replace, ""},
		{"spec.volumes", Replace, ""},
		{"spec.volumeMounts", Restart, "nodeup mounts them"},
		{"spec.subnets", Replace, ""},
		{"spec.zones", Live, "machines are added or removed"},
		{"spec.hooks", Restart, "nodeup writes and runs the unit"},
		{"spec.maxPrice", Replace, "it is of the request for the machine"},
		{"spec.spotDurationInMinutes", Replace, "it is of the request for the machine"},
		{"spec.cpuCredits", Replace, ""},
		{"spec.associatePublicIP", Replace, ""},
		{"spec.additionalSecurityGroups", Replace, ""},
		{"spec.securityGroupOverride", Replace, ""},
		{"spec.cloudLabels", Live, "what runs is tagged, and new machines are"},
		{"spec.nodeLabels", Live, "kops-controller sets them on nodes"},
		{"spec.taints", Live, "they are set on nodes"},
		{"spec.fileAssets", Restart, ""},
		{"spec.tenancy", Replace, ""},
		{"spec.kubelet", Restart, ""},
		{"spec.kubelet.taints", Live, "they are set on nodes"},
		{"spec.kubelet.nodeLabels", Live, "kops-controller sets them on nodes"},
		{"spec.mixedInstancesPolicy", Live, "it chooses new machines"},
		{"spec.capacityRebalance", Live, "it is of the group"},
		{"spec.additionalUserData", Replace, "it runs at the start"},
		{"spec.compressUserData", Replace, "it is of the boot script"},
		{"spec.suspendProcesses", Live, "it is of the group"},
		{"spec.externalLoadBalancers", Live, "the group registers its machines"},
		{"spec.detailedInstanceMonitoring", Replace, ""},
		{"spec.iam", Replace, "the profile is of the machine"},
		{"spec.instanceProtection", Live, "it is of the group"},
		{"spec.sysctlParameters", Restart, ""},
		{"spec.rollingUpdate", None, "it is read by the roll itself"},
		{"spec.repair", Live, "kops-controller goes by it"},
		{"spec.instanceInterruptionBehavior", Replace, "it is of the request for the machine"},
		{"spec.instanceMetadata", Replace, ""},
		{"spec.updatePolicy", Restart, ""},
		{"spec.warmPool", Live, "machines that serve are not of it"},
		{"spec.warmPool.enableLifecycleHook", Replace, "machines notify the hook when they start"},
		{"spec.warmPool.additionalImages", None, "they are pulled before a machine serves"},
		{"spec.containerd", Restart, ""},
		{"spec.containerd.root", Replace, "all that it holds is elsewhere"},
		{"spec.containerd.state", Replace, "all that runs is elsewhere"},
		{"spec.containerd.nvidiaGPU", Replace, "drivers are installed at the start"},
		{"spec.packages", Restart, ""},
		{"spec.guestAccelerators", Replace, ""},
		{"spec.*Shielded", Replace, ""},
		{"spec.*Confidential", Replace, ""},
		{"spec.maxInstanceLifetime", Live, "it is of the group"},
		{"spec.*ProvisioningModel", Replace, "it is of the request for the machine"},
	}
}

// Of is what a change of a field of a kind takes; known is false, and the effect Replace,
// where no entry says it.
func Of(kind, path string) (e Effect, known bool) {
	entry, ok := find(Table(kind), path)
	return entry.Effect, ok
}

// Why is the entry by which Of goes.
func Why(kind, path string) Entry {
	e, _ := find(Table(kind), path)
	return e
}

// OfAny is what a change of a field takes that is an instance group's, or, if no group has
// it, the cluster's; Replace where neither has it.
func OfAny(path string) Effect {
	for _, kind := range []string{api.KindInstanceGroup, api.KindCluster} {
		if e, ok := Of(kind, path); ok {
			return e
		}
	}
	return Replace
}

// find is the entry that leads closest to a field.
func find(table []Entry, path string) (best Entry, found bool) {
	field := strings.Split(plain(path), ".")
	closest := 0
	for _, e := range table {
		if near := e.leads(field); near > closest {
			best, closest = e, near
		}
	}
	if closest == 0 {
		return Entry{Path: path, Effect: Replace}, false
	}
	return best, true
}

// leads tells how close an entry is to a field, which its path names or one above it: each
// name counts, and one that is written more than one that is meant; 0: it does not lead there.
func (e Entry) leads(field []string) int {
	pattern := strings.Split(strings.TrimSuffix(e.Path, "."), ".")
	if len(pattern) > len(field) || len(pattern) == len(field) && strings.HasSuffix(e.Path, ".") {
		return 0
	}
	near := 0
	for i, p := range pattern {
		end, any := strings.CutPrefix(p, "*")
		switch {
		case p == field[i]:
			near += 3
		case any && strings.HasSuffix(field[i], end):
			near += 2
		default:
			return 0
		}
	}
	return near
}

// plain is a path without brackets and what they hold.
func plain(path string) string {
	var b strings.Builder
	depth := 0
	for _, r := range path {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		default:
			if depth == 0 {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
