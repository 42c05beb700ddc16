package validate

import (
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/net"

	"kops.local/kops/api"
)

func apiServer(c *check) {
	a := c.spec.KubeAPIServer
	if a == nil {
		return
	}
	const p = "spec.kubeAPIServer."
	if a.AuthenticationConfigFile != "" && c.spec.Authentication != nil && c.spec.Authentication.OIDC != nil {
		c.bad(p+"authenticationConfigFile", a.AuthenticationConfigFile, "cannot stand together with the oidc settings", "write these into the file")
	}
	if isTrue(a.EnableBootstrapTokenAuth) {
		c.bad(p+"enableBootstrapTokenAuth", "true", "is no longer supported", "remove it; machines join through kops-controller")
	}
	if len(a.AdmissionControl) > 0 {
		c.bad(p+"admissionControl", strings.Join(a.AdmissionControl, ","), "is no longer supported", "use enableAdmissionPlugins")
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"appendAdmissionPlugins", a.AppendAdmissionPlugins}, {"enableAdmissionPlugins", a.EnableAdmissionPlugins}} {
		if i := slices.Index(l.list, "PodSecurityPolicy"); i >= 0 {
			c.bad(at(p+l.name, i), "PodSecurityPolicy", "no longer exists in Kubernetes", "remove it; see Pod Security Admission")
			break // completion appends the first list to the second
		}
	}
	if (a.ProxyClientCertFile == nil) != (a.ProxyClientKeyFile == nil) {
		c.bad(p+"proxyClientCertFile", text(a.ProxyClientCertFile), "must stand together with proxyClientKeyFile", "set both or none")
	}
	if a.ServiceNodePortRange != "" {
		if _, err := net.ParsePortRange(a.ServiceNodePortRange); err != nil {
			c.bad(p+"serviceNodePortRange", a.ServiceNodePortRange, "is not a range of ports", "write one such as 30000-32767")
		}
	}
	c.oneOf(p+"logFormat", a.LogFormat, "text", "json")
}

func authorization(c *check) {
	if a := c.spec.Authorization; a != nil && a.RBAC != nil && a.AlwaysAllow != nil {
		c.bad("spec.authorization", "", "is both rbac and alwaysAllow", "leave one of them")
	}
}

func authorizationModes(c *check) {
	a := c.spec.KubeAPIServer
	if a == nil || text(a.AuthorizationMode) == "" {
		return
	}
	const p = "spec.kubeAPIServer.authorizationMode"
	modes := strings.Split(*a.AuthorizationMode, ",")
	for _, m := range modes {
		c.oneOf(p, m, "ABAC", "Webhook", "Node", "RBAC", "AlwaysAllow", "AlwaysDeny")
	}
	if slices.Contains(modes, "Webhook") && text(a.AuthorizationWebhookConfigFile) == "" {
		c.required("spec.kubeAPIServer.authorizationWebhookConfigFile", "name the file, or leave Webhook out of authorizationMode")
	}
	if rbac := c.spec.Authorization; rbac == nil || rbac.RBAC == nil || rbac.AlwaysAllow != nil || c.cloud != api.CloudAWS {
		return
	}
	for _, need := range []string{"Node", "RBAC"} {
		if !slices.Contains(modes, need) {
			c.bad(p, *a.AuthorizationMode, "lacks "+need+", which spec.authorization.rbac needs", "write Node,RBAC")
		}
	}
}

func auditWebhook(c *check) {
	a := c.spec.KubeAPIServer
	if a == nil || a.AuditWebhookConfigFile == "" {
		return
	}
	const p = "spec.kubeAPIServer.auditWebhookConfigFile"
	switch {
	case a.AuditPolicyFile == "":
		c.bad(p, a.AuditWebhookConfigFile, "has no effect without auditPolicyFile", "name the policy's file")
	case path.Dir(a.AuditPolicyFile) != path.Dir(a.AuditWebhookConfigFile):
		c.bad(p, a.AuditWebhookConfigFile, "is not in the folder of auditPolicyFile "+a.AuditPolicyFile, "put both into one folder")
	}
}

// componentCloud checks that components are not told of another cloud.
func componentCloud(c *check) {
	if c.cloud == "" {
		return
	}
	if a := c.spec.KubeAPIServer; a != nil {
		c.oneOf("spec.kubeAPIServer.cloudProvider", a.CloudProvider, "external", string(c.cloud))
	}
	if m := c.spec.KubeControllerManager; m != nil {
		c.oneOf("spec.kubeControllerManager.cloudProvider", m.CloudProvider, "external", string(c.cloud))
	}
}

func controllerManager(c *check) {
	m := c.spec.KubeControllerManager
	if m == nil {
		return
	}
	if d := m.AttachDetachReconcileSyncPeriod; d != nil && d.Duration < time.Second {
		c.bad("spec.kubeControllerManager.attachDetachReconcileSyncPeriod", d.Duration.String(), "is less than a second", "write 1s or more")
	}
	if m.ExperimentalClusterSigningDuration != nil {
		c.bad("spec.kubeControllerManager.experimentalClusterSigningDuration", m.ExperimentalClusterSigningDuration.Duration.String(), "is no longer supported", "use ClusterSigningDuration")
	}
}

func scheduler(c *check) {
	if s := c.spec.KubeScheduler; s != nil && s.UsePolicyConfigMap != nil {
		c.bad("spec.kubeScheduler.usePolicyConfigMap", "", "is no longer supported", "add a KubeSchedulerConfiguration to the cluster's objects")
	}
}

func kubeProxy(c *check) {
	p := c.spec.KubeProxy
	if p == nil {
		return
	}
	for i, r := range p.IPVSExcludeCIDRs {
		c.cidr(at("spec.kubeProxy.ipvsExcludeCidrs", i), r)
	}
	if p.Master != "" && !strings.HasPrefix(p.Master, "http://") && !strings.HasPrefix(p.Master, "https://") {
		c.bad("spec.kubeProxy.master", p.Master, "is not a URL", "write one such as https://127.0.0.1")
	}
}

func kubeDNS(c *check) {
	d := c.spec.KubeDNS
	if d == nil {
		return
	}
	c.oneOf("spec.kubeDNS.provider", d.Provider, "CoreDNS")
	if d.ServerIP != "" {
		a, ok := c.address("spec.kubeDNS.serverIP", d.ServerIP)
		if r, known := parsed(c.spec.Networking.ServiceClusterIPRange); ok && known && !r.Contains(a) {
			c.bad("spec.kubeDNS.serverIP", d.ServerIP, "is not in serviceClusterIPRange "+r.String(), "remove it")
		}
	}
	for i, s := range d.UpstreamNameservers {
		c.address(at("spec.kubeDNS.upstreamNameservers", i), s)
	}
	for _, domain := range sortedKeys(d.StubDomains) {
		p := "spec.kubeDNS.stubDomains[" + domain + "]"
		c.need(len(d.StubDomains[domain]) > 0, p, "name at least one server of the domain")
		for i, s := range d.StubDomains[domain] {
			c.address(at(p, i), s)
		}
	}
}

// address checks that a text is an IP address.
func (c *check) address(path, value string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(value)
	if err != nil {
		c.bad(path, value, "is not an IP address", "write one such as 100.64.0.10")
	}
	return a, err == nil
}

// kubeletDNS checks that kubelets ask a server that exists.
func kubeletDNS(c *check) {
	d := c.spec.KubeDNS
	if d == nil || c.in.Features["ExperimentalClusterDNS"] {
		return
	}
	local := ""
	if d.NodeLocalDNS != nil {
		local = d.NodeLocalDNS.LocalIP
	}
	for _, k := range []struct {
		path   string
		config *api.KubeletConfigSpec
	}{{"spec.kubelet.clusterDNS", c.spec.Kubelet}, {"spec.masterKubelet.clusterDNS", c.spec.ControlPlaneKubelet}} {
		if k.config == nil || k.config.ClusterDNS == "" || d.ServerIP == "" {
			continue
		}
		if k.config.ClusterDNS != d.ServerIP && k.config.ClusterDNS != local {
			c.bad(k.path, k.config.ClusterDNS, "is neither kubeDNS.serverIP "+d.ServerIP+" nor that of nodeLocalDNS", "remove it")
		}
	}
}

func nodeLocalDNS(c *check) {
	d := c.spec.KubeDNS
	if d == nil || d.NodeLocalDNS == nil || !isTrue(d.NodeLocalDNS.Enabled) {
		return
	}
	local := d.NodeLocalDNS.LocalIP
	if local != "" {
		c.address("spec.kubeDNS.nodeLocalDNS.localIP", local)
	}
	ipvs := c.spec.KubeProxy != nil && c.spec.KubeProxy.ProxyMode == "ipvs"
	k := c.spec.Kubelet
	if (ipvs || c.spec.Networking.Cilium != nil) && k != nil && k.ClusterDNS != "" && local != "" && k.ClusterDNS != local {
		c.bad("spec.kubelet.clusterDNS", k.ClusterDNS, "is not nodeLocalDNS.localIP "+local+", so the cache is never asked", "remove it")
	}
}
