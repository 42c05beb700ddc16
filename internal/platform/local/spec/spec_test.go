package spec_test

import (
	"maps"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/validate"
)

// Each pod network that does not work on this host is rejected once, with the advice that applies
// here.
func TestPodNetworks(t *testing.T) {
	for name, n := range map[string]api.NetworkingSpec{
		"amazonvpc": {AmazonVPC: &api.AmazonVPCNetworkingSpec{}}, "gce": {GCP: &api.GCPNetworkingSpec{}},
		"calico": {Calico: &api.CalicoNetworkingSpec{}}, "canal": {Canal: &api.CanalNetworkingSpec{}},
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
			want = "spec.networking." + name + " choose kubenet, cilium, flannel or kube-router, or cni and install a network yourself"
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestServicesHaveAProxy: where another network replaced kube-proxy before, it must be turned on.
func TestServicesHaveAProxy(t *testing.T) {
	for name, n := range map[string]api.NetworkingSpec{
		"kubenet": {Kubenet: &api.KubenetNetworkingSpec{}}, "flannel": {Flannel: &api.FlannelNetworkingSpec{Backend: "vxlan"}},
		"kuberouter": {KubeRouter: &api.KuberouterNetworkingSpec{}}, "cilium": {Cilium: &api.CiliumNetworkingSpec{}},
		"": {CNI: &api.CNINetworkingSpec{}},
	} {
		c := &api.Cluster{}
		c.Name, c.Spec.CloudProvider.Local, c.Spec.Networking = "a.example.com", &api.LocalSpec{}, n
		c.Spec.KubeProxy = &api.KubeProxyConfig{Enabled: new(bool)}
		p := spec.Platform()
		refused := false
		for _, f := range validate.All(validate.Input{Platform: p.ForValidate(), Cluster: c}) {
			refused = refused || f.Path == "spec.kubeProxy.enabled" && !f.Warning
		}
		if refused != (name != "") {
			t.Errorf("%s without kube-proxy: refused is %t", name, refused)
		}
	}
}

// TestCilium: routes without a tunnel are visible in the completed spec, and a user's own setting is kept.
func TestCilium(t *testing.T) {
	for _, c := range []struct {
		cilium api.CiliumNetworkingSpec
		want   map[string]string
		direct bool
	}{
		{},
		{cilium: api.CiliumNetworkingSpec{Tunnel: "disabled"}, want: map[string]string{"ipv4-native-routing-cidr": "100.96.0.0/11"}, direct: true},
		{cilium: api.CiliumNetworkingSpec{Tunnel: "disabled", ExtraConfig: map[string]string{"ipv4-native-routing-cidr": "10.0.0.0/8", "debug": "true"}},
			want: map[string]string{"ipv4-native-routing-cidr": "10.0.0.0/8", "debug": "true"}, direct: true},
	} {
		cluster := &api.Cluster{}
		cluster.Name = "a.k8s.local"
		cluster.Spec.CloudProvider.Local = &api.LocalSpec{}
		cluster.Spec.KubernetesVersion, cluster.Spec.ConfigStore.Base = "1.36.3", "file:///state/a.k8s.local"
		cluster.Spec.Networking.Cilium = &c.cilium
		p := spec.Platform()
		done, _ := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: cluster, ConfigBase: "file:///state"})
		got := done.Spec.Spec.Networking.Cilium
		if !maps.Equal(got.ExtraConfig, c.want) || got.AutoDirectNodeRoutes != c.direct {
			t.Errorf("got %v, direct routes %t; want %v, %t", got.ExtraConfig, got.AutoDirectNodeRoutes, c.want, c.direct)
		}
	}
}
