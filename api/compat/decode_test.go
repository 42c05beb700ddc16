package compat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

// texts returns findings as lines.
func texts(findings diag.List) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}

func TestFieldsWithoutEffectAreDroppedWithAWarning(t *testing.T) {
	text := clusterHead + `  masterInternalName: api.internal.a.example.com
  containerRuntime: containerd
  topology:
    masters: private
    nodes: public
  iam:
    legacy: false
  networking:
    calico:
      crossSubnet: true
`
	objects, warnings, err := Decode([]byte(text), Options{File: "f"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`f:7: Cluster/a.example.com: spec.masterInternalName: no longer has an effect and is dropped, got "api.internal.a.example.com"`,
		`f:16: Cluster/a.example.com: spec.networking.calico.crossSubnet: no longer has an effect and is dropped, got "true"; set ipipMode: CrossSubnet`,
	}
	if diff := cmp.Diff(want, texts(warnings)); diff != "" {
		t.Errorf("warnings: got (+), want (-):\n%s", diff)
	}
	_, _, err = Decode([]byte(text), Options{File: "f", Exact: true})
	if refused := strings.ReplaceAll(strings.Join(want, "\n"), " and is dropped", ""); err == nil || err.Error() != refused {
		t.Errorf("exactly: got %v, want %s", err, refused)
	}
	written := string(mustEncode(t, api.V1Alpha2, objects...))
	for _, gone := range []string{"masterInternalName", "containerRuntime", "masters", "crossSubnet"} {
		if strings.Contains(written, gone) {
			t.Errorf("%s is written:\n%s", gone, written)
		}
	}
}

func TestAStateOfAnotherVersionIsReadLeniently(t *testing.T) {
	text := clusterHead + `  addedIn2030: true
  docker:
    version: 19.03.0
  project: p
  channel: alpha
  channel: stable
`
	_, _, err := Decode([]byte(text), Options{})
	if err == nil {
		t.Fatal("the strict reading accepts it")
	}
	cluster, warnings, err := DecodeOne[*api.Cluster]([]byte(text), Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`line:7: Cluster/a.example.com: spec.addedIn2030: unknown field`,
		`line:8: Cluster/a.example.com: spec.docker: is no longer supported; remove it; the runtime is containerd, see spec.containerd`,
		`line:10: Cluster/a.example.com: spec.project: is for cloudProvider gce only, and the cluster is on aws, so it has no effect and is dropped; remove it`,
		`line:12: Cluster/a.example.com: spec.channel: is given twice, first on line 11; keep one of the two`,
	}
	if diff := cmp.Diff(want, texts(warnings)); diff != "" {
		t.Errorf("warnings: got (+), want (-):\n%s", diff)
	}
	if cluster.Spec.Channel != "stable" {
		t.Errorf("the last of two values must count, got %q", cluster.Spec.Channel)
	}
	if _, _, err := Decode([]byte(clusterHead+"  sshAccess: all\n"), Options{Lenient: true}); err == nil {
		t.Error("a value of the wrong type is accepted")
	}
}

// TestFieldsOfOtherCloudsAreDropped reads fields that kOps accepts and ignores. Only an
// edit refuses them: there they would disappear before the user's eyes.
func TestFieldsOfOtherCloudsAreDropped(t *testing.T) {
	const none = "apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nmetadata:\n  name: a.example.com\nspec:\n"
	for _, c := range []struct{ text, want string }{
		{clusterHead + "  project: p\n", "line:7: Cluster/a.example.com: spec.project: is for cloudProvider gce only, and the cluster is on aws, so it has no effect and is dropped; remove it"},
		{clusterHead + "  cloudConfig:\n    openstack:\n      insecureSkipVerify: true\n",
			"line:9: Cluster/a.example.com: spec.cloudConfig.openstack.insecureSkipVerify: is for cloudProvider openstack only, and the cluster is on aws, so it has no effect and is dropped; remove it"},
		{none + "  warmPool: {}\n", "line:6: Cluster/a.example.com: spec.warmPool: is for cloudProvider aws only, and none of them is set, so it has no effect and is dropped; remove it"},
	} {
		_, warnings, err := Decode([]byte(c.text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c.want}, texts(warnings)); diff != "" {
			t.Errorf("warnings: got (+), want (-):\n%s", diff)
		}
		if _, _, err := Decode([]byte(c.text), Options{Exact: true}); err == nil {
			t.Errorf("an edit loses the field of %q", c.text)
		}
	}
}

func TestDefaultsOfReading(t *testing.T) {
	for _, c := range []struct{ name, text, dns, flannel, authorization string }{
		{"nothing said", "", "Public", "", "rbac"},
		{"all said", "  topology:\n    dns:\n      type: None\n  authorization:\n    alwaysAllow: {}\n  networking:\n    flannel:\n      backend: vxlan\n", "None", "vxlan", "alwaysAllow"},
		{"empty blocks", "  topology:\n    dns: {}\n  authorization: {}\n  networking:\n    flannel: {}\n", "Public", "udp", "rbac"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, _, err := DecodeOne[*api.Cluster]([]byte(clusterHead+c.text), Options{})
			if err != nil {
				t.Fatal(err)
			}
			network := cluster.Spec.Networking
			if got := string(network.Topology.DNS); got != c.dns {
				t.Errorf("DNS is %q, not %q", got, c.dns)
			}
			if f := network.Flannel; f != nil && f.Backend != c.flannel {
				t.Errorf("flannel's backend is %q, not %q", f.Backend, c.flannel)
			}
			if a := cluster.Spec.Authorization; (a.RBAC != nil) != (c.authorization == "rbac") || (a.AlwaysAllow != nil) != (c.authorization == "alwaysAllow") {
				t.Errorf("authorization is %+v, not %s", a, c.authorization)
			}
		})
	}
}

// TestFormsOfAFile reads the objects of files in every form that a file may have.
func TestFormsOfAFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"comments and empty documents", "# none\n---\n---\n# none\n", nil},
		{"documents", clusterHead + "---\n" + groupHead, []string{"Cluster/a.example.com", "InstanceGroup/nodes"}},
		{"carriage returns", strings.ReplaceAll(groupHead, "\n", "\r\n"), []string{"InstanceGroup/nodes"}},
		{"old group", "apiVersion: kops/v1alpha2\nkind: Cluster\nmetadata: {name: a}\n", []string{"Cluster/a"}},
		{"both versions", clusterHead + "---\n" + newHead + "  cloudProvider: {aws: {}}\n", []string{"Cluster/a.example.com", "Cluster/a.example.com"}},
		{"list of our own", "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroupList\nitems:\n- {apiVersion: kops.k8s.io/v1alpha2, kind: InstanceGroup, metadata: {name: a}}\n- {apiVersion: kops.k8s.io/v1alpha2, kind: InstanceGroup, metadata: {name: b}}\n", []string{"InstanceGroup/a", "InstanceGroup/b"}},
		{"list of any kinds", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: kops/v1alpha2, kind: SSHCredential, metadata: {name: admin}, spec: {publicKey: k}}\n", []string{"ConfigMap/a", "SSHCredential/admin"}},
		{"empty list", "apiVersion: v1\nkind: List\nitems:\n", nil},
		{"JSON with tabs and surrogates", "{\n\t\"apiVersion\": \"kops.k8s.io/v1alpha2\",\n\t\"kind\": \"Host\",\n\t\"metadata\": {\"name\": \"\\ud83d\\ude00\\\\ud83d\"}}\n", []string{"Host/😀\\ud83d"}},
		{"array of JSON", "[\n\t{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"\\ud83d\\ude00\"}},\n\t{\"apiVersion\": \"kops.k8s.io/v1alpha2\", \"kind\": \"Host\", \"metadata\": {\"name\": \"h\"}}\n]\n", []string{"ConfigMap/😀", "Host/h"}},
		{"kind of the same name in another group", "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\nspec: {any: thing}\n", []string{"Cluster/a"}},
		{"list of add-ons", "kind: Addons\nmetadata: {name: bootstrap}\nspec: {addons: [{name: a, needsPKI: true}]}\n", []string{"Addons/bootstrap"}},
		{"channel", "apiVersion: kops.k8s.io/v1alpha2\nkind: Channel\nspec: {cluster: {networking: {cilium: {}}}, kopsVersions: [{range: '>=1.36.0', kubernetesVersion: 1.36.3}]}\n", []string{"Channel/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, _, err := Decode([]byte(c.text), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, api.Name(o))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("got (+), want (-):\n%s", diff)
			}
		})
	}
}

func TestObjectsOfOtherGroupsComeBackAsWritten(t *testing.T) {
	text := "apiVersion: v1\ndata:\n  a: \"yes\"\n  b: 0.10\n  c: on\n  d: null\n  e:\n  - 1\n  - 9007199254740993\n  - 18446744073709551615\nkind: ConfigMap\nmetadata:\n  name: a\n"
	objects, _, err := Decode([]byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": "yes", "b": 0.1, "c": true, "d": nil, "e": []any{int64(1), int64(9007199254740993), 18446744073709551615.0}}
	if diff := cmp.Diff(want, objects[0].(*unstructured.Unstructured).Object["data"]); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	text := groupHead + `  nodeLabels: &labels
    a: "1"
    b: "2"
  cloudLabels:
    <<: *labels
    b: "3"
`
	g, _, err := DecodeOne[*api.InstanceGroup]([]byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "3"}, g.Spec.CloudLabels); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestDepthIsBounded(t *testing.T) {
	for depth, refused := range map[int]bool{80: false, 5000: true} {
		text := "apiVersion: v1\nkind: Deep\na: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n"
		_, _, err := Decode([]byte(text), Options{File: "f"})
		if got := err != nil && strings.Count(err.Error(), "is more than 100 lists and maps deep") == 1; got != refused {
			t.Errorf("%d deep: %.200v", depth, err)
		}
	}
}

// TestManyDuplicatesAreReadAtOnce would take minutes if each key were compared with all earlier ones.
func TestManyDuplicatesAreReadAtOnce(t *testing.T) {
	r := reader{lenient: true}
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	b.WriteString(strings.Repeat("k0: 2\n", 100_000) + "k0: last\n")
	docs := r.documents([]byte(b.String()))
	keys := docs[0].keys
	if last := keys[len(keys)-1]; len(keys) != 100_000 || last.key != "k0" || last.value.text != "last" || keys[0].key != "k1" {
		t.Errorf("%d keys, the last is %s", len(keys), last.key)
	}
}

func TestAliasesOfAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Bomb\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9)+fmt.Sprintf("*a%d", i))
	}
	_, _, err := Decode([]byte(b.String()), Options{File: "f"})
	if err == nil || !strings.Contains(err.Error(), "file holds more than 250000 values") {
		t.Errorf("got %v", err)
	}
}

func TestDecodeOneWantsOneObjectOfItsKind(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"none", "", "f: must hold one Cluster, holds nothing"},
		{"another kind", groupHead, "f: must hold one Cluster, holds InstanceGroup/nodes"},
		{"two", clusterHead + "---\n" + groupHead, "f: must hold one Cluster, holds Cluster/a.example.com and 1 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := DecodeOne[*api.Cluster]([]byte(c.text), Options{File: "f"})
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
