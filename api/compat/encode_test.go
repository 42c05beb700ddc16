package compat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
)

// someObjects are built in Go, as in the rest of the program: without kind and version.
func someObjects() []api.Object {
	off := false
	return []api.Object{
		&api.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "a.example.com"},
			Spec: api.ClusterSpec{
				CloudProvider:      api.CloudProviderSpec{DO: &api.DOSpec{}},
				ConfigStore:        api.ConfigStoreSpec{Base: "s3://b/a.example.com"},
				IAM:                &api.IAMSpec{},
				AdditionalPolicies: map[string]string{"control-plane": "[]"},
				Hooks:              []api.HookSpec{{Name: "h", Enabled: &off, Roles: []api.InstanceGroupRole{api.RoleControlPlane}}},
				Networking: api.NetworkingSpec{
					TagSubnets: &off,
					Topology:   &api.TopologySpec{DNS: api.DNSNone},
					Cilium:     &api.CiliumNetworkingSpec{Masquerade: &off},
				},
				Authentication: &api.AuthenticationSpec{OIDC: &api.OIDCAuthenticationSpec{
					GroupsClaims: []string{"a", "b"}, RequiredClaims: map[string]string{"k": "v", "e": ""},
				}},
			},
		},
		&api.InstanceGroup{
			ObjectMeta: metav1.ObjectMeta{Name: "cp"},
			Spec:       api.InstanceGroupSpec{Role: api.RoleControlPlane, Image: "yes", RootVolume: &api.InstanceRootVolumeSpec{}},
		},
		&api.Addons{Spec: api.AddonsSpec{Addons: []api.Addon{{Name: "a"}}}},
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"size": int64(1)}}},
	}
}

func TestEncodeWritesAsKopsDoes(t *testing.T) {
	want := `apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: a.example.com
spec:
  DisableSubnetTags: true
  additionalPolicies:
    master: '[]'
  cloudProvider: digitalocean
  configBase: s3://b/a.example.com
  hooks:
  - disabled: true
    name: h
    roles:
    - Master
  iam:
    legacy: false
  kubeAPIServer:
    oidcGroupsClaim: a,b
    oidcRequiredClaim:
    - e=
    - k=v
  networking:
    cilium:
      disableMasquerade: true
  topology:
    dns:
      type: None

---

apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata:
  name: cp
spec:
  image: "yes"
  role: Master

---

kind: Addons
spec:
  addons:
  - name: a

---

apiVersion: v1
data:
  size: 1
kind: ConfigMap
`
	if diff := cmp.Diff(want, string(mustEncode(t, api.V1Alpha2, someObjects()...))); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestEncodeNewVersion(t *testing.T) {
	want := `apiVersion: kops.k8s.io/v1alpha3
kind: InstanceGroup
metadata:
  name: cp
spec:
  image: "yes"
  role: ControlPlane
  rootVolume: {}
`
	if diff := cmp.Diff(want, string(mustEncode(t, api.V1Alpha3, someObjects()[1]))); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestEncodeJSON(t *testing.T) {
	none := string(mustEncodeJSON(t, api.V1Alpha2))
	one := string(mustEncodeJSON(t, api.V1Alpha2, someObjects()[3]))
	two := string(mustEncodeJSON(t, api.V1Alpha2, someObjects()[1:3]...))
	if none != "[]\n" {
		t.Errorf("no object is %q", none)
	}
	if want := "{\n  \"apiVersion\": \"v1\",\n  \"data\": {\n    \"size\": 1\n  },\n  \"kind\": \"ConfigMap\"\n}\n"; one != want {
		t.Errorf("one object is %s", one)
	}
	if !strings.HasPrefix(two, "[\n  {\n    \"apiVersion\": \"kops.k8s.io/v1alpha2\",") {
		t.Errorf("two objects are %s", two)
	}
}

func TestEncodeLeavesTheObjectAlone(t *testing.T) {
	objects := someObjects()
	mustEncode(t, api.V1Alpha2, objects...)
	if diff := cmp.Diff(someObjects(), objects); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	two := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	two.Spec.CloudProvider = api.CloudProviderSpec{AWS: &api.AWSSpec{}, GCE: &api.GCESpec{}}
	for _, c := range []struct{ version, want string }{
		{api.V1Alpha2, "write Cluster/a: spec.cloudProvider names several clouds, but v1alpha2 can name only one"},
		{"v1", `write Cluster/a: unknown version "v1"`},
	} {
		if _, err := Encode(c.version, two); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := Encode(api.V1Alpha3, two); err != nil {
		t.Error(err)
	}
}

// TestPoliciesOfBothNames keeps a policy for the old name in addition to one for the new:
// the user must decide which of the two applies.
func TestPoliciesOfBothNames(t *testing.T) {
	text := clusterHead + "  additionalPolicies:\n    control-plane: '[1]'\n    master: '[2]'\n"
	c, _, err := DecodeOne[*api.Cluster]([]byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"control-plane": "[1]", "master": "[2]"}, c.Spec.AdditionalPolicies); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}
