package spec_test

import (
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/spec/validate"
)

// Each pod network that does not work on this host is rejected once, with the advice that applies
// here.
func TestPodNetworks(t *testing.T) {
	for name, n := range map[string]api.NetworkingSpec{
		"amazonvpc": {AmazonVPC: &api.AmazonVPCNetworkingSpec{}}, "gce": {GCP: &api.GCPNetworkingSpec{}},
		"cilium": {Cilium: &api.CiliumNetworkingSpec{}}, "canal": {Canal: &api.CanalNetworkingSpec{}},
		"": {Kubenet: &api.KubenetNetworkingSpec{}},
	} {
		c := &api.Cluster{}
		c.Name, c.Spec.CloudProvider.Local, c.Spec.Networking = "a.example.com", &api.LocalSpec{}, n
		p := spec.Platform()
		var got []string
		for _, f := range validate.All(validate.Input{Platform: p.ForValidate(), Cluster: c}) {
			if strings.HasPrefix(f.Path, "spec.networking.") {
				got = append(got, f.Path+" "+f.Remedy)
			}
		}
		want := ""
		if name != "" {
			want = "spec.networking." + name + " choose kubenet, or cni and install a network yourself"
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
