package addons_test

import (
	"strings"
	"testing"

	"kops.local/kops/api"
)

// manifestOf returns the manifest of one add-on of a cluster with changes.
func manifestOf(t *testing.T, name string, change func(*api.ClusterSpec)) string {
	t.Helper()
	return string(fileOf(t, build(t, cluster(t, change)), name).Content)
}

func TestOptionsOfCiliumReachItsAgents(t *testing.T) {
	text := manifestOf(t, "networking.cilium.io", func(s *api.ClusterSpec) {
		s.Networking.Cilium = &api.CiliumNetworkingSpec{Registry: "registry.e.com:5000", EnableHostFirewall: ptr(true), DisableEndpointCRD: true,
			EnablePrometheusMetrics: true, Metrics: []string{"+a", "-b"}}
	})
	for _, want := range []string{`enable-host-firewall: "true"`, `disable-endpoint-crd: "true"`, "metrics: +a -b", "image: registry.e.com:5000/cilium/cilium:v1.", "image: registry.e.com:5000/cilium/operator:v1."} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "quay.io") {
		t.Error("an image comes from another registry")
	}
}

func TestGVisorHasItsRuntimeClass(t *testing.T) {
	in := cluster(t, func(*api.ClusterSpec) {})
	for _, g := range in.Groups {
		g.Spec.Containerd = &api.ContainerdConfig{GVisor: &api.GVisorConfig{Enabled: ptr(true)}}
	}
	text := string(fileOf(t, build(t, in), "gvisor.addons.k8s.io").Content)
	if !strings.Contains(text, "kind: RuntimeClass") || !strings.Contains(text, "handler: runsc") {
		t.Errorf("the manifest is\n%s", text)
	}
}
