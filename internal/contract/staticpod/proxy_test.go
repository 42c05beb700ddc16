package staticpod_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/staticpod"
)

func TestProxyEnvironment(t *testing.T) {
	if got := staticpod.ProxyEnvironment(&api.EgressProxySpec{}); got != nil {
		t.Errorf("without a host: %v", got)
	}
	p := &api.EgressProxySpec{HTTPProxy: api.HTTPProxy{Host: "proxy.example.com", Port: 3128}, Excludes: "10.0.0.0/8"}
	got := map[string]string{}
	for _, e := range staticpod.ProxyEnvironment(p) {
		got[e.Name] = e.Value
	}
	for name, want := range map[string]string{"http_proxy": "http://proxy.example.com:3128", "https_proxy": "http://proxy.example.com:3128", "NO_PROXY": "10.0.0.0/8", "no_proxy": "10.0.0.0/8"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
