package compat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	clusterHead = "apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: a.example.com\nspec:\n  cloudProvider: aws\n"
	groupHead   = "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: nodes\nspec:\n  role: Node\n"
	newHead     = "apiVersion: kops.k8s.io/v1alpha3\nkind: Cluster\nmetadata:\n  name: a.example.com\nspec:\n"
)

// TestBadDocuments checks the exact message of each mistake that a document can have.
func TestBadDocuments(t *testing.T) {
	for _, c := range badDocs {
		t.Run(c.name, func(t *testing.T) {
			objects, _, err := Decode([]byte(c.text), Options{File: "f"})
			if err == nil {
				t.Fatal("is accepted")
			}
			if len(objects) > 0 {
				t.Errorf("%d objects come with an error", len(objects))
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("got (+), want (-):\n%s", diff)
			}
		})
	}
}

// TestAFileFullOfMistakesIsAnsweredSoon reads unknown and duplicate keys. Ten times as many may take
// ten times as long, and on a busy machine four times that, but not a hundred times.
func TestAFileFullOfMistakesIsAnsweredSoon(t *testing.T) {
	decode := func(keys int) (time.Duration, error) {
		var b strings.Builder
		b.WriteString(clusterHead)
		for i := range keys / 2 {
			fmt.Fprintf(&b, "  kubelets%d: 1\n  kubelets%d: 1\n", i, i)
		}
		began := time.Now()
		_, _, err := Decode([]byte(b.String()), Options{File: "f"})
		return time.Since(began), err
	}
	before, _ := decode(20_000)
	took, err := decode(200_000)
	after, _ := decode(20_000)
	if took > 40*max(before, after) {
		t.Errorf("20,000 keys took %v and %v, and 200,000 took %v", before, after, took)
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != maxFindings+1 || !strings.Contains(last, "199900 more findings of this file are not shown") {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
}

var badDocs = []struct{ name, text, want string }{
	{
		"unknown field, near one",
		clusterHead + "  networkCIDRs: 10.0.0.0/8\n",
		"f:7: Cluster/a.example.com: spec.networkCIDRs: unknown field; did you mean networkCIDR?",
	},
	{
		"unknown field, near none",
		clusterHead + "  colour: blue\n",
		"f:7: Cluster/a.example.com: spec.colour: unknown field",
	},
	{
		"field of another block",
		groupHead + "  onDemandBase: 10\n",
		"f:7: InstanceGroup/nodes: spec.onDemandBase: unknown field; did you mean spec.mixedInstancesPolicy.onDemandBase?",
	},
	{
		"field of the items of a list",
		clusterHead + "  useRawManifest: true\n",
		"f:7: Cluster/a.example.com: spec.useRawManifest: unknown field; did you mean spec.hooks[].useRawManifest?",
	},
	{
		"field of another block, in the plural",
		clusterHead + "  zones: [us-test-1a]\n",
		"f:7: Cluster/a.example.com: spec.zones: unknown field; did you mean spec.subnets[].zone?",
	},
	{
		"most words of a known field",
		clusterHead + "  kubeAPIAccess: [0.0.0.0/0]\n",
		"f:7: Cluster/a.example.com: spec.kubeAPIAccess: unknown field; did you mean kubernetesApiAccess?",
	},
	{
		"the words of a path",
		clusterHead + "  apiLoadBalancer: {type: Public}\n",
		"f:7: Cluster/a.example.com: spec.apiLoadBalancer: unknown field; did you mean spec.api.loadBalancer?",
	},
	{
		"a name that many blocks have",
		clusterHead + "  image: a\n",
		"f:7: Cluster/a.example.com: spec.image: unknown field",
	},
	{
		"field of another tool",
		groupHead + "  preemptible: true\n",
		"f:7: InstanceGroup/nodes: spec.preemptible: unknown field; write gcpProvisioningModel: SPOT",
	},
	{
		"unknown field in a list",
		clusterHead + "  subnets:\n  - name: a\n  - nam: b\n",
		"f:9: Cluster/a.example.com: spec.subnets[1].nam: unknown field; did you mean name?",
	},
	{
		"field of v1alpha3 in v1alpha2",
		clusterHead + "  networking:\n    podCIDR: 100.96.0.0/11\n",
		"f:8: Cluster/a.example.com: spec.networking.podCIDR: unknown field; v1alpha2 calls it spec.podCIDR",
	},
	{
		"field of v1alpha3 in v1alpha2, in a list",
		clusterHead + "  etcdClusters:\n  - etcdMembers:\n    - kmsKeyID: k\n",
		"f:9: Cluster/a.example.com: spec.etcdClusters[0].etcdMembers[0].kmsKeyID: unknown field; v1alpha2 calls it spec.etcdClusters[0].etcdMembers[0].kmsKeyId",
	},
	{
		"field of v1alpha2 in v1alpha3",
		newHead + "  masterPublicName: api.a.example.com\n",
		"f:6: Cluster/a.example.com: spec.masterPublicName: unknown field; v1alpha3 calls it spec.api.publicName",
	},
	{
		"field of v1alpha2 in v1alpha3, renamed block",
		newHead + "  masterKubelet:\n    maxPods: 10\n",
		"f:6: Cluster/a.example.com: spec.masterKubelet: unknown field; v1alpha3 calls it spec.controlPlaneKubelet",
	},
	{
		"wrong case",
		groupHead + "  machinetype: m5.large\n",
		"f:7: InstanceGroup/nodes: spec.machinetype: unknown field; did you mean machineType?",
	},
	{
		"number for a string",
		clusterHead + "  kubernetesVersion: 1.30\n",
		"f:7: Cluster/a.example.com: spec.kubernetesVersion: must be a string, not a fraction, got \"1.30\"; put it in quotes",
	},
	{
		"boolean for a string",
		clusterHead + "  cloudLabels:\n    gpu: yes\n",
		"f:8: Cluster/a.example.com: spec.cloudLabels.gpu: must be a string, not a boolean, got \"yes\"; put it in quotes",
	},
	{
		"list for a string",
		clusterHead + "  channel:\n  - stable\n",
		"f:8: Cluster/a.example.com: spec.channel: must be a string, not a list",
	},
	{
		"map for a string",
		clusterHead + "  channel:\n    name: stable\n",
		"f:8: Cluster/a.example.com: spec.channel: must be a string, not a map",
	},
	{
		"string for a number",
		groupHead + "  minSize: two\n",
		"f:7: InstanceGroup/nodes: spec.minSize: must be a whole number, not a string, got \"two\"",
	},
	{
		"quoted number",
		groupHead + "  minSize: \"2\"\n",
		"f:7: InstanceGroup/nodes: spec.minSize: must be a whole number, not a string, got \"2\"; write it without quotes",
	},
	{
		"fraction for a whole number",
		groupHead + "  minSize: 1.5\n",
		"f:7: InstanceGroup/nodes: spec.minSize: must be a whole number, not a fraction, got \"1.5\"",
	},
	{
		"number out of range",
		groupHead + "  minSize: 3000000000\n",
		"f:7: InstanceGroup/nodes: spec.minSize: must be between -2147483648 and 2147483647, got \"3000000000\"",
	},
	{
		"negative number where none may be",
		clusterHead + "  etcdClusters:\n  - name: main\n    manager:\n      backupRetentionDays: -1\n",
		"f:10: Cluster/a.example.com: spec.etcdClusters[0].manager.backupRetentionDays: must be between 0 and 4294967295, got \"-1\"",
	},
	{
		"string for a boolean",
		clusterHead + "  encryptionConfig: \"true\"\n",
		"f:7: Cluster/a.example.com: spec.encryptionConfig: must be true or false, not a string, got \"true\"; write it without quotes",
	},
	{
		"number for a boolean",
		clusterHead + "  encryptionConfig: 1\n",
		"f:7: Cluster/a.example.com: spec.encryptionConfig: must be true or false, not a number, got \"1\"",
	},
	{
		"string for a list",
		clusterHead + "  sshAccess: 10.0.0.0/8\n",
		"f:7: Cluster/a.example.com: spec.sshAccess: must be a list, not a string, got \"10.0.0.0/8\"; write each item on a line of its own after a dash",
	},
	{
		"map for a list",
		clusterHead + "  subnets:\n    a:\n      zone: us-east-1a\n",
		"f:8: Cluster/a.example.com: spec.subnets: must be a list, not a map; write each item on a line of its own after a dash",
	},
	{
		"list for a map",
		clusterHead + "  kubelet:\n  - maxPods: 10\n",
		"f:8: Cluster/a.example.com: spec.kubelet: must be a map, not a list",
	},
	{
		"string for a map",
		clusterHead + "  networking: cilium\n",
		"f:7: Cluster/a.example.com: spec.networking: must be a map, not a string, got \"cilium\"; write cilium as a key under it",
	},
	{
		"empty item of a list",
		clusterHead + "  subnets:\n  -\n",
		"f:8: Cluster/a.example.com: spec.subnets[0]: must be a map, not nothing",
	},
	{
		"quantity",
		clusterHead + "  kubeAPIServer:\n    cpuRequest: lots\n",
		"f:8: Cluster/a.example.com: spec.kubeAPIServer.cpuRequest: must be a quantity such as 100m or 64Mi, got \"lots\"",
	},
	{
		"boolean for a quantity",
		clusterHead + "  kubeAPIServer:\n    cpuRequest: true\n",
		"f:8: Cluster/a.example.com: spec.kubeAPIServer.cpuRequest: must be a quantity such as 100m or 64Mi, not a boolean, got \"true\"",
	},
	{
		"duration",
		clusterHead + "  kubeAPIServer:\n    eventTTL: 1 hour\n",
		"f:8: Cluster/a.example.com: spec.kubeAPIServer.eventTTL: must be a duration such as 30s or 1h30m, got \"1 hour\"",
	},
	{
		"duration without a unit",
		clusterHead + "  kubeAPIServer:\n    eventTTL: 60\n",
		"f:8: Cluster/a.example.com: spec.kubeAPIServer.eventTTL: must be a duration such as 30s or 1h30m, not a number, got \"60\"; add a unit, such as 60s",
	},
	{
		"boolean for a number or a string",
		clusterHead + "  rollingUpdate:\n    maxSurge: true\n",
		"f:8: Cluster/a.example.com: spec.rollingUpdate.maxSurge: must be a number or a string, not a boolean, got \"true\"",
	},
	{
		"time",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: a\n  creationTimestamp: yesterday\n",
		"f:5: Cluster/a: metadata.creationTimestamp: must be a time such as 2026-01-02T03:04:05Z, got \"yesterday\"",
	},
	{
		"base64, which is not shown",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Keyset\nmetadata:\n  name: ca\nspec:\n  keys:\n  - id: \"1\"\n    publicMaterial: '***'\n",
		"f:8: Keyset/ca: spec.keys[0].publicMaterial: must be base64",
	},
	{
		"value of an enumeration",
		clusterHead + "  subnets:\n  - name: a\n    type: public\n",
		"f:9: Cluster/a.example.com: spec.subnets[0].type: unknown value, got \"public\"; did you mean Public? possible values: Public, Private, DualStack, Utility",
	},
	{
		"role",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: cp\nspec:\n  role: Mastr\n",
		"f:6: InstanceGroup/cp: spec.role: unknown value, got \"Mastr\"; did you mean Master? possible values: Master, ControlPlane, Node, Bastion, APIServer, Etcd, Scheduler, KubeControllerManager",
	},
	{
		"role of v1alpha2 in v1alpha3",
		"apiVersion: kops.k8s.io/v1alpha3\nkind: InstanceGroup\nmetadata:\n  name: cp\nspec:\n  role: Master\n",
		"f:6: InstanceGroup/cp: spec.role: unknown value, got \"Master\"; possible values: ControlPlane, Node, Bastion, APIServer, Etcd, Scheduler, KubeControllerManager",
	},
	{
		"unknown cloud",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: a\nspec:\n  cloudProvider: awz\n",
		"f:6: Cluster/a: spec.cloudProvider: unknown value, got \"awz\"; did you mean aws? possible values: aws, azure, digitalocean, gce, hetzner, linode, local, openstack, scaleway",
	},
	{
		"AWS' settings on another cloud",
		strings.Replace(clusterHead, "aws", "gce", 1) + "  cloudConfig:\n    elbSecurityGroup: sg-1\n",
		"f:8: Cluster/a.example.com: spec.cloudConfig.elbSecurityGroup: is for cloudProvider aws only, and the cluster is on gce; remove it",
	},
	{
		"two clouds in v1alpha3",
		newHead + "  cloudProvider:\n    aws: {}\n    gce: {}\n",
		"f:7: Cluster/a.example.com: spec.cloudProvider: names several clouds: aws, gce; keep one",
	},
	{
		"field of v1alpha3 in an item of a list",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: kops.k8s.io/v1alpha2\n  kind: Cluster\n  metadata:\n    name: a\n  spec:\n    configStore:\n      base: s3://b/a\n    api:\n      publicName: api.a\n",
		"f:10: Cluster/a: items[0].spec.configStore.base: unknown field; v1alpha2 calls it spec.configBase\n" +
			"f:12: Cluster/a: items[0].spec.api.publicName: unknown field; v1alpha2 calls it spec.masterPublicName",
	},
	{
		"claims",
		clusterHead + "  kubeAPIServer:\n    oidcRequiredClaim:\n    - group\n",
		"f:9: Cluster/a.example.com: spec.kubeAPIServer.oidcRequiredClaim[0]: must be claim=value, got \"group\"",
	},
	{
		"docker",
		clusterHead + "  docker:\n    version: 19.03.0\n  containerRuntime: docker\n",
		"f:7: Cluster/a.example.com: spec.docker: is no longer supported; remove it; the runtime is containerd, see spec.containerd\n" +
			"f:9: Cluster/a.example.com: spec.containerRuntime: is no longer supported, got \"docker\"; remove it; the runtime is containerd",
	},
	{
		"node authorization",
		clusterHead + "  nodeAuthorization:\n    nodeAuthorizer: {}\n",
		"f:7: Cluster/a.example.com: spec.nodeAuthorization: is no longer supported; remove it; machines prove who they are to kops-controller",
	},
	{
		"legacy IAM",
		clusterHead + "  iam:\n    legacy: true\n",
		"f:8: Cluster/a.example.com: spec.iam.legacy: is no longer supported, got \"true\"; set it to false",
	},
	{
		"classic networking",
		clusterHead + "  networking:\n    classic: {}\n",
		"f:8: Cluster/a.example.com: spec.networking.classic: is no longer supported; choose another network, such as cilium",
	},
	{
		"legacy etcd",
		clusterHead + "  etcdClusters:\n  - name: main\n    provider: Legacy\n",
		"f:9: Cluster/a.example.com: spec.etcdClusters[0].provider: is no longer supported, got \"Legacy\"; remove it; etcd is run by etcd-manager",
	},
	{
		"driver disabled",
		clusterHead + "  cloudConfig:\n    awsEBSCSIDriver:\n      enabled: false\n",
		"f:9: Cluster/a.example.com: spec.cloudConfig.awsEBSCSIDriver.enabled: is no longer supported, got \"false\"; remove it; the driver is always on, and managed: false leaves its deployment to you",
	},
	{
		"removed kubelet field",
		groupHead + "  kubelet:\n    requireKubeconfig: true\n",
		"f:8: InstanceGroup/nodes: spec.kubelet.requireKubeconfig: is no longer supported, got \"true\"; remove it; kops writes the kubeconfig",
	},
	{
		"duplicate key",
		clusterHead + "  channel: stable\n  channel: alpha\n",
		"f:8: Cluster/a.example.com: spec.channel: is given twice, first on line 7; keep one of the two",
	},
	{
		"duplicate key at the top",
		clusterHead + "spec:\n  cloudProvider: gce\n",
		"f:7: Cluster/a.example.com: spec: is given twice, first on line 5; keep one of the two",
	},
	{
		"all mistakes at once",
		clusterHead + "  chanel: stable\n  sshAccess: all\n  kubelet:\n    maxPods: many\n    maxPod: 3\n",
		"f:7: Cluster/a.example.com: spec.chanel: unknown field; did you mean channel?\n" +
			"f:8: Cluster/a.example.com: spec.sshAccess: must be a list, not a string, got \"all\"; write each item on a line of its own after a dash\n" +
			"f:10: Cluster/a.example.com: spec.kubelet.maxPods: must be a whole number, not a string, got \"many\"\n" +
			"f:11: Cluster/a.example.com: spec.kubelet.maxPod: unknown field; did you mean maxPods?",
	},
	{
		"mistakes in two documents",
		clusterHead + "  chanel: stable\n---\napiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: n\nspec:\n  size: 3\n",
		"f:7: Cluster/a.example.com: spec.chanel: unknown field; did you mean channel?\n" +
			"f:12: InstanceGroup: metadata.name: must be a string, not a boolean, got \"n\"; put it in quotes\n" +
			"f:14: InstanceGroup: spec.size: unknown field; did you mean spec.volumes[].size?",
	},
	{
		"tab",
		clusterHead + "  kubelet:\n\tmaxPods: 10\n",
		"f:8: is not YAML: found character that cannot start any token; indent with spaces, not with tabs",
	},
	{
		"garbage",
		"{\"a\": [1, 2\n",
		"f:1: is not YAML: did not find expected ',' or ']'",
	},
	{
		"no YAML",
		"a: b: c\n",
		"f:1: is not YAML: mapping values are not allowed in this context",
	},
	{
		"text",
		"hello\n",
		"f:1: must be an object with apiVersion and kind, not a string",
	},
	{
		"list at the top",
		"- a\n- - b\n- {apiVersion: kops.k8s.io/v1alpha2, kind: Host, spec: {podCIDRs: a}}\n- {apiVersion: kops.k8s.io/v1alpha2, kind: Cluster, spec: {networking: {subnets: []}}}\n",
		"f:1: [0]: must be an object with apiVersion and kind, not a string\n" +
			"f:2: [1]: must be an object with apiVersion and kind, not a list\n" +
			"f:3: Host: [2].spec.podCIDRs: must be a list, not a string, got \"a\"; write each item on a line of its own after a dash\n" +
			"f:4: Cluster: [3].spec.networking.subnets: unknown field; v1alpha2 calls it spec.subnets",
	},
	{
		"missing kind",
		"apiVersion: kops.k8s.io/v1alpha2\nmetadata:\n  name: a\n",
		"f:1: kind: is missing; set the kind of the object, such as kind: Cluster",
	},
	{
		"missing version",
		"kind: Cluster\nmetadata:\n  name: a\n",
		"f:1: apiVersion: is missing; write apiVersion: kops.k8s.io/v1alpha2",
	},
	{
		"version is a number",
		"kind: Cluster\napiVersion: 2\n",
		"f:2: apiVersion: must be a string, not a number; write apiVersion: kops.k8s.io/v1alpha2",
	},
	{
		"unknown kind",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroups\nmetadata:\n  name: a\n",
		"f:2: kind: unknown kind InstanceGroups; did you mean InstanceGroup?",
	},
	{
		"unknown kind, near none",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Machine\nmetadata:\n  name: a\n",
		"f:2: kind: unknown kind Machine; use one of Addons, Channel, Cluster, Host, InstanceGroup, Keyset, SSHCredential",
	},
	{
		"block of v1alpha3",
		groupHead + "  rootVolume:\n    size: 40\n    sise: 40\n",
		"f:8: InstanceGroup/nodes: spec.rootVolume.size: unknown field; v1alpha2 calls it spec.rootVolumeSize\n" +
			"f:9: InstanceGroup/nodes: spec.rootVolume.sise: unknown field",
	},
	{
		"block of v1alpha2",
		newHead + "  cloudConfig:\n    azure:\n      tenantId: t\n",
		"f:8: Cluster/a.example.com: spec.cloudConfig.azure.tenantId: unknown field; v1alpha3 calls it spec.cloudProvider.azure.tenantID",
	},
	{
		"misspelt group",
		"kind: Cluster\napiVersion: kops.k8s.oi/v1alpha2\nmetadata:\n  name: a\n",
		"f:2: apiVersion: unknown group kops.k8s.oi; did you mean kops.k8s.io/v1alpha2?",
	},
	{
		"version without a group",
		"apiVersion: v1alpha2\nkind: Cluster\nmetadata:\n  name: a\n",
		"f:1: apiVersion: has no group; did you mean kops.k8s.io/v1alpha2?",
	},
	{
		"group without a version",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: kops.k8s.io\n  kind: InstanceGroup\n  metadata:\n    name: a\n",
		"f:4: items[0].apiVersion: has no version; did you mean kops.k8s.io/v1alpha2?",
	},
	{
		"number that no integer holds",
		clusterHead + "  channel: 99999999999999999999\n  kubelet:\n    maxPods: 99999999999999999999\n",
		"f:7: Cluster/a.example.com: spec.channel: must be a string, not a number, got \"99999999999999999999\"; put it in quotes\n" +
			"f:9: Cluster/a.example.com: spec.kubelet.maxPods: must be between -2147483648 and 2147483647, got \"99999999999999999999\"",
	},
	{
		"alias without an anchor",
		clusterHead + "  channel: *nowhere\n",
		"f:7: is not YAML: unknown anchor 'nowhere' referenced",
	},
	{
		"control character",
		clusterHead + "  channel: \"a\x01\"\n",
		"f:7: is not YAML: control characters are not allowed",
	},
	{
		"not UTF-8",
		clusterHead + "  channel: \xff\n",
		"f:7: is not YAML: invalid leading UTF-8 octet",
	},
	{
		"byte order mark and carriage returns",
		"\ufeff" + strings.ReplaceAll(clusterHead+"  chanel: stable\n", "\n", "\r\n"),
		"f:7: Cluster/a.example.com: spec.chanel: unknown field; did you mean channel?",
	},
	{
		"unknown version",
		"apiVersion: kops.k8s.io/v1\nkind: Cluster\nmetadata:\n  name: a\n",
		"f:1: apiVersion: unknown version v1; use kops.k8s.io/v1alpha2 or kops.k8s.io/v1alpha3",
	},
	{
		"item of a list",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: kops.k8s.io/v1alpha2\n  kind: Cluster\n  metadata:\n    name: a\n  spec:\n    chanel: stable\n",
		"f:9: Cluster/a: items[0].spec.chanel: unknown field; did you mean channel?",
	},
	{
		"items is a map",
		"apiVersion: v1\nkind: List\nitems: {}\n",
		"f:3: items: must be a list, not a map",
	},
	{
		"anchor that contains itself",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata: &m\n  name: a\n  labels: *m\n",
		"f:5: Cluster/a: metadata.labels.labels: anchor &m contains itself",
	},
	{
		"key that is a list",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: a\n  labels:\n    ? [a]\n    : b\n",
		"f:6: Cluster/a: metadata.labels: key must be a string, not a list or a map",
	},
	{
		"merge of a string",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  <<: a\n",
		"f:4: Cluster: metadata[<<]: must be a map to merge, not a string",
	},
	{
		"infinite number",
		clusterHead + "  kubeAPIServer:\n    auditWebhookBatchThrottleQps: .inf\n",
		"f:8: Cluster/a.example.com: spec.kubeAPIServer.auditWebhookBatchThrottleQps: must be a finite number, not .inf",
	},
	{
		"foreign tag",
		clusterHead + "  channel: !secret stable\n",
		"f:7: Cluster/a.example.com: spec.channel: YAML tag !secret is not supported",
	},
	{
		"long value",
		clusterHead + "  additionalPolicies: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\n",
		"f:7: Cluster/a.example.com: spec.additionalPolicies: must be a map, not a string, got \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\"",
	},
	{
		"label that needs brackets",
		clusterHead + "  cloudLabels:\n    example.com/a: 1\n",
		"f:8: Cluster/a.example.com: spec.cloudLabels[example.com/a]: must be a string, not a number, got \"1\"; put it in quotes",
	},
}
