package staticpod

import (
	"fmt"
	"strings"

	"kops.local/kops/api"
)

// ProxyURL returns the address of an egress proxy, or "" without one.
func ProxyURL(p *api.EgressProxySpec) string {
	if p == nil || p.HTTPProxy.Host == "" {
		return ""
	}
	url := p.HTTPProxy.Host
	if !strings.HasPrefix(url, "http://") {
		url = "http://" + url
	}
	if p.HTTPProxy.Port != 0 {
		url += fmt.Sprintf(":%d", p.HTTPProxy.Port)
	}
	return url
}

// ProxyEnvironment returns the variables that configure an egress proxy for a program; nil without
// one.
func ProxyEnvironment(p *api.EgressProxySpec) []api.ContainerEnvVar {
	url := ProxyURL(p)
	if url == "" {
		return nil
	}
	return []api.ContainerEnvVar{{Name: "http_proxy", Value: url}, {Name: "https_proxy", Value: url},
		{Name: "NO_PROXY", Value: p.Excludes}, {Name: "no_proxy", Value: p.Excludes}}
}
