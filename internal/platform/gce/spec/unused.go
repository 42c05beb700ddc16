package spec

import (
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/effects"
)

// effectsOfFields returns the effects of the fields that only GCE uses.
func effectsOfFields() effects.Table {
	const cloudConfig = "it is in a file on the machines"
	return effects.Table{
		Cluster: []effects.Entry{
			{Path: "spec.cloudProvider.gce.pdCSIDriver", Effect: effects.Live, Why: "channels applies the add-on"},
			{Path: "spec.cloudProvider.gce.multizone", Effect: effects.Restart, Why: cloudConfig},
			{Path: "spec.cloudProvider.gce.nodeTags", Effect: effects.Restart, Why: cloudConfig},
			{Path: "spec.cloudProvider.gce.nodeInstancePrefix", Effect: effects.Restart, Why: cloudConfig},
		},
		Group: []effects.Entry{
			{Path: "spec.gcpShielded", Effect: effects.Replace},
			{Path: "spec.gcpConfidential", Effect: effects.Replace},
			{Path: "spec.gcpProvisioningModel", Effect: effects.Replace, Why: "it is part of the request for a machine"},
		},
	}
}

// unusedFields lists the fields that are accepted on GCE but ignored.
func unusedFields() []traits.Unused {
	const nothing = "remove it; it does not exist on GCE"
	cluster, group := traits.UnusedCluster, traits.UnusedGroup
	return []traits.Unused{
		cluster("remove it; see spec.assets.fileRepository", "cloudProvider.gce", "binariesLocation"),
		cluster("remove it; subnets have no labels", "networking", "tagSubnets"),
		cluster("remove it; create routes in the network yourself (gcloud compute routes create)", "networking.subnets[]", "additionalRoutes"),
		cluster("remove it; Cloud NAT allocates its own addresses", "networking.subnets[]", "publicIP"),
		cluster("remove it; bastions have their own addresses", "networking.topology.bastion", "loadBalancer.additionalSecurityGroups", "loadBalancer.type"),
		cluster("remove it; Google encrypts all disks", "etcdClusters[].etcdMembers[]", "encryptedVolume", "kmsKeyID"),
		cluster("remove it; see kops create sshpublickey", "", "sshKeyName"),
		cluster("remove it; only AWS uses audiences", "serviceAccountIssuerDiscovery", "additionalAudiences"),
		group("remove it; Google encrypts all disks", "rootVolume.encryption", "rootVolume.encryptionKey"),
		group("remove it; ask for spot machines with gcpProvisioningModel: SPOT", "maxPrice", "spotDurationInMinutes", "instanceInterruptionBehavior", "capacityRebalance"),
		group("remove it; firewall rules are based on the roles of machines", "additionalSecurityGroups", "securityGroupOverride"),
		group(nothing, "rootVolume.optimization", "cpuCredits", "detailedInstanceMonitoring", "instanceMetadata", "instanceProtection", "maxInstanceLifetime", "suspendProcesses", "tenancy"),
	}
}
