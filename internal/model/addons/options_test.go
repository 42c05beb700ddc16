package addons_test

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
)

// manifestOf returns the manifest of one add-on of a cluster with changes.
func manifestOf(t *testing.T, name string, change func(*api.ClusterSpec)) string {
	t.Helper()
	for _, f := range build(t, cluster(t, change)).Files {
		if f.Name == name {
			return string(f.Content)
		}
	}
	t.Fatalf("there is no add-on %s", name)
	return ""
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
	r := build(t, in)
	i := slices.IndexFunc(r.Files, func(f addons.File) bool { return f.Name == "gvisor.addons.k8s.io" })
	if i < 0 || !strings.Contains(string(r.Files[i].Content), "kind: RuntimeClass") || !strings.Contains(string(r.Files[i].Content), "handler: runsc") {
		t.Errorf("files %v", r.Files)
	}
}
