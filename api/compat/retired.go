package compat

import (
	"strings"

	"kops.local/kops/api"
)

// retirement defines how a field of v1alpha2 that is no longer read is handled.
type retirement struct {
	// silent are values that are dropped silently, because they are the behaviour anyway.
	silent []string
	// refused makes any other value an error; otherwise it is dropped with a warning.
	refused bool
	// remedy is what to write instead.
	remedy string
}

// inert are fields without effect, below spec of a Cluster: a path, then names under it.
const inert = `
. masterInternalName openstackServiceAccount
topology.bastion idleTimeoutSeconds
etcdClusters[] enableEtcdTLS enableTLSAuth
kubeDNS image replicas
kubelet dockerDisableSharedPID
masterKubelet dockerDisableSharedPID
cloudConfig vSphereUsername vSpherePassword vSphereServer vSphereDatacenter vSphereResourcePool
cloudConfig vSphereDatastore vSphereCoreDNSServer
networking.flannel disableTxChecksumOffloading
networking.calico majorVersion
networking.canal disableTxChecksumOffloading
networking.cilium accessLog agentLabels allowLocalhost autoIpv6NodeRoutes bpfRoot containerRuntime
networking.cilium containerRuntimeEndpoint debugVerbose device disableConntrack disableIpv4
networking.cilium disableK8sServices enableTracing envoyLog ipv4ClusterCidrMaskSize ipv4Node ipv4Range
networking.cilium ipv4ServiceRange ipv6ClusterAllocCidr ipv6Node ipv6Range ipv6ServiceRange k8sApiServer
networking.cilium k8sKubeconfigPath keepBpfTemplates keepConfig labelPrefixFile labels lb libDir logDriver
networking.cilium logOpt logstash logstashAgent logstashProbeTimer nat46Range pprof prefilterDevice
networking.cilium prometheusServeAddr restore singleClusterRoute socketPath stateDir tracePayloadlen
networking.cilium enableipv6 enableipv4 containerRuntimeLabels removeCbrBridge restartPods
networking.cilium reconfigureKubelet nodeInitBootstrapFile cniBinPath
api.loadBalancer idleTimeoutSeconds
api.loadBalancer.accessLog interval
`

// clusterRetired are the other retired fields of a Cluster, by their path.
var clusterRetired = map[string]retirement{
	"spec.topology.masters":              {silent: []string{"public", "private"}, remedy: "the types of the subnets determine it"},
	"spec.topology.nodes":                {silent: []string{"public", "private"}, remedy: "the types of the subnets determine it"},
	"spec.configStore":                   {remedy: "use configBase, keyStore and secretStore"},
	"spec.serviceOIDCProvider":           {remedy: "see serviceAccountIssuerDiscovery"},
	"spec.networking.calico.crossSubnet": {remedy: "set ipipMode: CrossSubnet"},

	"spec.containerRuntime":        {silent: []string{"containerd"}, refused: true, remedy: "remove it; the runtime is containerd"},
	"spec.docker":                  {refused: true, remedy: "remove it; the runtime is containerd, see spec.containerd"},
	"spec.nodeAuthorization":       {refused: true, remedy: "remove it; machines prove who they are to kops-controller"},
	"spec.iam.legacy":              {silent: []string{"false"}, refused: true, remedy: "set it to false"},
	"spec.networking.classic":      {refused: true, remedy: "choose another network, such as cilium"},
	"spec.networking.romana":       {refused: true, remedy: "choose another network, such as cilium"},
	"spec.networking.lyftvpc":      {refused: true, remedy: "choose another network, such as amazonvpc"},
	"spec.etcdClusters[].provider": {silent: []string{"Manager"}, refused: true, remedy: "remove it; etcd is run by etcd-manager"},
	"spec.cloudConfig.awsEBSCSIDriver.enabled": {silent: []string{"true"}, refused: true,
		remedy: "remove it; the driver is always on, and managed: false leaves its deployment to you"},
}

// kubeletRetired are the retired fields of a kubelet block, by their name.
var kubeletRetired = map[string]retirement{
	"apiServers":                       {refused: true, remedy: "remove it; kops writes the kubeconfig"},
	"requireKubeconfig":                {refused: true, remedy: "remove it; kops writes the kubeconfig"},
	"configureCbr0":                    {refused: true, remedy: "remove it; the pod network makes the bridge"},
	"experimentalAllowedUnsafeSysctls": {refused: true, remedy: "use allowedUnsafeSysctls"},
}

// retiredOf returns the retired fields of a kind in v1alpha2, by their path.
func retiredOf(kind string) map[string]retirement {
	out := map[string]retirement{}
	var kubelets []string
	switch kind {
	case api.KindCluster:
		for path, r := range clusterRetired {
			out[path] = r
		}
		for line := range strings.Lines(strings.TrimSpace(inert)) {
			words := strings.Fields(line)
			for _, name := range words[1:] {
				out["spec."+strings.TrimPrefix(words[0]+"."+name, "..")] = retirement{}
			}
		}
		kubelets = []string{"spec.kubelet.", "spec.masterKubelet."}
	case api.KindInstanceGroup:
		out["spec.rootVolumeDeleteOnTermination"] = retirement{}
		out["spec.kubelet.dockerDisableSharedPID"] = retirement{}
		kubelets = []string{"spec.kubelet."}
	}
	for _, prefix := range kubelets {
		for name, r := range kubeletRetired {
			out[prefix+name] = r
		}
	}
	return out
}
