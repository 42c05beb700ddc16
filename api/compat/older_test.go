package compat

import (
	"strings"
	"testing"

	"kops.local/kops/api"
)

func TestValuesAsUsersWriteThem(t *testing.T) {
	for _, c := range []struct{ kind, path, value, wantPath, want string }{
		{api.KindCluster, "spec.networking.subnets[2].cidr", "10.0.0.0/24", "spec.subnets[2].cidr", "10.0.0.0/24"},
		{api.KindCluster, "spec.networking.topology.dns", "Public", "spec.topology.dns.type", "Public"},
		{api.KindCluster, "spec.networking.topology.bastion.loadBalancer.type", "Public", "spec.topology.bastion.loadBalancer.type", "Public"},
		{api.KindCluster, "spec.controlPlaneKubelet.featureGates[ImageVolume]", "true", "spec.masterKubelet.featureGates[ImageVolume]", "true"},
		{api.KindCluster, "spec.cloudProvider.aws", "{}", "spec.cloudProvider", "aws"},
		{api.KindCluster, "spec.cloudProvider.do", "{}", "spec.cloudProvider", "digitalocean"},
		{api.KindCluster, "spec.cloudProvider.aws.nodeTerminationHandler.enabled", "true", "spec.nodeTerminationHandler.enabled", "true"},
		{api.KindCluster, "spec.cloudProvider.aws.nodeIPFamilies[0]", "ipv6", "spec.cloudConfig.nodeIPFamilies[0]", "ipv6"},
		{api.KindCluster, "spec.cloudProvider.aws.binariesLocation", "b", "spec.cloudConfig.binariesLocation", "b"},
		{api.KindCluster, "spec.cloudProvider.gce.binariesLocation", "b", "spec.cloudConfig.binariesLocation", "b"},
		{api.KindCluster, "spec.cloudProvider.gce.pdCSIDriver.version", "1", "spec.cloudConfig.gcpPDCSIDriver.version", "1"},
		{api.KindCluster, "spec.etcdClusters[0].etcdMembers[1].volumeIOPS", "3", "spec.etcdClusters[0].etcdMembers[1].volumeIops", "3"},
		{api.KindCluster, "spec.networking.cilium.toFQDNsDNSRejectResponseCode", "refused", "spec.networking.cilium.toFqdnsDnsRejectResponseCode", "refused"},
		{api.KindCluster, "spec.networking.cilium.masquerade", "true", "spec.networking.cilium.disableMasquerade", "false"},
		{api.KindCluster, "spec.networking.tagSubnets", "false", "spec.DisableSubnetTags", "true"},
		{api.KindCluster, "spec.hooks[1].roles[0]", "ControlPlane", "spec.hooks[1].roles[0]", "Master"},
		{api.KindCluster, "spec.api.loadBalancer.subnets[0].allocationID", "e", "spec.api.loadBalancer.subnets[0].allocationId", "e"},
		{api.KindCluster, "spec.networking.networkCIDRs", "none has it", "spec.networking.networkCIDRs", "none has it"},
		{api.KindCluster, "spec.externalDNS.provider", "none", "spec.externalDns.provider", "none"},
		{api.KindCluster, "spec.authentication.oidc.groupsClaims[1]", "b", "spec.kubeAPIServer.oidcGroupsClaim", "b"},
		{api.KindCluster, "spec.additionalPolicies[control-plane]", "[]", "spec.additionalPolicies[master]", "[]"},
		{api.KindCluster, "spec.externalPolicies[control-plane][1]", "arn", "spec.externalPolicies[master][1]", "arn"},
		{api.KindCluster, "spec.externalPolicies[node][0]", "arn", "spec.externalPolicies[node][0]", "arn"},
		{api.KindInstanceGroup, "spec.role", "ControlPlane", "spec.role", "Master"},
		{api.KindInstanceGroup, "spec.role", "Node", "spec.role", "Node"},
		{api.KindInstanceGroup, "spec.rootVolume.size", "64", "spec.rootVolumeSize", "64"},
		{api.KindInstanceGroup, "spec.nodeLabels[kops.k8s.io/gpu]", "1", "spec.nodeLabels[kops.k8s.io/gpu]", "1"},
	} {
		if path, got := Older(c.kind, c.path, c.value); path != c.wantPath || got != c.want {
			t.Errorf("%s %q is %s %q, want %s %q", c.path, c.value, path, got, c.wantPath, c.want)
		}
	}
}

// TestOlderPathsAreOfTheSchema walks all fields of v1alpha3.
func TestOlderPathsAreOfTheSchema(t *testing.T) {
	nowhere := map[string]bool{"spec.authentication.oidc": true, "spec.rootVolume": true} // their fields are elsewhere
	for name, k := range kinds() {
		k.schemas[api.V1Alpha3].walk("", func(path string, _ *schema) {
			if path == "" || nowhere[path] || strings.HasSuffix(path, "[][]") {
				return
			}
			if older := OlderPath(name, path); schemaAt(k.schemas[api.V1Alpha2], older) == nil {
				t.Errorf("%s %s is %s, which v1alpha2 does not have", name, path, older)
			}
		})
	}
}
