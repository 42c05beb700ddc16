package complete

import (
	"slices"
	"strings"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/spec/fill"
)

func setAPIServer(p *Pass) {
	c := fill.Ensure(&p.Spec.KubeAPIServer)
	fill.Value(&c.Image, p.componentImage("kube-apiserver"))
	fill.Value(&c.LogLevel, 2)
	fill.Value(&c.SecurePort, ports.API)
	bind := "0.0.0.0"
	if p.IPv6() {
		bind = "::"
	}
	fill.Value(&c.BindAddress, bind)
	fill.Ptr(&c.AllowPrivileged, true)
	fill.Ptr(&c.AnonymousAuth, false)
	fill.List(&c.KubeletPreferredAddressTypes, "InternalIP", "Hostname", "ExternalIP")
	fill.List(&c.RequestheaderAllowedNames, "aggregator")
	fill.List(&c.RequestheaderExtraHeaderPrefixes, "X-Remote-Extra-")
	fill.List(&c.RequestheaderGroupHeaders, "X-Remote-Group")
	fill.List(&c.RequestheaderUsernameHeaders, "X-Remote-User")
	fill.List(&c.APIAudiences, "kubernetes.svc.default")
	fill.Value(&c.ServiceClusterIPRange, p.Spec.Networking.ServiceClusterIPRange)
	if p.OlderThan(33) {
		fill.Value(&c.CloudProvider, p.componentCloud())
	}
	if p.Spec.MetricsServer != nil && isTrue(p.Spec.MetricsServer.Enabled) {
		fill.Ptr(&c.EnableAggregatorRouting, true)
	}
}

// componentCloud returns the value with which Kubernetes' own programs leave the cloud to external
// controllers; "" if there are none.
func (p *Pass) componentCloud() string {
	if p.platform.Machines.NoCloud {
		return ""
	}
	return "external"
}

func setAPIServerAuth(p *Pass) {
	c := p.Spec.KubeAPIServer
	switch a := p.Spec.Authorization; {
	case a.AlwaysAllow != nil:
		fill.Ptr(&c.AuthorizationMode, "AlwaysAllow")
	case a.RBAC != nil:
		fill.Ptr(&c.AuthorizationMode, "Node,RBAC")
	}
	if a := p.Spec.Authentication; a != nil && a.Kopeio != nil {
		fill.Ptr(&c.AuthenticationTokenWebhookConfigFile, "/etc/kubernetes/authn.config")
	}
}

func setAPIServerEtcd(p *Pass) {
	c := p.Spec.KubeAPIServer
	for _, e := range p.Spec.EtcdClusters {
		if e.Name == "main" {
			fill.Ptr(&c.APIServerCount, int32(len(e.EtcdMembers)))
			major, _, _ := strings.Cut(e.Version, ".")
			fill.Ptr(&c.StorageBackend, "etcd"+major)
		}
	}
	fill.List(&c.EtcdServers, "https://127.0.0.1:4001")
	if len(c.EtcdServersOverrides) > 0 {
		return
	}
	scheme := "https"
	if p.input.Features["EtcdEventsHTTP"] {
		scheme = "http"
	}
	if p.hasEtcd("events") {
		c.EtcdServersOverrides = []string{"/events#" + scheme + "://127.0.0.1:4002"}
	}
	if p.hasEtcd("leases") {
		c.EtcdServersOverrides = append(c.EtcdServersOverrides, "coordination.k8s.io/leases#https://127.0.0.1:4004")
	}
}

func setAdmission(p *Pass) {
	c := p.Spec.KubeAPIServer
	fill.List(&c.EnableAdmissionPlugins,
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
