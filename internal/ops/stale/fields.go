package stale

import (
	"reflect"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
)

// EncryptionSecret is the Field of a Reason: the machine has another encryption configuration than
// the secret of the cluster.
const EncryptionSecret = "secret " + pki.EncryptionConfig

// field says which field of the spec a part of the node configuration follows from.
type field struct {
	// Key is the path in the configuration; it covers the paths below it, too.
	Key string
	// Field is the path in a spec, in the objects' latest shape, or a description; then Effect is
	// the effect of a change.
	Field  string
	Effect Effect
	// whole means that only the field is named, not what lies below.
	whole bool
}

// fields returns the parts of nodeconfig.Config, except for those named after a field of some
// cloud. If several match, the longest counts.
func fields() []field {
	return []field{
		{Key: assetsKey, Field: "file", Effect: Restart},
		{Key: "images", Field: "programs of kops", Effect: Restart, whole: true},
		{Key: "ClusterName", Field: "metadata.name", Effect: Replace},
		{Key: versionKey, Field: "spec.kubernetesVersion"},
		{Key: "packages", Field: "spec.packages"},
		{Key: "configStore", Field: "spec.configStore"},
		{Key: "EtcdClusterNames", Field: "spec.etcdClusters"},
		{Key: "etcdManifests", Field: "spec.etcdClusters[].etcdMembers", whole: true},
		{Key: "channelsManifest", Field: "spec.configStore.base", whole: true},
		{Key: "CAs", Field: "keypair", Effect: Restart},
		{Key: "KeypairIDs", Field: "keypair", Effect: Restart},
		{Key: "DefaultMachineType", Field: "spec.machineType"},
		{Key: "EnableLifecycleHook", Field: "spec.warmPool.enableLifecycleHook"},
		{Key: "staticManifests", Field: "manifests of the control plane", Effect: Restart, whole: true},
		{Key: "KubeletConfig", Field: "spec.kubelet"},
		{Key: "KubeletConfig.taints", Field: "spec.taints"},
		{Key: "KubeletConfig.nodeLabels", Field: "spec.nodeLabels"},
		{Key: "KubeProxy", Field: "spec.kubeProxy"},
		{Key: "Networking", Field: "spec.networking"},
		{Key: "InstallCNIAssets", Field: "spec.networking", whole: true},
		{Key: "UseCiliumEtcd", Field: "spec.networking.cilium.etcdManaged"},
		{Key: "UsesKubenet", Field: "spec.networking", whole: true},
		{Key: "NTPUnmanaged", Field: "spec.ntp.managed"},
		{Key: "ServiceNodePortRange", Field: "spec.kubeAPIServer.serviceNodePortRange"},
		{Key: "SysctlParameters", Field: "spec.sysctlParameters"},
		{Key: "UpdatePolicy", Field: "spec.updatePolicy"},
		{Key: "VolumeMounts", Field: "spec.volumeMounts"},
		{Key: "FileAssets", Field: "spec.fileAssets"},
		{Key: "Hooks", Field: "spec.hooks"},
		{Key: "containerdConfig", Field: "spec.containerd"},
		{Key: "ApiserverAdditionalIPs", Field: "names of the API server", Effect: Restart},
		{Key: "APIServerConfig", Field: "spec.kubeAPIServer", whole: true},
		{Key: "APIServerConfig.ClusterDNSDomain", Field: "spec.clusterDNSDomain"},
		{Key: "APIServerConfig.KubeAPIServer", Field: "spec.kubeAPIServer"},
		{Key: "APIServerConfig.API", Field: "spec.api"},
		{Key: "APIServerConfig.Authentication", Field: "spec.authentication"},
		{Key: "APIServerConfig.EncryptionConfigSecretHash", Field: EncryptionSecret, Effect: Restart},
		{Key: "APIServerConfig.ServiceAccountPublicKeys", Field: "keypair " + pki.ServiceAccount, Effect: Restart},
		{Key: "ControlPlaneConfig.KubeControllerManager", Field: "spec.kubeControllerManager"},
		{Key: "ControlPlaneConfig.KubeScheduler", Field: "spec.kubeScheduler"},
		{Key: "DNSZone", Field: "spec.dnsZone"},
		{Key: "NvidiaGPU", Field: "spec.containerd.nvidiaGPU"},
		{Key: "GVisor", Field: "spec.containerd.gvisor"},
		{Key: "warmPoolImages", Field: "spec.warmPool.additionalImages"},
		{Key: "usesNoneDNS", Field: "spec.networking.topology.dns"},
		{Key: "fileTrust", Field: "spec.assets.trustedKeys", whole: true},
		{Key: "dockerConfigDigest", Field: "secret " + pki.DockerConfig, Effect: Restart},
		{Key: "hardened", Field: "annotation of hardening", Effect: Restart},
	}
}

// fieldOf returns the entry for a path in a node configuration.
func fieldOf(key string) field {
	var best field
	found := false
	for _, f := range fields() {
		rest, ok := strings.CutPrefix(key, f.Key)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && (!found || len(f.Key) > len(best.Key)) {
			best, found = f, true
		}
	}
	if !found {
		best = cloudField(key)
	}
	return best
}

// cloudField returns the entry for a path whose first name is a field of some cloud, or its block, or
// both.
func cloudField(key string) field {
	name, _, _ := strings.Cut(key, ".")
	provider := reflect.TypeFor[api.CloudProviderSpec]()
	for i := range provider.NumField() {
		block := jsonName(provider.Field(i))
		if strings.EqualFold(name, block) {
			return field{Key: name, Field: "spec.cloudProvider." + block}
		}
		of := provider.Field(i).Type.Elem()
		for j := range of.NumField() {
			if x := jsonName(of.Field(j)); strings.EqualFold(name, x) || strings.EqualFold(name, block+x) {
				return field{Key: name, Field: "spec.cloudProvider." + block + "." + x}
			}
		}
	}
	return field{Key: key, Field: "node configuration " + key, Effect: Replace, whole: true}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
