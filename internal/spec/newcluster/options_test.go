package newcluster_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/spectest"
)

// optionCase specifies the result of options.
type optionCase struct {
	Name     string             `json:"name"`
	Options  newcluster.Options `json:"options"`
	Features string             `json:"features,omitempty"`
	// Want are values of the cluster by path, null if unset; Group are values of its groups.
	Want  map[string]any            `json:"want,omitempty"`
	Group map[string]map[string]any `json:"group,omitempty"`
	// Groups are the names of all groups, in order.
	Groups []string `json:"groups,omitempty"`
	// Fail are the findings.
	Fail []string `json:"fail,omitempty"`
}

// between matches the platforms between the first and the last, whichever exist.
var between = regexp.MustCompile(`azure, .* or`)

func TestOptions(t *testing.T) {
	data, err := os.ReadFile("testdata/options.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []optionCase
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			w := world(t)
			w.Features = complete.ParseFeatures(c.Features)
			cluster, groups, findings := newcluster.New(c.Options, withPlatform(w, c.Options))
			var fail, names []string
			for _, f := range findings {
				fail = append(fail, between.ReplaceAllString(f.String(), "azure, … or"))
			}
			if d := gocmp.Diff(c.Fail, fail); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
			if findings.Err() != nil {
				return
			}
			for _, g := range groups {
				names = append(names, g.Name)
			}
			if d := gocmp.Diff(c.Groups, names); len(c.Groups) > 0 && d != "" {
				t.Errorf("groups (-want +got):\n%s", d)
			}
			compare(t, "cluster", c.Want, cluster)
			for name, want := range c.Group {
				i := slices.Index(names, name)
				if i < 0 {
					t.Fatalf("no group %s in %v", name, names)
				}
				compare(t, name, want, groups[i])
			}
		})
	}
}

func compare(t *testing.T, name string, want map[string]any, o api.Object) {
	t.Helper()
	data, err := compat.Encode(api.V1Alpha2, o)
	if err != nil {
		t.Fatal(err)
	}
	doc := generic(t, data)
	for path, w := range want {
		text, err := yaml.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if d := gocmp.Diff(generic(t, text), spectest.ValueAt(doc, path)); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, path, d)
		}
	}
}

func generic(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := yamlv3.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCloudsByTheirStores(t *testing.T) {
	var all []*traits.Traits
	for _, p := range providers.All(platform.World{}) {
		all = append(all, &p.Traits)
	}
	for _, c := range []struct {
		store, variable string
		want            api.CloudProviderID
	}{
		{"s3://b", "", api.CloudAWS}, {"s3://b", "HCLOUD_TOKEN", api.CloudHetzner}, {"s3://b", "LINODE_TOKEN", api.CloudLinode},
		{"gs://b", "", api.CloudGCE}, {"do://b", "", api.CloudDO}, {"hos://b", "", api.CloudHetzner}, {"scw://b", "", api.CloudScaleway},
		{"swift://b", "", api.CloudOpenstack}, {"azureblob://a/b", "", api.CloudAzure}, {"linode://b", "", api.CloudLinode}, {"file:///b", "", ""},
	} {
		if got := newcluster.PlatformOf(all, c.store, func(v string) bool { return v == c.variable }); got != c.want {
			t.Errorf("%s with %s is of %q, want %q", c.store, c.variable, got, c.want)
		}
	}
}

func TestNewGroups(t *testing.T) {
	w := world(t)
	cluster, _, findings := newcluster.New(newcluster.Options{ClusterName: "a.example.com", CloudProvider: "aws", Zones: []string{"us-test-1a", "us-test-1b"}, Topology: "private", ConfigBase: "s3://b/a.example.com"}, withPlatform(newcluster.World{Channel: w.Channel, KopsVersion: "1.37.0"}, newcluster.Options{CloudProvider: "aws"}))
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   newcluster.GroupOptions
		want map[string]any
		fail string
	}{
		{in: newcluster.GroupOptions{Name: "more"}, want: map[string]any{
			"spec.role": "Node", "spec.subnets": []string{"us-test-1a", "us-test-1b"}, "spec.minSize": 2, "spec.machineType": "t3.medium",
			"spec.image":      "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260714",
			"metadata.labels": map[string]string{"kops.k8s.io/cluster": "a.example.com"}, "spec.nodeLabels": map[string]string{"kops.k8s.io/instancegroup": "more"},
		}},
		{in: newcluster.GroupOptions{Name: "cp", Role: "control-plane", Subnets: []string{"us-test-1b"}}, want: map[string]any{
			"spec.role": "Master", "spec.subnets": []string{"us-test-1b"}, "spec.maxSize": 1,
		}},
		{in: newcluster.GroupOptions{Name: "b", Role: "Bastion"}, want: map[string]any{"spec.role": "Bastion", "spec.machineType": "t3.micro"}},
		{in: newcluster.GroupOptions{Name: "cp", Role: "master"}, fail: "option:Subnets: a control plane needs a subnet; specify it with option:Subnets"},
		{in: newcluster.GroupOptions{Name: "x", Role: "worker"}, fail: `option:Role: unknown role, got "worker"; use control-plane, node, bastion or apiserver`},
	} {
		g, findings := newcluster.NewGroup(c.in, cluster, withPlatform(newcluster.World{Channel: w.Channel}, newcluster.Options{CloudProvider: "aws"}))
		if got := findings.Error(); got != c.fail {
			t.Errorf("%+v: %q, want %q", c.in, got, c.fail)
		}
		if c.fail == "" {
			compare(t, c.in.Name, c.want, g)
		}
	}
}

func TestAChannelWithoutVersionsNeedsOne(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.k8s.local", CloudProvider: "hetzner", Zones: []string{"fsn1"}, Channel: "none"}
	const want = "option:KubernetesVersion: the channel none recommends no version for new clusters; write one such as 1.36.3"
	if _, _, findings := newcluster.New(o, withPlatform(newcluster.World{}, o)); findings.Error() != want {
		t.Errorf("without a version: %q, want %q", findings.Error(), want)
	}
	o.KubernetesVersion = "1.36.3"
	if _, _, findings := newcluster.New(o, withPlatform(newcluster.World{}, o)); findings.Err() != nil {
		t.Errorf("with a version: %v", findings)
	}
}
