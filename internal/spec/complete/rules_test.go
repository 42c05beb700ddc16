package complete_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// ruleCase specifies the results of completion for a few fields.
type ruleCase struct {
	Name string `json:"name"`
	// Base is a case of testdata/update_cluster; if Options are set, a new cluster is used instead.
	Base    string              `json:"base,omitempty"`
	Options *newcluster.Options `json:"options,omitempty"`
	// Cluster and Groups are assignments, spec.path=value, or paths with a leading minus, to unset
	// them.
	Cluster  []string            `json:"cluster,omitempty"`
	Groups   map[string][]string `json:"groups,omitempty"`
	Features string              `json:"features,omitempty"`
	// Want are values of the completed cluster by path, null if unset; Group are values of its
	// groups.
	Want  map[string]any            `json:"want,omitempty"`
	Group map[string]map[string]any `json:"group,omitempty"`
	// Fail are the findings.
	Fail []string `json:"fail,omitempty"`
}

func TestRules(t *testing.T) {
	data, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []ruleCase
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			in := ruleInput(t, c)
			done, findings := complete.Complete(in)
			var fail []string
			for _, f := range findings {
				fail = append(fail, f.String())
			}
			if d := cmp.Diff(c.Fail, fail); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
			compare(t, "cluster", c.Want, done.Spec)
			for name, want := range c.Group {
				i := slices.IndexFunc(done.Groups, func(g *api.InstanceGroup) bool { return g.Name == name })
				if i < 0 {
					t.Fatalf("no group %s", name)
				}
				compare(t, name, want, done.Groups[i])
			}
			if len(c.Fail) > 0 {
				return
			}
			in.Cluster, in.Groups = done.Spec, done.Groups
			again, _ := complete.Complete(in)
			if d := cmp.Diff(done.Spec, again.Spec) + cmp.Diff(done.Groups, again.Groups); d != "" {
				t.Errorf("completing twice (-once +twice):\n%s", d)
			}
		})
	}
}

func ruleInput(t *testing.T, c ruleCase) complete.Input {
	t.Helper()
	in := complete.Input{Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t), KopsVersion: "1.37.0", Features: complete.ParseFeatures(c.Features)}
	if c.Options != nil {
		cluster, groups, wrong := newcluster.New(*c.Options, newcluster.World{Platform: platformtest.Named(c.Options.CloudProvider).ForNew(), Complete: platformtest.Named(c.Options.CloudProvider).ForComplete(), Facts: in.Facts, Channel: in.Channel, KopsVersion: in.KopsVersion})
		if err := wrong.Err(); err != nil {
			t.Fatal(err)
		}
		in.Cluster, in.Groups = cluster, groups
	} else {
		in.Cluster, in.Groups = spectest.Read(t, goldentest.Read(t, "testdata/update_cluster/"+c.Base, "in-v1alpha2.yaml"))
	}
	in.Cluster = spectest.Assign(t, in.Cluster, c.Cluster)
	for i, g := range in.Groups {
		in.Groups[i] = spectest.Assign(t, g, c.Groups[g.Name])
	}
	in.Platform = platformtest.Of(in.Cluster).ForComplete()
	return in
}

func compare(t *testing.T, name string, want map[string]any, o api.Object) {
	t.Helper()
	var doc any
	if err := yamlv3.Unmarshal(encode(t, o), &doc); err != nil {
		t.Fatal(err)
	}
	for path, w := range want {
		if d := cmp.Diff(generic(t, w), spectest.ValueAt(doc, path)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, path, d)
		}
	}
}

func TestProvenanceTellsRuleAndReason(t *testing.T) {
	cluster, groups := spectest.Read(t, goldentest.Read(t, "testdata/update_cluster/minimal-aws", "in-v1alpha2.yaml"))
	done, _ := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t)})
	for path, want := range map[string]complete.Origin{
		"spec.kubeDNS.serverIP":         {Rule: "dns-addon", Why: "how kops runs CoreDNS"},
		"spec.networking.podCIDR":       {Rule: "pod-cidr", Why: "the upper half of nonMasqueradeCIDR"},
		"spec.api.dns":                  {Rule: "api-access", Why: "a load balancer for private control planes, DNS for public ones"},
		"spec.dnsZone":                  {Rule: "dns-zone", Why: "the zone that matches the longest suffix of the cluster's name"},
		"spec.kubernetesVersion":        {Rule: "version-form", Why: "versions are stored without a leading v"},
		"spec.etcdClusters[0].version":  {Rule: "etcd-version", Why: "depends on the Kubernetes version"},
		"spec.kubelet.evictionHard":     {Rule: "kubelet", Why: "how kops runs the kubelet"},
		"spec.networking.networkCIDR":   {},
		"spec.networking.subnets[0].id": {},
	} {
		if got := done.Provenance.Cluster[path]; got != want {
			t.Errorf("%s is by %+v, want %+v", path, got, want)
		}
	}
	nodes := done.Provenance.Groups["nodes"]
	if got := nodes["spec.kubelet.nodeLabels[node-role.kubernetes.io/node]"].Rule; got != "node-labels" {
		t.Errorf("the role's label is by %q", got)
	}
	if _, ok := nodes["spec.machineType"]; ok {
		t.Error("the machine type is the user's")
	}
}

func TestProvenanceOfAmountsThatFitTheUsers(t *testing.T) {
	in := ruleInput(t, ruleCase{Base: "minimal-aws", Cluster: []string{`spec.kubeDNS={memoryRequest: 256Mi, cpuRequest: "0"}`, "spec.kubeProxy.cpuLimit=1m"}})
	done, _ := complete.Complete(in)
	for path, want := range map[string]string{
		"spec.kubeDNS.memoryRequest": "",
		"spec.kubeDNS.memoryLimit":   "amounts",
		"spec.kubeDNS.cpuRequest":    "dns-addon",
		"spec.kubeProxy.cpuLimit":    "",
		"spec.kubeProxy.cpuRequest":  "amounts",
	} {
		if got := done.Provenance.Cluster[path].Rule; got != want {
			t.Errorf("%s is by %q, want %q", path, got, want)
		}
	}
}

func TestExplanationsAreInTheUsersWords(t *testing.T) {
	cluster, groups := spectest.Read(t, goldentest.Read(t, "testdata/update_cluster/minimal-warmpool", "in-v1alpha2.yaml"))
	for i := range 11 {
		cluster.Spec.SSHAccess = append(cluster.Spec.SSHAccess, fmt.Sprintf("10.%d.0.0/16", i))
	}
	done, _ := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t)})
	found := map[string]complete.Explanation{}
	var lists []string
	for _, e := range done.Explain() {
		found[e.Object+" "+e.Path] = e
		if strings.HasPrefix(e.Path, "spec.sshAccess[") {
			lists = append(lists, e.Path)
		}
	}
	if n := len(lists); n < 11 || lists[1] != "spec.sshAccess[1]" || lists[n-1] != fmt.Sprintf("spec.sshAccess[%d]", n-1) {
		t.Errorf("the list is explained as %v", lists)
	}
	const c, g = "Cluster/minimal-warmpool.example.com ", "InstanceGroup/master-us-test-1a "
	for at, want := range map[string][2]string{
		c + "spec.networkCIDR":                         {"172.20.0.0/16", "user"},
		c + "spec.podCIDR":                             {"100.96.0.0/11", "pod-cidr"},
		c + "spec.networking.cilium.disableMasquerade": {"false", "cilium-datapath"},
		c + "spec.masterKubelet.logLevel":              {"2", "kubelet"},
		c + "spec.masterKubelet.anonymousAuth":         {"false", "control-plane-kubelet"},
		c + "spec.warmPool.maxSize":                    {"1", "user"},
		g + "spec.role":                                {"Master", "user"},
		g + "spec.rootVolumeSize":                      {"64", "aws-root-volume"},
	} {
		if e := found[at]; e.Value != want[0] || e.Rule != want[1] {
			t.Errorf("%s is %q by %q, want %q", at, e.Value, e.Rule, want)
		}
	}
}

func TestFeatures(t *testing.T) {
	f := complete.ParseFeatures("+Azure, -ImageDigest,Metal,")
	for name, want := range map[string]bool{"Azure": true, "Metal": true, "ImageDigest": false, "TerraformManagedFiles": true, "Linode": false} {
		if f[name] != want {
			t.Errorf("%s is %v, want %v", name, f[name], want)
		}
	}
}

func TestWorkersKeepTheOlderRunningVersion(t *testing.T) {
	cluster, groups := spectest.Read(t, goldentest.Read(t, "testdata/update_cluster/minimal-aws", "in-v1alpha2.yaml"))
	for running, want := range map[string]string{"": "1.34.0", "v1.33.5": "1.33.5", "1.35.1": "1.34.0"} {
		done, _ := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t), RunningVersion: running})
		if done.NodeVersion != want {
			t.Errorf("with %q running, workers get %q, want %q", running, done.NodeVersion, want)
		}
	}
}
