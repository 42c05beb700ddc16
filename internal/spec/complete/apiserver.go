package complete

import (
	"slices"
	"strings"

	"kops.local/kops/api"
)

func setAPIServer(p *pass) {
	c := ensure(&p.spec.KubeAPIServer)
	fill(&c.Image, p.componentImage("kube-apiserver"))
	fill(&c.LogLevel, 2)
	fill(&c.SecurePort, 443)
	bind := "0.0.0.0"
	if p.ipv6() {
		bind = "::"
	}
	fill(&c.BindAddress, bind)
	fillPtr(&c.AllowPrivileged, true)
	fillPtr(&c.AnonymousAuth, false)
	fillList(&c.KubeletPreferredAddressTypes, "InternalIP", "Hostname", "ExternalIP")
	fillList(&c.RequestheaderAllowedNames, "aggregator")
	fillList(&c.RequestheaderExtraHeaderPrefixes, "X-Remote-Extra-")
	fillList(&c.RequestheaderGroupHeaders, "X-Remote-Group")
	fillList(&c.RequestheaderUsernameHeaders, "X-Remote-User")
	fillList(&c.APIAudiences, "kubernetes.svc.default")
	fill(&c.ServiceClusterIPRange, p.spec.Networking.ServiceClusterIPRange)
	if p.olderThan(33) {
		fill(&c.CloudProvider, p.componentCloud())
	}
	if p.spec.MetricsServer != nil && isTrue(p.spec.MetricsServer.Enabled) {
		fillPtr(&c.EnableAggregatorRouting, true)
	}
}

// componentCloud is how Kubernetes' own programs call the cloud: all clouds have
// controllers outside of them; bare metal and this host have none.
func (p *pass) componentCloud() string {
	if p.cloud == api.CloudMetal || p.cloud == api.CloudLocal {
		return ""
	}
	return "external"
}

func setAPIServerAuth(p *pass) {
	c := p.spec.KubeAPIServer
	switch a := p.spec.Authorization; {
	case a.AlwaysAllow != nil:
		fillPtr(&c.AuthorizationMode, "AlwaysAllow")
	case a.RBAC != nil:
		fillPtr(&c.AuthorizationMode, "Node,RBAC")
	}
	if a := p.spec.Authentication; a != nil && a.Kopeio != nil {
		fillPtr(&c.AuthenticationTokenWebhookConfigFile, "/etc/kubernetes/authn.config")
	}
}

func setAPIServerEtcd(p *pass) {
	c := p.spec.KubeAPIServer
	for _, e := range p.spec.EtcdClusters {
		if e.Name == "main" {
			fillPtr(&c.APIServerCount, int32(len(e.EtcdMembers)))
			major, _, _ := strings.Cut(e.Version, ".")
			fillPtr(&c.StorageBackend, "etcd"+major)
		}
	}
	fillList(&c.EtcdServers, "https://127.0.0.1:4001")
	if len(c.EtcdServersOverrides) > 0 {
		return
	}
	scheme := "https"
	if p.in.Features["EtcdEventsHTTP"] {
		scheme = "http"
	}
	if p.hasEtcd("events") {
		c.EtcdServersOverrides = []string{"/events#" + scheme + "://127.0.0.1:4002"}
	}
	if p.hasEtcd("leases") {
		c.EtcdServersOverrides = append(c.EtcdServersOverrides, "coordination.k8s.io/leases#https://127.0.0.1:4004")
	}
}

func setAdmission(p *pass) {
	c := p.spec.KubeAPIServer
	fillList(&c.EnableAdmissionPlugins,
		"DefaultStorageClass",
		"DefaultTolerationSeconds",
		"LimitRanger",
		"MutatingAdmissionWebhook",
		"NamespaceLifecycle",
		"NodeRestriction",
		"ResourceQuota",
		"RuntimeClass",
		"ServiceAccount",
		"ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook",
	)
	for _, plugin := range c.AppendAdmissionPlugins {
		if !slices.Contains(c.EnableAdmissionPlugins, plugin) {
			c.EnableAdmissionPlugins = append(c.EnableAdmissionPlugins, plugin)
		}
	}
}
