package compat

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// stepsOf returns the steps of a kind.
func stepsOf(kind string) []step {
	switch kind {
	case api.KindCluster:
		return clusterSteps()
	case api.KindInstanceGroup:
		return groupSteps()
	case api.KindKeyset:
		return []step{{path: "spec", old: "primaryId", new: "primaryID"}}
	}
	return nil
}

// clusterSteps are the differences of a Cluster. Later steps use the paths that the
// first blocks produce.
func clusterSteps() []step {
	return slices.Concat(
		[]step{{path: "spec", old: "cloudProvider", new: "cloudProvider", change: &cloudName}},
		cloudSteps(),
		moveSteps("spec",
			"configBase", "configStore.base",
			"keyStore", "configStore.keypairs",
			"secretStore", "configStore.secrets",
			"masterPublicName", "api.publicName",
			"additionalSans", "api.additionalSANs",
			"kubernetesApiAccess", "api.access",
			"networkCIDR", "networking.networkCIDR",
			"additionalNetworkCIDRs", "networking.additionalNetworkCIDRs",
			"networkID", "networking.networkID",
			"subnets", "networking.subnets",
			"topology", "networking.topology",
			"podCIDR", "networking.podCIDR",
			"serviceClusterIPRange", "networking.serviceClusterIPRange",
			"nonMasqueradeCIDR", "networking.nonMasqueradeCIDR",
			"egressProxy", "networking.egressProxy",
			"isolateMasters", "networking.isolateControlPlane",
			"masterKubelet", "controlPlaneKubelet",
			"externalDns", "externalDNS",
		),
		networkSteps(),
		componentSteps(),
		hookSteps(),
		moveSteps("spec.etcdClusters[].etcdMembers[]", "kmsKeyId", "kmsKeyID", "volumeIops", "volumeIOPS"),
		moveSteps("spec.externalPolicies", "master", "control-plane"),
		moveSteps("spec.additionalPolicies", "master", "control-plane"),
		moveSteps("spec.api.loadBalancer", "useForInternalApi", "useForInternalAPI"),
		moveSteps("spec.api.loadBalancer.subnets[]", "allocationId", "allocationID"),
		[]step{{path: "spec.externalDNS", old: "disable", new: "provider", change: &disabledDNS}},
	)
}

// cloudSteps are the fields that are under the cloud in v1alpha3.
func cloudSteps() []step {
	return slices.Concat(
		cloudMoves(api.CloudAWS,
			"cloudConfig.awsEBSCSIDriver", "ebsCSIDriver",
			"cloudConfig.nodeIPFamilies", "nodeIPFamilies",
			"cloudConfig.disableSecurityGroupIngress", "disableSecurityGroupIngress",
			"cloudConfig.elbSecurityGroup", "elbSecurityGroup",
			"cloudConfig.nlbSecurityGroupMode", "nlbSecurityGroupMode",
			"cloudConfig.useIPBasedNodeNames", "useIPBasedNodeNames",
			"cloudConfig.spotinstProduct", "spotinstProduct",
			"cloudConfig.spotinstOrientation", "spotinstOrientation",
			"cloudConfig.binariesLocation", "binariesLocation",
			"nodeTerminationHandler", "nodeTerminationHandler",
			"awsLoadBalancerController", "loadBalancerController",
			"podIdentityWebhook", "podIdentityWebhook",
			"warmPool", "warmPool",
		),
		cloudMoves(api.CloudGCE,
			"project", "project",
			"cloudConfig.gceServiceAccount", "serviceAccount",
			"cloudConfig.multizone", "multizone",
			"cloudConfig.nodeTags", "nodeTags",
			"cloudConfig.nodeInstancePrefix", "nodeInstancePrefix",
			"cloudConfig.gcpPDCSIDriver", "pdCSIDriver",
			"cloudConfig.gceUseStartupScript", "useStartupScript",
			"cloudConfig.binariesLocation", "binariesLocation",
		),
		cloudMoves(api.CloudOpenstack,
			"cloudConfig.openstack.loadbalancer", "loadbalancer",
			"cloudConfig.openstack.monitor", "monitor",
			"cloudConfig.openstack.router", "router",
			"cloudConfig.openstack.blockStorage", "blockStorage",
			"cloudConfig.openstack.insecureSkipVerify", "insecureSkipVerify",
			"cloudConfig.openstack.network", "network",
		),
		cloudMoves(api.CloudAzure,
			"cloudConfig.azure.subscriptionId", "subscriptionID",
			"cloudConfig.azure.storageAccountID", "storageAccountID",
			"cloudConfig.azure.tenantId", "tenantID",
			"cloudConfig.azure.resourceGroupName", "resourceGroupName",
			"cloudConfig.azure.routeTableName", "routeTableName",
			"cloudConfig.azure.adminUser", "adminUser",
		),
	)
}

// networkSteps are the differences inside spec.networking.
func networkSteps() []step {
	return slices.Concat(
		[]step{
			{path: "spec", old: "DisableSubnetTags", new: "networking.tagSubnets", change: &inverted},
			{path: "spec.networking.topology", old: "dns", new: "dns", change: &dnsType},
		},
		moveSteps("spec.networking.topology.bastion", "bastionPublicName", "publicName"),
		moveSteps("spec.networking", "amazonvpc", "amazonVPC", "kuberouter", "kubeRouter", "gce", "gcp"),
		moveSteps("spec.networking.amazonVPC", "imageName", "image", "initImageName", "initImage"),
		[]step{
			{path: "spec.networking.canal", old: "disableFlannelForwardRules", new: "flanneldIptablesForwardRules", change: &inverted},
			{path: "spec.networking.cilium", old: "disableMasquerade", new: "masquerade", change: &inverted},
			{path: "spec.networking.cilium", old: "IPTablesRulesNoinstall", new: "installIptablesRules", change: &inverted},
		},
		moveSteps("spec.networking.cilium",
			"toFqdnsDnsRejectResponseCode", "toFQDNsDNSRejectResponseCode",
			"toFqdnsEnablePoller", "toFQDNsEnablePoller",
		),
	)
}

// componentSteps are the differences of the Kubernetes components of a Cluster.
func componentSteps() []step {
	oidc := moveSteps("spec",
		"kubeAPIServer.oidcUsernameClaim", "authentication.oidc.usernameClaim",
		"kubeAPIServer.oidcUsernamePrefix", "authentication.oidc.usernamePrefix",
		"kubeAPIServer.oidcGroupsPrefix", "authentication.oidc.groupsPrefix",
		"kubeAPIServer.oidcIssuerURL", "authentication.oidc.issuerURL",
		"kubeAPIServer.oidcClientID", "authentication.oidc.clientID",
	)
	oidc = append(oidc,
		step{path: "spec", old: "kubeAPIServer.oidcGroupsClaim", new: "authentication.oidc.groupsClaims", change: &commaList},
		step{path: "spec", old: "kubeAPIServer.oidcRequiredClaim", new: "authentication.oidc.requiredClaims", change: &keyValues},
	)
	return slices.Concat(
		oidc,
		moveSteps("spec.kubeAPIServer",
			"etcdCaFile", "etcdCAFile",
			"authorizationWebhookCacheAuthorizedTtl", "authorizationWebhookCacheAuthorizedTTL",
			"authorizationWebhookCacheUnauthorizedTtl", "authorizationWebhookCacheUnauthorizedTTL",
		),
		moveSteps("spec.kubeControllerManager", "concurrentRcSyncs", "concurrentRCSyncs"),
		moveSteps("spec.kubeProxy", "ipvsExcludeCidrs", "ipvsExcludeCIDRs"),
		kubeletSteps("spec.kubelet"),
		kubeletSteps("spec.controlPlaneKubelet"),
	)
}

// kubeletSteps are the differences of a kubelet block.
func kubeletSteps(at string) []step {
	return moveSteps(at,
		"authenticationTokenWebhookCacheTtl", "authenticationTokenWebhookCacheTTL",
		"clientCaFile", "clientCAFile",
	)
}

// hookSteps are the differences of hooks and file assets, which both kinds have.
func hookSteps() []step {
	return []step{
		{path: "spec.hooks[]", old: "disabled", new: "enabled", change: &inverted},
		{path: "spec.hooks[]", old: "roles", new: "roles", change: &roles},
		{path: "spec.fileAssets[]", old: "roles", new: "roles", change: &roles},
	}
}

// groupSteps are the differences of an InstanceGroup.
func groupSteps() []step {
	return slices.Concat(
		[]step{{path: "spec", old: "role", new: "role", change: &roles}},
		moveSteps("spec",
			"rootVolumeSize", "rootVolume.size",
			"rootVolumeType", "rootVolume.type",
			"rootVolumeIops", "rootVolume.iops",
			"rootVolumeThroughput", "rootVolume.throughput",
			"rootVolumeOptimization", "rootVolume.optimization",
			"rootVolumeEncryption", "rootVolume.encryption",
			"rootVolumeEncryptionKey", "rootVolume.encryptionKey",
			"associatePublicIp", "associatePublicIP",
		),
		moveSteps("spec.externalLoadBalancers[]", "targetGroupArn", "targetGroupARN"),
		kubeletSteps("spec.kubelet"),
		hookSteps(),
	)
}

// moveSteps returns steps that only move: pairs of old and new path below at.
func moveSteps(at string, pairs ...string) []step {
	var out []step
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, step{path: at, old: pair[0], new: pair[1]})
	}
	return out
}

// cloudMoves returns steps from pairs of the path below spec in v1alpha2 and the path
// below the cloud's own map in v1alpha3.
func cloudMoves(id api.CloudProviderID, pairs ...string) []step {
	out := moveSteps("spec", pairs...)
	for i := range out {
		out[i].cloud = id
		out[i].new = "cloudProvider." + memberOf(id) + "." + out[i].new
	}
	return out
}

// memberOf returns the name of a cloud's map in v1alpha3.
func memberOf(id api.CloudProviderID) string {
	if id == api.CloudDO {
		return "do"
	}
	return string(id)
}

// cloudName is the name of the cloud; in v1alpha3 a map with the cloud's member.
var cloudName = change{
	up: func(v any) any {
		if v == "" {
			return nil
		}
		return map[string]any{memberOf(api.CloudProviderID(v.(string))): map[string]any{}}
	},
	down: func(v any) any {
		for member := range v.(map[string]any) { // at most one: Encode ensures that
			if member == memberOf(api.CloudDO) {
				return string(api.CloudDO)
			}
			return member
		}
		return nil
	},
	older: func(below, value string) (string, string) {
		member := strings.TrimPrefix(below, ".")
		if member == memberOf(api.CloudDO) {
			member = string(api.CloudDO)
		}
		return "", member
	},
	schema: func(s *schema) *schema {
		names := slices.Sorted(maps.Keys(s.fields))
		for i, n := range names {
			if n == memberOf(api.CloudDO) {
				names[i] = string(api.CloudDO)
			}
		}
		return &schema{sort: sortString, path: s.path, enum: names}
	},
}

// inverted is a boolean with the opposite meaning.
var inverted = change{
	up:   func(v any) any { return !v.(bool) },
	down: func(v any) any { return !v.(bool) },
	older: func(below, value string) (string, string) {
		return below, map[string]string{"true": "false", "false": "true"}[value]
	},
}

// dnsType is topology.dns; in v1alpha2 a map with the single key type.
var dnsType = change{
	up:    func(v any) any { return v.(map[string]any)["type"] },
	down:  func(v any) any { return map[string]any{"type": v} },
	older: func(_, value string) (string, string) { return ".type", value },
	schema: func(s *schema) *schema {
		return &schema{sort: sortObject, fields: map[string]*schema{"type": s}}
	},
}

// roles is a role or a list of roles. v1alpha2 writes Master, and reads both.
var roles = change{
	up:   func(v any) any { return renamed(v, "Master", string(api.RoleControlPlane)) },
	down: func(v any) any { return renamed(v, string(api.RoleControlPlane), "Master") },
	older: func(below, value string) (string, string) {
		return below, renamed(value, string(api.RoleControlPlane), "Master").(string)
	},
	schema: func(s *schema) *schema {
		leaf := s
		if s.elem != nil {
			leaf = s.elem
		}
		leaf.enum = append([]string{"Master"}, leaf.enum...)
		return s
	},
}

// renamed replaces a string, alone or in a list.
func renamed(v any, from, to string) any {
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i, item := range list {
			out[i] = renamed(item, from, to)
		}
		return out
	}
	if v == from {
		return to
	}
	return v
}

// commaList is a list that v1alpha2 writes as one string.
var commaList = change{
	up: func(v any) any {
		var out []any
		for item := range strings.SplitSeq(v.(string), ",") {
			out = append(out, item)
		}
		return out
	},
	down: func(v any) any {
		var items []string
		for _, item := range v.([]any) {
			items = append(items, item.(string))
		}
		return strings.Join(items, ",")
	},
	older:  func(_, value string) (string, string) { return "", value },
	schema: func(s *schema) *schema { return &schema{sort: sortString, path: s.path} },
}

// keyValues is a map that v1alpha2 writes as a list of key=value.
var keyValues = change{
	up: func(v any) any {
		out := map[string]any{}
		for _, item := range v.([]any) {
			key, val, _ := strings.Cut(item.(string), "=")
			out[key] = val
		}
		return out
	},
	down: func(v any) any {
		m := v.(map[string]any)
		var out []any
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out = append(out, key+"="+m[key].(string))
		}
		return out
	},
	schema: func(s *schema) *schema {
		return &schema{sort: sortList, path: s.path, elem: &schema{sort: sortString, path: s.path + "[]", check: func(text string) string {
			if !strings.Contains(text, "=") {
				return "must be claim=value"
			}
			return ""
		}}}
	},
}

// disabledDNS is a legacy form of provider: none.
var disabledDNS = change{
	up: func(v any) any {
		if v == true {
			return string(api.ExternalDNSProviderNone)
		}
		return nil
	},
	schema: func(*schema) *schema { return &schema{sort: sortBool} },
}
