package validate

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/diag"
)

// idle says of fields that they are accepted and change nothing.
type idle struct {
	// blocks are paths of v1alpha3 below spec, in which [] stands for every item of a
	// list, and names are fields in each of them; no block is spec itself.
	blocks, names []string
	// on are the clouds where it holds, none meaning all, and notOn the one where it does not.
	on    []api.CloudProviderID
	notOn api.CloudProviderID
	// remedy says what to do instead.
	remedy string
}

const (
	removeIt   = "remove it"
	noReplacer = "remove it; this version of kops does not replace machines by itself"
	noManifest = "remove it; this version of kops has no manifest of the add-on, so yours rules"
)

// idleCluster are the fields of a Cluster without effect. What kOps no longer reads
// either is among them: specs that it stored have such fields.
func idleCluster() []idle {
	return []idle{
		{blocks: []string{"rollingUpdate"}, names: []string{"drainAndTerminate", "maxUnavailable", "maxSurge"}, remedy: noReplacer},
		{blocks: []string{"kubelet", "controlPlaneKubelet"}, names: oldKubelet(), remedy: "remove it; kubelets no longer have it"},
		{blocks: []string{"etcdClusters[].backups"}, names: []string{"image"}, remedy: "remove it; back-ups are taken by etcd-manager itself, see manager.image"},
		{names: []string{"useHostCertificates"}, remedy: "remove it; programs trust the certificates of their own images"},
		{blocks: []string{"kubeAPIServer"}, names: []string{"disableBasicAuth"}, remedy: "remove it; there is no basic authentication"},
		{blocks: []string{"kubeAPIServer"}, names: []string{"clientCAFile"}, remedy: "remove it; kops writes the file"},
		{blocks: []string{"kubeControllerManager", "kubeScheduler"}, names: []string{"tlsCertFile", "tlsPrivateKeyFile"}, remedy: "remove it; kops writes the file"},
		{blocks: []string{"kubeProxy"}, names: []string{"master"}, remedy: "remove it; kops knows where the API is"},
		{blocks: []string{"kubelet", "controlPlaneKubelet"}, names: []string{"kubeletCgroups", "runtimeCgroups", "systemCgroups"},
			remedy: "remove it; kops makes no control group of that name"},
		{blocks: []string{"cloudControllerManager"}, names: []string{"azureNodeManagerImage"}, on: []api.CloudProviderID{api.CloudAWS, api.CloudLocal}, remedy: removeIt},
		{blocks: []string{"kubeScheduler"}, names: []string{"maxPersistentVolumes"}, remedy: "remove it; CSI drivers say how many volumes a node takes"},
		{blocks: []string{"networking.kubeRouter"}, names: []string{"useNFTablesForNetpol"}, remedy: "remove it; its version here has no such switch"},
		{blocks: []string{"cloudProvider.aws"}, names: []string{"binariesLocation"}, remedy: "remove it; see spec.assets.fileRepository"},
		{blocks: []string{"networking.cilium"}, names: []string{"sidecarIstioProxyImage", "toFQDNsEnablePoller", "enableHostReachableServices",
			"enableRemoteNodeIdentity", "disableCNPStatusUpdates"}, remedy: "remove it; Cilium no longer has it"},
		{blocks: []string{"cloudProvider.aws"}, names: []string{"spotinstProduct", "spotinstOrientation"}, remedy: "remove it; Spot Ocean is not supported"},
		{blocks: []string{"cloudProvider.aws.loadBalancerController"}, names: []string{"version", "cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"}, remedy: noManifest},
		{blocks: []string{"api.loadBalancer"}, names: []string{"subnets"}, notOn: api.CloudAWS, remedy: "remove it; the cloud chooses the subnets of its load balancers"},
		{blocks: []string{"karpenter"}, names: []string{"logEncoding", "logLevel", "image", "featureGates", "memoryLimit", "memoryRequest", "cpuRequest"}, remedy: noManifest},
		{blocks: []string{"containerd.nvidiaGPU"}, names: []string{"image", "dcgmExporter.enabled"}, remedy: noManifest},
	}
}

// idleGroup are the fields of an InstanceGroup without effect.
func idleGroup() []idle {
	return []idle{
		{blocks: []string{"rollingUpdate"}, names: []string{"drainAndTerminate", "maxUnavailable", "maxSurge"}, remedy: noReplacer},
		{blocks: []string{"kubelet"}, names: oldKubelet(), remedy: "remove it; kubelets no longer have it"},
		{blocks: []string{"kubelet"}, names: []string{"kubeletCgroups", "runtimeCgroups", "systemCgroups"}, remedy: "remove it; kops makes no control group of that name"},
		{names: []string{"guestAccelerators", "gcpProvisioningModel"}, on: []api.CloudProviderID{api.CloudAWS, api.CloudLocal}, remedy: "remove it; it is for machines of GCE"},
		{blocks: []string{"rootVolume"}, names: []string{"type", "iops", "throughput", "optimization", "encryption", "encryptionKey"}, on: []api.CloudProviderID{api.CloudLocal},
			remedy: "remove it; disks of machines on this host are files, of which spec.rootVolumeSize is heeded"},
		{names: []string{"zones"}, on: []api.CloudProviderID{api.CloudAWS}, remedy: "remove it; the subnets of the group say the zones"},
		{names: []string{"mixedInstancesPolicy", "externalLoadBalancers", "iam.profile", "warmPool"}, notOn: api.CloudAWS, remedy: "remove it; it exists on AWS only"},
		{blocks: []string{"containerd.nvidiaGPU"}, names: []string{"image", "dcgmExporter.enabled"}, remedy: noManifest},
	}
}

// oldKubelet are settings of kubelets of long ago.
func oldKubelet() []string {
	return []string{"kubeconfigPath", "registerSchedulable", "allowPrivileged", "seccompProfileRoot", "babysitDaemons", "nvidiaGPUs", "reconcileCIDR",
		"enableCustomMetrics", "imagePullProgressDeadline", "experimentalAllocatableIgnoreEviction"}
}

// NoEffect warns of every field that is set, accepted and changes nothing. The
// objects are as the user wrote them: a completed spec holds values of rules too.
func NoEffect(cluster *api.Cluster, groups []*api.InstanceGroup) diag.List {
	c := newCheck(Input{Cluster: cluster})
	c.rule = "no-effect"
	c.object = api.KindCluster + "/" + c.cluster.Name
	c.idle(api.KindCluster, reflect.ValueOf(c.spec), idleCluster())
	for _, g := range groups {
		c.object = api.KindInstanceGroup + "/" + g.Name
		c.idle(api.KindInstanceGroup, reflect.ValueOf(&g.Spec), idleGroup())
	}
	return c.findings
}

// index is the number of an item in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// idle warns of the fields of one object that stand in the table.
func (c *check) idle(kind string, spec reflect.Value, table []idle) {
	remedies := map[string]string{}
	for _, i := range table {
		if len(i.on) > 0 && !slices.Contains(i.on, c.cloud) || i.notOn != "" && (c.cloud == "" || c.cloud == i.notOn) {
			continue
		}
		for path := range i.paths() {
			remedies[path] = i.remedy
		}
	}
	eachField("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		remedy, ok := remedies[index.ReplaceAllString(path, "[]")]
		if ok && !v.IsZero() {
			c.warn(compat.OlderPath(kind, path), "", "has no effect", remedy)
		}
		return !ok
	})
}

// paths yields every path that is meant, with spec before it.
func (i idle) paths() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		blocks := i.blocks
		if len(blocks) == 0 {
			blocks = []string{""}
		}
		for _, b := range blocks {
			for _, n := range i.names {
				if !yield("spec." + strings.TrimPrefix(b+"."+n, ".")) {
					return
				}
			}
		}
	}
}

// eachField visits the fields of a struct and of those inside, also of items of
// lists; path is that of v. It does not go into a field for which visit is false.
func eachField(path string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value) bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			eachField(at(path, i), v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && name != "" && name != "-" && visit(path+"."+name, f, v.Field(i)) {
				eachField(path+"."+name, v.Field(i), visit)
			}
		}
	}
}
