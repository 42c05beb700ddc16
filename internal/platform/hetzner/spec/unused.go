package spec

import (
	"kops.local/kops/internal/platform/traits"
)

// unusedFields lists the fields that are accepted on Hetzner but ignored.
func unusedFields() []traits.Unused {
	const nothing = "remove it; it does not exist on Hetzner"
	cluster, group := traits.UnusedCluster, traits.UnusedGroup
	return []traits.Unused{
		cluster("remove it; the network has one subnet, with the range spec.networkCIDR", "networking.subnets[]", "cidr"),
		cluster("remove it; all machines have public addresses", "networking.subnets[]", "egress", "publicIP", "additionalRoutes"),
		cluster("remove it; the region is the network zone of the locations", "networking.subnets[]", "region"),
		cluster("remove it; subnets have no labels", "networking", "tagSubnets"),
		cluster(nothing, "networking.topology.bastion", "loadBalancer.additionalSecurityGroups", "loadBalancer.type", "publicName"),
		cluster("remove it; the storage driver makes no snapshots", "snapshotController", "installDefaultClass"),
		cluster("remove it; volumes have one kind, and Hetzner does not encrypt them", "etcdClusters[].etcdMembers[]", "encryptedVolume", "kmsKeyID", "volumeType", "volumeIOPS", "volumeThroughput"),
		cluster("remove it; see kops create sshpublickey", "", "sshKeyName"),
		cluster("remove it; only AWS uses audiences", "serviceAccountIssuerDiscovery", "additionalAudiences"),
		group("remove it; the disk of a server follows from its machine type", "rootVolume.size", "rootVolume.type", "rootVolume.iops", "rootVolume.throughput", "rootVolume.encryption", "rootVolume.encryptionKey", "rootVolume.optimization"),
		group("remove it; firewalls are based on the roles of machines", "additionalSecurityGroups", "securityGroupOverride"),
		group("remove it; all machines have public addresses, as the network has no gateway", "associatePublicIP"),
		group(nothing, "maxPrice", "spotDurationInMinutes", "instanceInterruptionBehavior", "capacityRebalance", "cpuCredits", "detailedInstanceMonitoring", "instanceMetadata", "instanceProtection",
			"maxInstanceLifetime", "suspendProcesses", "tenancy", "zones"),
	}
}
