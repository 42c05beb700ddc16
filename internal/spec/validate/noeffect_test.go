package validate_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// TestFieldsWithoutEffectAreReported sets one field for each line of the table.
func TestFieldsWithoutEffectAreReported(t *testing.T) {
	cluster, groups := spectest.Read(t, []byte(`
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {name: a.example.com}
spec:
  cloudProvider: gce
  api: {loadBalancer: {type: Public, subnets: [{name: x}]}}
  rollingUpdate: {maxSurge: 2}
  kubelet: {registerSchedulable: true, maxPods: 5, systemCgroups: /system}
  masterKubelet: {kubeconfigPath: /k}
  useHostCertificates: true
  kubeDNS: {cacheMaxSize: 10, cpuRequest: 1, stubDomains: {a.example: [192.0.2.1]}}
  kubeAPIServer: {disableBasicAuth: true, clientCAFile: /ca}
  kubeControllerManager: {tlsCertFile: /c}
  kubeProxy: {master: "https://x"}
  etcdClusters: [{name: main, backups: {image: x}}, {name: events, backups: {image: x}}]
  networking: {cilium: {toFqdnsEnablePoller: true}}
  karpenter: {enabled: true, logEncoding: json, logLevel: debug}
  containerd: {nvidiaGPU: {enabled: true, dcgmExporter: {enabled: true}}}
  certManager: {enabled: true, image: "quay.io/jetstack/cert-manager-controller:v1.9.1"}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec:
  role: Node
  rollingUpdate: {drainAndTerminate: false}
  kubelet: {nvidiaGPUs: 1}
  mixedInstancesPolicy: {instances: [x]}
  iam: {profile: p}
  zones: [a]
  guestAccelerators: [{acceleratorCount: 1}]
`))
	want := []string{
		"warning: Cluster/a.example.com: spec.etcdClusters[0].backups.image: has no effect; remove it; backups are taken by etcd-manager itself, see manager.image",
		"warning: Cluster/a.example.com: spec.etcdClusters[1].backups.image: has no effect; remove it; backups are taken by etcd-manager itself, see manager.image",
		"warning: Cluster/a.example.com: spec.containerd.nvidiaGPU.dcgmExporter.enabled: has no effect; remove it; it does not exist on GCE",
		"warning: Cluster/a.example.com: spec.kubeDNS.cacheMaxSize: has no effect; remove it; only kube-dns has this setting, and a Corefile of your own can be set in externalCoreFile",
		"warning: Cluster/a.example.com: spec.kubeDNS.stubDomains: has no effect; remove it; only kube-dns has this setting, and a Corefile of your own can be set in externalCoreFile",
		"warning: Cluster/a.example.com: spec.kubeAPIServer.disableBasicAuth: has no effect; remove it; Kubernetes no longer supports basic authentication",
		"warning: Cluster/a.example.com: spec.kubeAPIServer.clientCAFile: has no effect; remove it; kops writes the file",
		"warning: Cluster/a.example.com: spec.kubeControllerManager.tlsCertFile: has no effect; remove it; kops writes the file",
		"warning: Cluster/a.example.com: spec.kubeProxy.master: has no effect; remove it; kops knows where the API is",
		"warning: Cluster/a.example.com: spec.kubelet.systemCgroups: has no effect; remove it; kops does not create a cgroup with that name",
		"warning: Cluster/a.example.com: spec.kubelet.registerSchedulable: has no effect; remove it; kubelets no longer have this setting",
		"warning: Cluster/a.example.com: spec.masterKubelet.kubeconfigPath: has no effect; remove it; kubelets no longer have this setting",
		"warning: Cluster/a.example.com: spec.certManager.image: has no effect; remove it; kops chooses the version of cert-manager; spec.assets sets where its images come from",
		"warning: Cluster/a.example.com: spec.networking.cilium.toFqdnsEnablePoller: has no effect; remove it; Cilium no longer has this setting",
		"warning: Cluster/a.example.com: spec.api.loadBalancer.subnets: has no effect; remove it; the cloud chooses the subnets of its load balancers",
		"warning: Cluster/a.example.com: spec.useHostCertificates: has no effect; remove it; programs trust the certificates in their own images",
		"warning: Cluster/a.example.com: spec.karpenter.logEncoding: has no effect; remove it; Karpenter no longer has this setting",
		"warning: InstanceGroup/nodes: spec.kubelet.nvidiaGPUs: has no effect; remove it; kubelets no longer have this setting",
		"warning: InstanceGroup/nodes: spec.mixedInstancesPolicy: has no effect; remove it; it does not exist on GCE",
		"warning: InstanceGroup/nodes: spec.iam.profile: has no effect; remove it; it does not exist on GCE",
	}
	got := lines(validate.NoEffect(&platformtest.Of(cluster).Traits, cluster, groups))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	for _, f := range validate.NoEffect(&platformtest.Of(cluster).Traits, cluster, groups) {
		if !f.Warning {
			t.Errorf("%s stops the command", f)
		}
	}
}

// Karpenter creates machines without an Auto Scaling group.
func TestSettingsOfAnAutoScalingGroupHaveNoEffectOnKarpentersMachines(t *testing.T) {
	cluster, groups := spectest.Read(t, []byte(`
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {name: a.example.com}
spec: {cloudProvider: aws, karpenter: {enabled: true}}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec: {role: Node, manager: Karpenter, tenancy: host, mixedInstancesPolicy: {instances: [a], instanceRequirements: {cpu: {min: "2"}}, onDemandBase: 1, onDemandAboveBase: 2}}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: listed}
spec: {role: Node, manager: Karpenter, mixedInstancesPolicy: {instances: [a]}}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: others}
spec: {role: Node, tenancy: host}
`))
	const why = "has no effect; remove it; it is a setting of an Auto Scaling group, and Karpenter creates these machines without one"
	want := []string{"warning: InstanceGroup/nodes: spec.mixedInstancesPolicy.instances: has no effect; remove it, or instanceRequirements, which replaces it",
		"warning: InstanceGroup/nodes: spec.mixedInstancesPolicy.onDemandBase: " + why, "warning: InstanceGroup/nodes: spec.tenancy: " + why}
	got := lines(validate.NoEffect(&platformtest.Of(cluster).Traits, cluster, groups))
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

// TestSpecsThatKOpsStoredAreAccepted validates all inputs of kOps' own tests, and the output of its
// create cluster: no spec that kOps accepts is rejected because of a field without effect.
func TestSpecsThatKOpsStoredAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldentest.Root(), "*", "*", "*v1alpha2.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("THERE ARE NO INPUTS OF KOPS' TESTS HERE")
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all, _, err := compat.Decode(data, compat.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var objects []api.Object
			for _, o := range all {
				if _, key := o.(*api.SSHCredential); !key {
					objects = append(objects, o)
				}
			}
			cluster, groups := spectest.Sort(objects)
			in := validate.Input{Platform: platformtest.Of(cluster).ForValidate(), Cluster: cluster, Groups: groups, Features: map[string]bool{"APIServerNodes": true}}
			if err := validate.All(in).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhatMachinesAreRolledByIsHeard checks that all settings have an effect if machines are
// replaced; if they only restart, the settings about their successors have none.
func TestWhatMachinesAreRolledByIsHeard(t *testing.T) {
	for cloud, want := range map[string][]string{
		"aws": nil, "local": nil,
		"metal": {
			"warning: Cluster/a.k8s.local: spec.rollingUpdate.drainAndTerminate: has no effect; remove it; machines are changed in place and never replaced",
			"warning: InstanceGroup/nodes: spec.rollingUpdate.maxSurge: has no effect; remove it; machines are changed in place and never replaced",
		},
	} {
		cluster, groups := spectest.Read(t, []byte(`
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {name: a.k8s.local}
spec: {rollingUpdate: {drainAndTerminate: false, maxUnavailable: 2}}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec: {role: Node, rollingUpdate: {maxSurge: 2, maxUnavailable: 30%}}
`))
		if d := cmp.Diff(want, lines(validate.NoEffect(&platformtest.Named(cloud).Traits, cluster, groups))); d != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", cloud, d)
		}
	}
}

// TestThisHostUsesTheSizeOfARootVolume checks that only the size has an effect: disks of these
// machines are files.
func TestThisHostUsesTheSizeOfARootVolume(t *testing.T) {
	cluster, groups := spectest.Read(t, []byte(`
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {name: a.k8s.local}
spec: {cloudProvider: local}
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec: {role: Node, rootVolumeSize: 20, rootVolumeType: gp3}
`))
	want := []string{"warning: InstanceGroup/nodes: spec.rootVolumeType: has no effect; remove it; disks of machines on this host are files, and only spec.rootVolumeSize applies"}
	if d := cmp.Diff(want, lines(validate.NoEffect(&platformtest.Of(cluster).Traits, cluster, groups))); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}
