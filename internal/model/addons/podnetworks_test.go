package addons_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/spec/catalogue"
)

const calicoAddon, vpcAddon = "networking.projectcalico.org", "networking.amazon-vpc-routed-eni"

// withNetwork returns a change to another pod network, and then others.
func withNetwork(n api.NetworkingSpec, changes ...func(*api.ClusterSpec)) func(*api.ClusterSpec) {
	return func(s *api.ClusterSpec) {
		own := s.Networking
		s.Networking = n
		s.Networking.Subnets, s.Networking.NetworkCIDR, s.Networking.NonMasqueradeCIDR = own.Subnets, own.NetworkCIDR, own.NonMasqueradeCIDR
		for _, c := range changes {
			c(s)
		}
	}
}

// calico builds the add-ons of a cluster on AWS with Calico.
func calico(t *testing.T, c api.CalicoNetworkingSpec, changes ...func(*api.ClusterSpec)) *addons.Result {
	t.Helper()
	return build(t, cluster(t, withNetwork(api.NetworkingSpec{Calico: &c}, changes...)))
}

// ipv6 makes a cluster one whose pods have IPv6 addresses only.
func ipv6(s *api.ClusterSpec) {
	s.Networking.NonMasqueradeCIDR = "::/0"
	s.API.LoadBalancer = &api.LoadBalancerAccessSpec{Type: api.LoadBalancerPublic, Class: api.LoadBalancerNetwork}
	for i := range s.Networking.Subnets {
		s.Networking.Subnets[i].IPv6CIDR = fmt.Sprintf("2001:db8:0:%d::/64", i+1)
	}
}

// values returns the environment of a container, without what the cluster fills in.
func values(pod corev1.PodSpec) map[string]string {
	out := map[string]string{}
	for _, e := range pod.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

func TestCalicoOnIPv6UsesTheRangeOfTheNode(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		var changes []func(*api.ClusterSpec)
		if v6 {
			changes = append(changes, ipv6)
		}
		r := calico(t, api.CalicoNetworkingSpec{TyphaReplicas: 1, IPv6AutoDetectionMethod: "interface=eth0"}, changes...)
		pod := object[appsv1.DaemonSet](t, r, calicoAddon, "DaemonSet", "calico-node").Spec.Template.Spec
		got := values(pod)
		want := map[string]string{"IP": "autodetect", "IP6": "none", "IP6_AUTODETECTION_METHOD": "none", "CALICO_IPV4POOL_CIDR": "100.96.0.0/11", "FELIX_AWSSRCDSTCHECK": "Disable",
			"FELIX_IPV6SUPPORT": "false", "USE_POD_CIDR": "", "NO_DEFAULT_POOLS": "", "CALICO_ROUTER_ID": ""}
		ipam, inits := "calico-ipam", "upgrade-ipam install-cni ebpf-bootstrap"
		if v6 {
			want = map[string]string{"IP": "none", "IP6": "autodetect", "IP6_AUTODETECTION_METHOD": "interface=eth0", "CALICO_IPV4POOL_CIDR": "", "FELIX_AWSSRCDSTCHECK": "DoNothing",
				"FELIX_IPV6SUPPORT": "true", "USE_POD_CIDR": "true", "NO_DEFAULT_POOLS": "true", "CALICO_ROUTER_ID": "hash", "IP_AUTODETECTION_METHOD": "none", "CALICO_IPV4POOL_IPIP": "Never"}
			ipam, inits = "usePodCidrIPv6", "install-cni ebpf-bootstrap"
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("IPv6 %v: %s is %q, not %q", v6, name, got[name], value)
			}
		}
		var names []string
		for _, c := range pod.InitContainers {
			names = append(names, c.Name)
		}
		if s := strings.Join(names, " "); s != inits {
			t.Errorf("IPv6 %v: before the agent run %s", v6, s)
		}
		if c := object[corev1.ConfigMap](t, r, calicoAddon, "ConfigMap", "calico-config"); !strings.Contains(c.Data["cni_network_config"], ipam) {
			t.Errorf("IPv6 %v: addresses come from %s", v6, c.Data["cni_network_config"])
		}
		typha := values(object[appsv1.Deployment](t, r, calicoAddon, "Deployment", "calico-typha").Spec.Template.Spec)
		if (typha["USE_POD_CIDR"] == "true") != v6 {
			t.Errorf("IPv6 %v: Typha has USE_POD_CIDR %q", v6, typha["USE_POD_CIDR"])
		}
	}
}

// Only pods on the machines' network know the names in the machines' /etc/hosts.
func TestCalicoReachesTheAPIServer(t *testing.T) {
	for _, dns := range []api.DNSType{api.DNSNone, api.DNSPublic} {
		for _, bpf := range []bool{false, true} {
			r := calico(t, api.CalicoNetworkingSpec{TyphaReplicas: 1, BPFEnabled: bpf}, func(s *api.ClusterSpec) {
				s.Networking.Topology = &api.TopologySpec{DNS: dns}
				s.KubeProxy = &api.KubeProxyConfig{Enabled: ptr(!bpf)}
			})
			named := strings.Contains(string(fileOf(t, r, calicoAddon).Content), "KUBERNETES_SERVICE_HOST")
			if named != bpf {
				t.Errorf("DNS %s, eBPF %v: the API server is named: %v", dns, bpf, named)
			}
			if bpf {
				c := object[corev1.ConfigMap](t, r, calicoAddon, "ConfigMap", "kubernetes-services-endpoint")
				if got := c.Data["KUBERNETES_SERVICE_HOST"] + ":" + c.Data["KUBERNETES_SERVICE_PORT"]; got != "api.internal.minimal.example.com:443" {
					t.Errorf("the API server is at %s", got)
				}
			}
			pods := map[string]corev1.PodSpec{
				"calico-kube-controllers": object[appsv1.Deployment](t, r, calicoAddon, "Deployment", "calico-kube-controllers").Spec.Template.Spec,
				"calico-typha":            object[appsv1.Deployment](t, r, calicoAddon, "Deployment", "calico-typha").Spec.Template.Spec,
				"calico-node":             object[appsv1.DaemonSet](t, r, calicoAddon, "DaemonSet", "calico-node").Spec.Template.Spec,
			}
			for name, pod := range pods {
				for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
					uses := len(c.EnvFrom) > 0
					if want := pod.HostNetwork && c.Name != "ebpf-bootstrap"; uses != want {
						t.Errorf("%s/%s: on the machine's network: %v, takes the address from the ConfigMap: %v", name, c.Name, pod.HostNetwork, uses)
					}
				}
			}
		}
	}
}

func TestCalicoOnGCEHasNoSourceCheckToSet(t *testing.T) {
	r := build(t, onGCE(t, withNetwork(api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{}})))
	got := values(object[appsv1.DaemonSet](t, r, calicoAddon, "DaemonSet", "calico-node").Spec.Template.Spec)
	if got["FELIX_AWSSRCDSTCHECK"] != "DoNothing" || got["CALICO_IPV4POOL_IPIP"] != "CrossSubnet" {
		t.Errorf("on GCE: %v", got)
	}
}

func TestImagesOfPodNetworksComeFromTheMirror(t *testing.T) {
	mirror := func(s *api.ClusterSpec) { s.Assets = &api.AssetsSpec{ContainerRegistry: ptr("mirror.example.com")} }
	for name, in := range map[string]struct {
		addon   string
		network api.NetworkingSpec
		want    string
	}{
		"calico": {calicoAddon, api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{}}, "mirror.example.com/docker.io-calico-node:v3.31.6"},
		"calico with a registry": {calicoAddon, api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{Registry: "my.reg/a", TyphaReplicas: 1}},
			"mirror.example.com/my.reg-a-calico-typha:v3.31.6"},
		"vpc": {vpcAddon, api.NetworkingSpec{AmazonVPC: &api.AmazonVPCNetworkingSpec{}}, "mirror.example.com/602401143452.dkr.ecr.us-west-2.amazonaws.com-amazon-k8s-cni-init:v1.23.0"},
	} {
		text := string(fileOf(t, build(t, cluster(t, withNetwork(in.network, mirror))), in.addon).Content)
		if !strings.Contains(text, in.want) {
			t.Errorf("%s: no %s", name, in.want)
		}
		for line := range strings.Lines(text) {
			if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok && !strings.HasPrefix(image, "mirror.example.com/") {
				t.Errorf("%s: it pulls %s", name, image)
			}
		}
	}
}

// A server rejects a definition if some value has no type.
func TestEveryValueOfADefinitionHasAType(t *testing.T) {
	var typed func(path string, schema map[string]any)
	typed = func(path string, schema map[string]any) {
		kind, _ := schema["type"].(string)
		properties, _ := schema["properties"].(map[string]any)
		if kind == "" && schema["x-kubernetes-int-or-string"] != true && schema["x-kubernetes-preserve-unknown-fields"] != true || properties != nil && kind != "object" {
			t.Errorf("%s: the type is %q", path, kind)
		}
		if (schema["items"] != nil) != (kind == "array") {
			t.Errorf("%s: an array without items, or items outside of an array", path)
		}
		required, _ := schema["required"].([]any)
		for _, r := range required {
			if properties[fmt.Sprint(r)] == nil {
				t.Errorf("%s: %v is required but not defined", path, r)
			}
		}
		for name, p := range properties {
			typed(path+"."+name, p.(map[string]any))
		}
		for _, below := range []string{"items", "additionalProperties"} {
			if s, ok := schema[below].(map[string]any); ok {
				typed(path+"."+below, s)
			}
		}
	}
	for _, a := range (*catalogue.Catalogue)(nil).Or().Addons() {
		objects, err := addons.Decode(a.Definitions)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			name := fmt.Sprint(o["metadata"].(map[string]any)["name"])
			for _, v := range o["spec"].(map[string]any)["versions"].([]any) {
				typed(name, v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any))
			}
		}
	}
}
