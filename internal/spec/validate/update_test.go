package validate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

func lines(l diag.List) []string {
	var out []string
	for _, f := range l {
		s := f.String()
		if f.Warning {
			s = "warning: " + s
		}
		out = append(out, s)
	}
	return out
}

func minimal(t *testing.T) (*api.Cluster, []*api.InstanceGroup) {
	t.Helper()
	return spectest.Read(t, goldentest.Read(t, "../complete/testdata/update_cluster/minimal-aws", "in-v1alpha2.yaml"))
}

func TestChangesOfAClusterThatExists(t *testing.T) {
	const object = "Cluster/minimal-aws.example.com: "
	for _, c := range []struct {
		name          string
		before, after []string
		fresh         bool
		want          []string
	}{
		{name: "a range is the user's own risk", after: []string{"spec.networkCIDR=10.0.0.0/8"}},
		{name: "an etcd more", after: []string{"spec.etcdClusters[2]={name: leases, etcdMembers: [{name: a, instanceGroup: master-us-test-1a}]}"}},
		{name: "another name", after: []string{"metadata.name=b.example.com"},
			want: []string{object + `metadata.name: cannot be changed; the cluster is minimal-aws.example.com in the state store, got "b.example.com"; create a new cluster with the new name`}},
		{name: "an etcd less", after: []string{"-spec.etcdClusters[1]"},
			want: []string{object + `spec.etcdClusters: an etcd cannot be removed from a cluster, got "events"; restore it`}},
		{name: "another image", before: []string{"spec.etcdClusters[0].image=a:1", "spec.etcdClusters[0].version=3.6.12"},
			after: []string{"spec.etcdClusters[0].image=a:2", "spec.etcdClusters[0].version=3.6.13"},
			want: []string{
				object + `spec.etcdClusters[0].image: cannot be changed once the etcd exists, got "a:2"; restore "a:1"`,
				object + `spec.etcdClusters[0].version: cannot be changed once the etcd exists, because its image is fixed, got "3.6.13"; restore "3.6.12"`,
			}},
		{name: "another image of an etcd that does not exist", before: []string{"spec.etcdClusters[0].image=a:1"}, after: []string{"spec.etcdClusters[0].image=a:2"}, fresh: true},
		{name: "another version", before: []string{"spec.etcdClusters[*].version=3.5.31"}, after: []string{"spec.etcdClusters[*].version=3.6.12"}},
		{name: "an older Kubernetes", after: []string{"spec.kubernetesVersion=1.33.2"},
			want: []string{"warning: " + object + `spec.kubernetesVersion: is older than v1.34.0, the previous version in the spec: Kubernetes does not support downgrades, and objects may be lost, got "1.33.2"; restore "v1.34.0"`}},
		{name: "a newer Kubernetes", after: []string{"spec.kubernetesVersion=1.35.2"}},
		{name: "an older Kubernetes of a cluster that was never made", after: []string{"spec.kubernetesVersion=1.33.2"}, fresh: true},
		{name: "another pod network", after: []string{"-spec.networking.cni", "spec.networking.calico={}"},
			want: []string{"warning: " + object + `spec.networking: replaces the pod network cni of a running cluster: pods on old and new machines cannot reach each other until every machine is replaced, got "calico"; create a new cluster and move to it, or plan for an outage`}},
		{name: "another pod network of a cluster that was never made", after: []string{"-spec.networking.cni", "spec.networking.calico={}"}, fresh: true},
		{name: "another group for a member", after: []string{"spec.etcdClusters[1].etcdMembers[0].instanceGroup=other"},
			want: []string{object + `spec.etcdClusters[1].etcdMembers[0].instanceGroup: cannot be changed once the member exists, got "other"; restore "master-us-test-1a", or add a member with another name`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, _ := minimal(t)
			before := spectest.Assign(t, cluster, c.before)
			got := validate.Update(before, spectest.Assign(t, before, c.after), func(string) bool { return !c.fresh })
			if d := cmp.Diff(c.want, lines(got)); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

func TestGuardsOnVersions(t *testing.T) {
	demanding, err := versions.Parse([]byte(`
kind: Channel
spec:
  kopsVersions:
  - {range: ">=1.36.0", recommendedVersion: 1.37.2, requiredVersion: 1.36.9}
  kubernetesVersions:
  - {range: ">=1.36.0", recommendedVersion: 1.36.3, requiredVersion: 1.36.1}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		in   validate.Versions
		want []string
	}{
		{"all is well", validate.Versions{Kops: "1.37.2", Kubernetes: "v1.36.3", Stored: "1.37.2", Channel: demanding}, nil},
		{"no channel", validate.Versions{Kops: "1.37.0", Kubernetes: "1.36.0"}, nil},
		{"a development build", validate.Versions{Kops: "dev", Kubernetes: "1.99.0", Stored: "1.99.0"}, nil},
		{"Kubernetes too new", validate.Versions{Kops: "1.36.4", Kubernetes: "1.37.0-alpha.1"},
			[]string{`spec.kubernetesVersion: is not yet supported by kops 1.36.4, got "1.37.0-alpha.1"; use Kubernetes 1.36, a newer kops, or set KOPS_RUN_TOO_NEW_VERSION=1`}},
		{"Kubernetes too new, on demand", validate.Versions{Kops: "1.36.4", Kubernetes: "1.37.0", RunTooNew: true}, nil},
		{"Kubernetes too old", validate.Versions{Kops: "1.37.0", Kubernetes: "1.31.9", RunObsolete: true},
			[]string{`spec.kubernetesVersion: is no longer supported, kubernetes upgrade is required, got "1.31.9"; use 1.32.0 or later; an older kops upgrades step by step to 1.31, and kops upgrade cluster continues from there`}},
		{"Kubernetes too old for a new cluster", validate.Versions{Kops: "1.37.0", Kubernetes: "1.31.9", New: true},
			[]string{`option:KubernetesVersion: is no longer supported, got "1.31.9"; use 1.32.0 or later`}},
		{"Kubernetes that the channel refuses for a new cluster", validate.Versions{Kops: "1.37.2", Kubernetes: "1.36.0", Channel: demanding, New: true},
			[]string{`option:KubernetesVersion: kubernetes upgrade is required: the channel requires 1.36.1, got "1.36.0"; use that version, or set KOPS_RUN_OBSOLETE_VERSION=1`}},
		{"Kubernetes soon too old", validate.Versions{Kops: "1.37.0", Kubernetes: "1.33.9"},
			[]string{`warning: spec.kubernetesVersion: is deprecated and will lose support, got "1.33.9"; upgrade to 1.34.0 or later: kops upgrade cluster`}},
		{"Kubernetes that the channel refuses", validate.Versions{Kops: "1.37.2", Kubernetes: "1.36.0", Channel: demanding},
			[]string{`spec.kubernetesVersion: kubernetes upgrade is required: the channel requires 1.36.1, got "1.36.0"; set spec.kubernetesVersion to it (kops edit cluster), or set KOPS_RUN_OBSOLETE_VERSION=1`}},
		{"Kubernetes with a newer patch", validate.Versions{Kops: "1.37.2", Kubernetes: "1.36.2", Channel: demanding},
			[]string{`warning: spec.kubernetesVersion: the channel recommends the newer version 1.36.3, got "1.36.2"; upgrade to it: kops upgrade cluster`}},
		{"a kops that the channel refuses", validate.Versions{Kops: "1.36.4", Kubernetes: "1.36.3", Channel: demanding},
			[]string{`kops: kops upgrade is required: the channel requires 1.36.9, got "1.36.4"; install kops 1.36.9 or later, or set KOPS_RUN_OBSOLETE_VERSION=1`}},
		{"a kops that the channel refuses, on demand", validate.Versions{Kops: "1.36.4", Kubernetes: "1.36.3", Channel: demanding, RunObsolete: true},
			[]string{`warning: kops: the channel recommends the newer kops 1.37.2, got "1.36.4"; install kops 1.37.2`}},
		{"a cluster of a newer kops", validate.Versions{Kops: "1.36.4", Kubernetes: "1.36.3", Stored: "1.37.0"},
			[]string{`kops: the cluster was last applied by the newer kops 1.37.0, got "1.36.4"; install kops 1.37.0, or pass option:AllowDowngrade`}},
		{"a cluster of a newer kops, on demand", validate.Versions{Kops: "1.36.4", Kubernetes: "1.36.3", Stored: "1.37.0", AllowDowngrade: true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, lines(validate.Guard(c.in))); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
}

func TestWhatClusterAndTargetNeed(t *testing.T) {
	for _, c := range []struct {
		cloud            api.CloudProviderID
		target, features string
		want             []string
	}{
		{"aws", "terraform", "", nil},
		{"azure", "direct", "Azure", nil},
		{"azure", "terraform", "", []string{
			`spec.cloudProvider: is experimental, got "azure"; set KOPS_FEATURE_FLAGS=Azure`, `spec.cloudProvider: is experimental, got "azure"; set KOPS_FEATURE_FLAGS=AzureTerraform`,
		}},
		{"scaleway", "direct", "", []string{`spec.cloudProvider: is experimental, got "scaleway"; set KOPS_FEATURE_FLAGS=Scaleway`}},
		{"digitalocean", "terraform", "", []string{`spec.cloudProvider: is experimental, got "digitalocean"; set KOPS_FEATURE_FLAGS=DOTerraform`}},
		{"linode", "terraform", "Linode", []string{`option:Target: is not supported on linode, got "terraform"; use direct`}},
	} {
		if d := cmp.Diff(c.want, lines(validate.Target(&platformtest.Named(string(c.cloud)).Traits, c.target, complete.ParseFeatures(c.features)))); d != "" {
			t.Errorf("%s, %s, %q (-want +got):\n%s", c.cloud, c.target, c.features, d)
		}
	}
}

func TestSSHKeysAndSecrets(t *testing.T) {
	aws, _ := minimal(t)
	azure := &api.Cluster{Spec: api.ClusterSpec{CloudProvider: api.CloudProviderSpec{Azure: &api.AzureSpec{}}}}
	do := &api.Cluster{Spec: api.ClusterSpec{CloudProvider: api.CloudProviderSpec{DO: &api.DOSpec{}}}}
	for _, c := range []struct {
		cluster *api.Cluster
		keys    int
		want    string
	}{
		{aws, 0, ""}, {aws, 1, ""}, {aws, 2, "has 2 SSH keys, but aws accepts only one"},
		{azure, 0, "has no SSH key, but azure needs one"}, {azure, 1, ""}, {azure, 3, "has 3 SSH keys, but azure accepts only one"},
		{do, 0, "has no SSH key, but digitalocean needs one"}, {do, 2, ""},
	} {
		got := validate.SSHKeys(c.cluster, &platformtest.Of(c.cluster).Traits, c.keys).Error()
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %d keys: %q, want %q", c.cluster.CloudProviderID(), c.keys, got, c.want)
		}
	}
	secret := spectest.Assign(t, aws, []string{"spec.encryptionConfig=true", "-spec.networking.cni", "spec.networking.cilium={enableEncryption: true}"})
	want := []string{
		`Cluster/minimal-aws.example.com: spec.encryptionConfig: could not find encryptionconfig secret; store it with kops create secret encryptionconfig minimal-aws.example.com -f FILE`,
		`Cluster/minimal-aws.example.com: spec.networking.cilium.enableEncryption: could not find ciliumpassword secret; store it with kops create secret ciliumpassword minimal-aws.example.com -f FILE`,
	}
	if d := cmp.Diff(want, lines(validate.Secrets(secret, func(string) bool { return false }))); d != "" {
		t.Errorf("without secrets (-want +got):\n%s", d)
	}
	if got := validate.Secrets(secret, func(string) bool { return true }); got != nil {
		t.Errorf("with secrets: %v", got)
	}
}

func TestEnumerationsOfObjectsThatWereNotRead(t *testing.T) {
	cluster, groups := minimal(t)
	cluster.Spec.Networking.Subnets[0].Type = "Publik"
	groups[0].Spec.Manager = "Hand"
	cluster.Spec.CloudProvider.GCE = &api.GCESpec{}
	want := []string{
		`Cluster/minimal-aws.example.com: spec.subnets[0].type: is not supported, got "Publik"; did you mean Public? use Public, Private, DualStack or Utility`,
		`Cluster/minimal-aws.example.com: spec.cloudProvider: is more than one cloud, got "aws,gce"; leave one`,
		`InstanceGroup/nodes: spec.manager: is not supported, got "Hand"; use CloudGroup or Karpenter`,
	}
	if d := cmp.Diff(want, lines(validate.All(validate.Input{Platform: platformtest.Of(cluster).ForValidate(), Cluster: cluster, Groups: groups}))); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestSchedulerConfigurations(t *testing.T) {
	objects, _, err := compat.Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
metadata: {name: a}
clientConnection: {qps: 5}
---
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
metadata: {name: b}
clientConnection: {kubeconfig: /x}
`), compat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"KubeSchedulerConfiguration/b: is a second KubeSchedulerConfiguration, but the scheduler reads only one; remove one of them",
		`KubeSchedulerConfiguration/b: clientConnection.kubeconfig: is set by kops, got "/x"; remove it`,
	}
	if d := cmp.Diff(want, lines(validate.Objects(objects))); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
	if got := validate.Objects(objects[:1]); got != nil {
		t.Errorf("a good one: %v", got)
	}
}

// TestEveryRuleHasACase keeps the table of bad specs complete.
func TestEveryRuleHasACase(t *testing.T) {
	seen := map[string]bool{"enum": true, "cloud-provider": true, "components": true} // only reached by users of the library

	for _, c := range badCases(t) {
		for _, f := range findings(t, c) {
			seen[f.Rule] = true
		}
	}
	for _, name := range validate.RuleNames() {
		if !seen[name] {
			t.Errorf("no case of testdata/bad.yaml breaks the rule %q", name)
		}
	}
}
