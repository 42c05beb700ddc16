package effects

import (
	"slices"
	"strings"

	"kops.local/kops/api"
)

// Entry is the effect of a change of a field. It also covers the fields below, unless they have
// entries of their own.
type Entry struct {
	// Path is the field's, in the shape of the objects, without indices: spec.hooks.before. The name
	// * matches any name. With a trailing dot, the path means the fields below it, and not the
	// presence of the block itself.
	Path   string
	Effect Effect
	// Why is the reason, if it is not obvious.
	Why string
}

// Table has the entries of all fields: those that clusters on all platforms have, and those of one
// platform. The zero Table has only the former.
type Table struct {
	// Cluster and Group are the entries of fields that only one platform uses.
	Cluster, Group []Entry
}

// Entries returns the entries for a kind of object: Cluster or InstanceGroup.
func (t Table) Entries(kind string) []Entry {
	switch kind {
	case api.KindCluster:
		return append(cluster(), t.Cluster...)
	case api.KindInstanceGroup:
		return append(group(), t.Group...)
	}
	return nil
}

func cluster() []Entry {
	return slices.Concat(wholeObjectEntries(), cloudEntries(), machineEntries(), addonEntries(), networkEntries())
}

func wholeObjectEntries() []Entry {
	return []Entry{
		{"spec.channel", None, "it only proposes versions"},
		{"spec.addons", Restart, "a control plane pod gets their URLs as flags"},
		{"spec.configStore", Replace, "the boot script contains it"},
		{"spec.target", None, "it only affects Terraform files"},
		{"spec.kubernetesVersion", Replace, ""},
		{"spec.dnsZone", Restart, ""},
		{"spec.clusterDNSDomain", Restart, "kubelets pass it to new pods"},
		{"spec.rollingUpdate", None, "only a rolling update reads it"},
		{"spec.repair", Live, "kops-controller reads it"},
		{"spec.assets", Replace, "the boot script fetches files from there"},
		{"spec.assets.containerRegistry", Restart, "manifests contain the image names"},
		{"spec.assets.containerProxy", Restart, "manifests contain the image names"},
	}
}

// cloudEntries returns the entries for what the cloud creates, except for the network.
func cloudEntries() []Entry {
	return []Entry{
		{"spec.cloudLabels", Replace, "a machine and its disks are labelled when they are created"},
		{"spec.sshAccess", Live, "it is a firewall rule"},
		{"spec.nodePortAccess", Live, "it is a firewall rule"},
		{"spec.sshKeyName", Replace, ""},
		{"spec.externalPolicies", Live, "they are attached to the machines' role"},
		{"spec.additionalPolicies", Live, "they are attached to the machines' role"},
		{"spec.iam", Live, "it only affects roles"},
		{"spec.iam.useServiceAccountExternalPermissions", Restart, "the API server issues tokens for them"},
		{"spec.serviceAccountIssuerDiscovery", Restart, "the API server has the issuer as a flag"},
		{"spec.api", Live, "it is a setting of a load balancer or firewall"},
		{"spec.api.publicName", Restart, "it is in the API server's certificate"},
		{"spec.api.additionalSANs", Restart, "they are in the API server's certificate"},
		{"spec.api.dns", Restart, "machines have the address of the API in a file"},
		{"spec.api.loadBalancer.useForInternalAPI", Restart, "machines have the address of the API in a file"},
		{"spec.cloudProvider", Replace, "machines belong to a cloud"},
	}
}

// machineEntries returns the entries for what machines run.
func machineEntries() []Entry {
	return []Entry{
		{"spec.kubelet", Restart, ""},
		{"spec.kubelet.taints", Live, "they are set on nodes"},
		{"spec.kubelet.nodeLabels", Live, "they are set on nodes"},
		{"spec.controlPlaneKubelet", Restart, ""},
		{"spec.controlPlaneKubelet.taints", Live, "they are set on nodes"},
		{"spec.controlPlaneKubelet.nodeLabels", Live, "they are set on nodes"},
		{"spec.containerd", Restart, ""},
		{"spec.containerd.root", Replace, "the images are in another folder"},
		{"spec.containerd.state", Replace, "the state of running containers is in another folder"},
		{"spec.containerd.nvidiaGPU", Replace, "drivers are installed at boot"},
		{"spec.kubeProxy", Restart, ""},
		{"spec.kubeAPIServer", Restart, ""},
		{"spec.kubeAPIServer.apiServerCount", None, "API servers find each other through leases"},
		{"spec.kubeControllerManager", Restart, ""},
		{"spec.kubeScheduler", Restart, ""},
		{"spec.etcdClusters", Restart, ""},
		{"spec.etcdClusters.name", Replace, "it has another disk"},
		{"spec.etcdClusters.etcdMembers", Replace, "a member and its disk belong to a machine"},
		{"spec.authentication", Restart, "the API server calls it"},
		{"spec.authorization", Restart, "it is a setting of the API server"},
		{"spec.encryptionConfig", Restart, "it is a setting of the API server"},
		{"spec.fileAssets", Restart, ""},
		{"spec.hooks", Restart, "nodeup writes and runs the unit"},
		{"spec.packages", Restart, ""},
		{"spec.sysctlParameters", Restart, ""},
		{"spec.ntp", Restart, ""},
		{"spec.updatePolicy", Restart, ""},
		{"spec.useHostCertificates", None, "nothing reads it"},
	}
}

func addonEntries() []Entry {
	return []Entry{
		{"spec.cloudConfig", Live, addon},
		{"spec.cloudControllerManager", Live, addon},
		{"spec.kubeDNS", Live, addon},
		{"spec.kubeDNS.serverIP", Restart, "kubelets pass it to new pods"},
		{"spec.kubeDNS.domain", Restart, "kubelets pass it to new pods"},
		{"spec.kubeDNS.nodeLocalDNS.enabled", Restart, "kubelets pass its address to new pods"},
		{"spec.kubeDNS.nodeLocalDNS.localIP", Restart, "kubelets pass its address to new pods"},
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

// networkEntries returns the entries for the network: moving to another network requires another
// machine; what runs in it is an add-on.
func networkEntries() []Entry {
	return []Entry{
		{"spec.networking", Replace, ""},
		{"spec.networking.additionalNetworkCIDRs", Live, "it only affects the cloud's network"},
		{"spec.networking.tagSubnets", Live, "it only affects the cloud's network"},
		{"spec.networking.subnets", Live, "the subnets of a machine are those of its group"},
		{"spec.networking.subnets.cidr", Replace, "it contains the machines' addresses"},
		{"spec.networking.cni", Replace, ""},
		{"spec.networking.egressProxy", Replace, "the boot script reads it"},
		{"spec.networking.topology", Replace, "the boot script contains the address of the API"},
		{"spec.networking.topology.bastion", Live, "it is a setting of a load balancer"},
		{"spec.networking.isolateControlPlane", Live, "it is a firewall rule"},
		{"spec.networking.*.", Live, addon},
		{"spec.networking.calico.wireguardEnabled", Restart, "it needs a kernel module"},
		{"spec.networking.cilium.etcdManaged", Replace, "Cilium uses another etcd"},
		{"spec.networking.cilium.ipam", Replace, "pods get addresses from another range"},
		{"spec.networking.flannel.backend", Replace, "machines would not reach one another"},
	}
}

const (
	addon = "channels applies the add-on"
)

func group() []Entry {
	return []Entry{
		{"spec.role", Replace, ""},
		{"spec.manager", Replace, "something else creates the machines"},
		{"spec.image", Replace, ""},
		{"spec.machineType", Replace, ""},
		{"spec.minSize", Live, "machines are added or removed"},
		{"spec.maxSize", Live, "machines are added or removed"},
		{"spec.autoscale", Live, "it is a setting of the autoscaler"},
		{"spec.autoscalePriority", Live, "it is a setting of the autoscaler"},
		{"spec.rootVolume", Replace, ""},
		{"spec.volumes", Replace, ""},
		{"spec.volumeMounts", Restart, "nodeup mounts them"},
		{"spec.subnets", Replace, ""},
		{"spec.zones", Live, "machines are added or removed"},
		{"spec.hooks", Restart, "nodeup writes and runs the unit"},
		{"spec.maxPrice", Replace, "it is part of the request for a machine"},
		{"spec.spotDurationInMinutes", Replace, "it is part of the request for a machine"},
		{"spec.cpuCredits", Replace, ""},
		{"spec.associatePublicIP", Replace, ""},
		{"spec.additionalSecurityGroups", Replace, ""},
		{"spec.securityGroupOverride", Replace, ""},
		{"spec.cloudLabels", Replace, "a machine and its disks are labelled when they are created"},
		{"spec.nodeLabels", Live, "kops-controller sets them on nodes"},
		{"spec.taints", Live, "they are set on nodes"},
		{"spec.fileAssets", Restart, ""},
		{"spec.tenancy", Replace, ""},
		{"spec.kubelet", Restart, ""},
		{"spec.kubelet.taints", Live, "they are set on nodes"},
		{"spec.kubelet.nodeLabels", Live, "kops-controller sets them on nodes"},
		{"spec.mixedInstancesPolicy", Live, "it only affects new machines"},
		{"spec.capacityRebalance", Live, "it is a setting of the cloud's group"},
		{"spec.additionalUserData", Replace, "it runs at boot"},
		{"spec.compressUserData", Replace, "it affects the boot script"},
		{"spec.suspendProcesses", Live, "it is a setting of the cloud's group"},
		{"spec.externalLoadBalancers", Live, "the group registers its machines"},
		{"spec.detailedInstanceMonitoring", Replace, ""},
		{"spec.iam", Replace, "a machine gets its profile when it is created"},
		{"spec.instanceProtection", Live, "it is a setting of the cloud's group"},
		{"spec.sysctlParameters", Restart, ""},
		{"spec.rollingUpdate", None, "only a rolling update reads it"},
		{"spec.repair", Live, "kops-controller reads it"},
		{"spec.instanceInterruptionBehavior", Replace, "it is part of the request for a machine"},
		{"spec.instanceMetadata", Replace, ""},
		{"spec.updatePolicy", Restart, ""},
		{"spec.warmPool", Live, "it does not contain running machines"},
		{"spec.warmPool.enableLifecycleHook", Replace, "machines notify the hook when they boot"},
		{"spec.warmPool.additionalImages", None, "they are pulled before a machine joins"},
		{"spec.containerd", Restart, ""},
		{"spec.containerd.root", Replace, "the images are in another folder"},
		{"spec.containerd.state", Replace, "the state of running containers is in another folder"},
		{"spec.containerd.nvidiaGPU", Replace, "drivers are installed at boot"},
		{"spec.packages", Restart, ""},
		{"spec.guestAccelerators", Replace, ""},
		{"spec.maxInstanceLifetime", Live, "it is a setting of the cloud's group"},
	}
}

// Of returns the effect of a change of a field of a kind; if no entry covers it, known is false,
// and the effect Replace.
func (t Table) Of(kind, path string) (e Effect, known bool) {
	entry, ok := find(t.Entries(kind), path)
	return entry.Effect, ok
}

// Why returns the entry on which Of is based.
func (t Table) Why(kind, path string) Entry {
	e, _ := find(t.Entries(kind), path)
	return e
}

// OfAny returns the effect of a change of a field of an instance group, or, if there is no such
// field, of the cluster; Replace if neither has it.
func (t Table) OfAny(path string) Effect {
	for _, kind := range []string{api.KindInstanceGroup, api.KindCluster} {
		if e, ok := t.Of(kind, path); ok {
			return e
		}
	}
	return Replace
}

// find returns the entry that is closest to a field.
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

// leads returns how close an entry is to a field, which must be at its path or below: each matching
// name counts, an exact match more than a pattern; 0 if it does not match.
func (e Entry) leads(field []string) int {
	pattern := strings.Split(strings.TrimSuffix(e.Path, "."), ".")
	if len(pattern) > len(field) || len(pattern) == len(field) && strings.HasSuffix(e.Path, ".") {
		return 0
	}
	near := 0
	for i, p := range pattern {
		switch p {
		case field[i]:
			near += 3
		case "*":
			near += 2
		default:
			return 0
		}
	}
	return near
}

// plain returns a path without brackets and their contents.
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
