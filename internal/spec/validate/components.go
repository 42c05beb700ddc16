package validate

import (
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/net"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

func apiServer(c *Check) {
	a := c.Spec.KubeAPIServer
	if a == nil {
		return
	}
	const p = "spec.kubeAPIServer."
	if a.AuthenticationConfigFile != "" && c.Spec.Authentication != nil && c.Spec.Authentication.OIDC != nil {
		c.Bad(p+"authenticationConfigFile", a.AuthenticationConfigFile, "cannot be combined with the oidc fields of spec.kubeAPIServer", "move these settings into the file")
	}
	if IsTrue(a.EnableBootstrapTokenAuth) {
		c.Bad(p+"enableBootstrapTokenAuth", "true", "is no longer supported", "remove it; machines join through kops-controller")
	}
	if len(a.AdmissionControl) > 0 {
		c.Bad(p+"admissionControl", strings.Join(a.AdmissionControl, ","), "is no longer supported", "use enableAdmissionPlugins")
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"appendAdmissionPlugins", a.AppendAdmissionPlugins}, {"enableAdmissionPlugins", a.EnableAdmissionPlugins}} {
		if i := slices.Index(l.list, "PodSecurityPolicy"); i >= 0 {
			c.Bad(At(p+l.name, i), "PodSecurityPolicy", "no longer exists in Kubernetes", "remove it; see Pod Security Admission")
			break // completion appends the first list to the second
		}
	}
	if (a.ProxyClientCertFile == nil) != (a.ProxyClientKeyFile == nil) {
		c.Bad(p+"proxyClientCertFile", text(a.ProxyClientCertFile), "must be set together with proxyClientKeyFile", "set both or neither")
	}
	if a.ServiceNodePortRange != "" {
		if _, err := net.ParsePortRange(a.ServiceNodePortRange); err != nil {
			c.Bad(p+"serviceNodePortRange", a.ServiceNodePortRange, "is not a port range", "write one such as 30000-32767")
		}
	}
	c.OneOf(p+"logFormat", a.LogFormat, "text", "json")
}

func authorization(c *Check) {
	if a := c.Spec.Authorization; a != nil && a.RBAC != nil && a.AlwaysAllow != nil {
		c.Bad("spec.authorization", "", "has both rbac and alwaysAllow", "remove one of them")
	}
}

func authorizationModes(c *Check) {
	a := c.Spec.KubeAPIServer
	if a == nil || text(a.AuthorizationMode) == "" {
		return
	}
	const p = "spec.kubeAPIServer.authorizationMode"
	modes := strings.Split(*a.AuthorizationMode, ",")
	for _, m := range modes {
		c.OneOf(p, m, "ABAC", "Webhook", "Node", "RBAC", "AlwaysAllow", "AlwaysDeny")
	}
	if slices.Contains(modes, "Webhook") && text(a.AuthorizationWebhookConfigFile) == "" {
		c.Required("spec.kubeAPIServer.authorizationWebhookConfigFile", "specify the file, or remove Webhook from authorizationMode")
	}
}

func auditWebhook(c *Check) {
	a := c.Spec.KubeAPIServer
	if a == nil || a.AuditWebhookConfigFile == "" {
		return
	}
	const p = "spec.kubeAPIServer.auditWebhookConfigFile"
	switch {
	case a.AuditPolicyFile == "":
		c.Bad(p, a.AuditWebhookConfigFile, "has no effect without auditPolicyFile", "set auditPolicyFile")
	case path.Dir(a.AuditPolicyFile) != path.Dir(a.AuditWebhookConfigFile):
		c.Bad(p, a.AuditWebhookConfigFile, "is not in the same folder as auditPolicyFile "+a.AuditPolicyFile, "put both into one folder")
	}
}

// componentCloud checks that components are not configured for another cloud.
func componentCloud(c *Check) {
	if c.platform.Name == "" {
		return
	}
	if a := c.Spec.KubeAPIServer; a != nil {
		c.OneOf("spec.kubeAPIServer.cloudProvider", a.CloudProvider, "external", string(c.platform.Name))
	}
	if m := c.Spec.KubeControllerManager; m != nil {
		c.OneOf("spec.kubeControllerManager.cloudProvider", m.CloudProvider, "external") // it exits at once with any other
	}
}

func controllerManager(c *Check) {
	m := c.Spec.KubeControllerManager
	if m == nil {
		return
	}
	if d := m.AttachDetachReconcileSyncPeriod; d != nil && d.Duration < time.Second {
		c.Bad("spec.kubeControllerManager.attachDetachReconcileSyncPeriod", d.Duration.String(), "is less than a second", "write 1s or more")
	}
}

func scheduler(c *Check) {
	if s := c.Spec.KubeScheduler; s != nil && s.UsePolicyConfigMap != nil {
		c.Bad("spec.kubeScheduler.usePolicyConfigMap", "", "is no longer supported", "add a KubeSchedulerConfiguration to the cluster's objects")
	}
}

func kubeProxy(c *Check) {
	p := c.Spec.KubeProxy
	if p == nil {
		return
	}
	for i, r := range p.IPVSExcludeCIDRs {
		c.CIDR(At("spec.kubeProxy.ipvsExcludeCidrs", i), r)
	}
	if p.Master != "" && !strings.HasPrefix(p.Master, "http://") && !strings.HasPrefix(p.Master, "https://") {
		c.Bad("spec.kubeProxy.master", p.Master, "is not a URL", "write one such as https://127.0.0.1")
	}
}

func kubeDNS(c *Check) {
	d := c.Spec.KubeDNS
	if d == nil {
		return
	}
	c.OneOf("spec.kubeDNS.provider", d.Provider, "CoreDNS")
	if d.ServerIP != "" {
		a, ok := c.address("spec.kubeDNS.serverIP", d.ServerIP)
		if r, known := Parsed(complete.ServiceRange(c.Spec)); ok && known && !r.Contains(a) {
			c.Bad("spec.kubeDNS.serverIP", d.ServerIP, "is not in serviceClusterIPRange "+r.String(), "remove it")
		}
	}
	for i, s := range d.UpstreamNameservers {
		c.address(At("spec.kubeDNS.upstreamNameservers", i), s)
	}
	for _, domain := range sortedKeys(d.StubDomains) {
		p := "spec.kubeDNS.stubDomains[" + domain + "]"
		c.Need(len(d.StubDomains[domain]) > 0, p, "specify at least one server of the domain")
		for i, s := range d.StubDomains[domain] {
			c.address(At(p, i), s)
		}
	}
}

// address checks that a text is an IP address.
func (c *Check) address(path, value string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(value)
	if err != nil {
		c.Bad(path, value, "is not an IP address", "write one such as 100.64.0.10")
	}
	return a, err == nil
}

// kubeletDNS checks that kubelets use a DNS server that exists.
func kubeletDNS(c *Check) {
	d := c.Spec.KubeDNS
	if d == nil || c.Feature("ExperimentalClusterDNS") {
		return
	}
	local := ""
	if d.NodeLocalDNS != nil {
		local = d.NodeLocalDNS.LocalIP
	}
	for _, k := range []struct {
		path   string
		config *api.KubeletConfigSpec
	}{{"spec.kubelet.clusterDNS", c.Spec.Kubelet}, {"spec.masterKubelet.clusterDNS", c.Spec.ControlPlaneKubelet}} {
		if k.config == nil || k.config.ClusterDNS == "" || d.ServerIP == "" {
			continue
		}
		if k.config.ClusterDNS != d.ServerIP && k.config.ClusterDNS != local {
			c.Bad(k.path, k.config.ClusterDNS, "is neither kubeDNS.serverIP "+d.ServerIP+" nor the address of nodeLocalDNS", "remove it")
		}
	}
}

func nodeLocalDNS(c *Check) {
	d := c.Spec.KubeDNS
	if d == nil || d.NodeLocalDNS == nil || !IsTrue(d.NodeLocalDNS.Enabled) {
		return
	}
	local := d.NodeLocalDNS.LocalIP
	if local != "" {
		c.address("spec.kubeDNS.nodeLocalDNS.localIP", local)
	}
	ipvs := c.Spec.KubeProxy != nil && c.Spec.KubeProxy.ProxyMode == "ipvs"
	k := c.Spec.Kubelet
	if (ipvs || c.Spec.Networking.Cilium != nil) && k != nil && k.ClusterDNS != "" && local != "" && k.ClusterDNS != local {
		c.Bad("spec.kubelet.clusterDNS", k.ClusterDNS, "is not nodeLocalDNS.localIP "+local+", so the cache is never used", "remove it")
	}
}
