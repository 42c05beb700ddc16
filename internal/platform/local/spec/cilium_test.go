package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
)

// TestWhatMachinesOfThisHostCannotDo: settings of Cilium that would leave a cluster without a network
// are rejected, with a way out; what the kernel has is accepted.
func TestWhatMachinesOfThisHostCannotDo(t *testing.T) {
	all := spec.Features()
	yes, size := new(true), func(n int32) *api.InstanceRootVolumeSpec { return &api.InstanceRootVolumeSpec{Size: &n} }
	for _, c := range []struct {
		name    string
		cilium  *api.CiliumNetworkingSpec
		missing []string
		disk    *api.InstanceRootVolumeSpec
		want    string
	}{
		{name: "the defaults", cilium: &api.CiliumNetworkingSpec{}, missing: all},
		{"GENEVE that the kernel has", &api.CiliumNetworkingSpec{Tunnel: "geneve"}, []string{spec.ESP, spec.WireGuard}, nil, ""},
		{"GENEVE that it does not have", &api.CiliumNetworkingSpec{Tunnel: "geneve"}, []string{spec.Geneve}, nil, "spec.networking.cilium.tunnel"},
		{"GENEVE by Cilium's own key", &api.CiliumNetworkingSpec{ExtraConfig: map[string]string{"tunnel-protocol": "geneve"}}, all, nil, "spec.networking.cilium.extraConfig[tunnel-protocol]"},
		{"WireGuard", &api.CiliumNetworkingSpec{EnableEncryption: true, EncryptionType: "wireguard"}, []string{spec.WireGuard}, nil, "spec.networking.cilium.encryptionType"},
		{"WireGuard that the kernel has", &api.CiliumNetworkingSpec{EnableEncryption: true, EncryptionType: "wireguard"}, []string{spec.ESP}, nil, ""},
		{"IPsec, the default", &api.CiliumNetworkingSpec{EnableEncryption: true}, all, nil, "spec.networking.cilium.enableEncryption"},
		{"IPsec", &api.CiliumNetworkingSpec{EnableEncryption: true, EncryptionType: "ipsec"}, all, nil, "spec.networking.cilium.enableEncryption"},
		{"Ingress", &api.CiliumNetworkingSpec{Ingress: &api.CiliumIngressSpec{Enabled: yes}}, nil, nil, "spec.networking.cilium.ingress.enabled"},
		{"the Gateway API", &api.CiliumNetworkingSpec{GatewayAPI: &api.CiliumGatewayAPISpec{Enabled: yes}}, nil, nil, "spec.networking.cilium.gatewayAPI.enabled"},
		{"WireGuard by Cilium's own key", &api.CiliumNetworkingSpec{ExtraConfig: map[string]string{"enable-wireguard": "true"}}, all, nil, "spec.networking.cilium.extraConfig[enable-wireguard]"},
		{"IPsec by Cilium's own key", &api.CiliumNetworkingSpec{ExtraConfig: map[string]string{"enable-ipsec": "true"}}, all, nil, "spec.networking.cilium.extraConfig[enable-ipsec]"},
		{"encryption that Cilium's own key turns off", &api.CiliumNetworkingSpec{EnableEncryption: true, ExtraConfig: map[string]string{"enable-ipsec": "false"}}, all, nil, ""},
		{"Envoy by Cilium's own key", &api.CiliumNetworkingSpec{ExtraConfig: map[string]string{"enable-envoy-config": "true"}}, nil, nil, "spec.networking.cilium.extraConfig[enable-envoy-config]"},
		{"a small disk", &api.CiliumNetworkingSpec{}, nil, size(3), "spec.rootVolumeSize"},
		{"a disk that suffices", &api.CiliumNetworkingSpec{}, nil, size(4), ""},
		{"a small disk without Cilium", nil, nil, size(2), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &api.Cluster{}
			cluster.Name, cluster.Spec.CloudProvider.Local, cluster.Spec.Networking.Cilium = "a.k8s.local", &api.LocalSpec{}, c.cilium
			g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleNode, RootVolume: c.disk}}
			own, err := json.Marshal(spec.Facts{Missing: c.missing})
			if err != nil {
				t.Fatal(err)
			}
			p := spec.Platform()
			var got []string
			for _, f := range validate.All(validate.Input{Platform: p.ForValidate(), Cluster: cluster, Groups: []*api.InstanceGroup{g},
				Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{string(api.CloudLocal): {Own: own}}}}) {
				if strings.Contains(f.Path, "cilium") || strings.Contains(f.Path, "rootVolume") {
					if got = append(got, f.Path); f.Remedy == "" {
						t.Errorf("%s has no remedy", f.Path)
					}
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %q", got, c.want)
			}
		})
	}
}
