package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/spec/componentflags"
)

const (
	healthcheckSecrets = paths.Healthcheck
	authnConfig        = "/etc/kubernetes/authn.config"
)

// apiServer adds the resources of a machine that serves the API, whether or not it belongs to the control
// plane.
func (b *builder) apiServer() error {
	if b.Config.APIServerConfig.KubeAPIServer == nil {
		return fmt.Errorf("the configuration does not configure the API server")
	}
	if err := b.user("kube-apiserver-healthcheck", users.Healthcheck); err != nil {
		return err
	}
	for _, step := range []func() error{b.apiServerTrust, b.authenticator, b.cloudConfig, b.admin, b.apiServerPod} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// user adds an account. Accounts are created one after another, so that their order in the files is always
// the same.
func (b *builder) user(name string, id int) error {
	a, err := add(b, &host.Users, name, host.User{Name: name, ID: id, Home: "/nonexistent", Shell: "/sbin/nologin"}, b.users...)
	b.users = []resource.Address{a}
	return err
}

// authenticator adds the certificate that the AWS IAM authenticator serves with, and the file that tells
// the API server how to call it.
func (b *builder) authenticator() error {
	a := b.Config.APIServerConfig.Authentication
	if a == nil || a.AWS == nil {
		return nil
	}
	if err := b.user("aws-iam-authenticator", users.Authenticator); err != nil {
		return err
	}
	if err := b.certificate(host.Certificate{CommonName: "aws-iam-authenticator", Usage: string(pki.Server), Names: []string{"localhost", "127.0.0.1"},
		Path: b.places.keys + authenticatorCertificate, KeyPath: b.places.keys + "/aws-iam-authenticator/key.pem", Mode: "0600", KeyMode: "0600", Owner: users.Authenticator}); err != nil {
		return err
	}
	return b.file(authnConfig, `apiVersion: v1
kind: Config
clusters:
- name: aws-iam-authenticator
  cluster:
    certificate-authority: `+b.places.keys+`/ca.crt
    server: https://127.0.0.1:21362/authenticate
users:
- name: kube-apiserver
contexts:
- name: webhook
  context:
    cluster: aws-iam-authenticator
    user: kube-apiserver
current-context: webhook
`)
}

// cloudConfigFile is where components look for the cloud's configuration.
const cloudConfigFile = "/etc/kubernetes/cloud.config"

// cloudConfig writes the components' cloud configuration.
func (b *builder) cloudConfig() error {
	if b.Host.Traits.CloudConfig == nil {
		return nil
	}
	return b.file(cloudConfigFile, b.Host.Traits.CloudConfig(b.Config))
}

// admin lets users who log in to the machine use kubectl.
func (b *builder) admin() error {
	home, id := b.Host.Admin.Home, b.Host.Admin.ID
	if home == "" {
		home = b.places.home
	}
	// kubectl caches what it discovers next to this file
	if err := b.directory(home+"/.kube", "0750", id); err != nil {
		return err
	}
	for _, at := range []struct {
		path  string
		owner int
	}{{"/var/lib/kubectl/kubeconfig", 0}, {home + "/.kube/config", id}} {
		if err := b.kubeconfig(at.path, "kubecfg", "kubecfg", host.Certificate{CommonName: "kubecfg", Organization: []string{"system:masters"}, Owner: at.owner}); err != nil {
			return err
		}
	}
	return nil
}

// apiServerConfig returns the user's configuration with the machine's additions.
func (b *builder) apiServerConfig() *api.KubeAPIServerConfig {
	dir := b.places.keys + "/kube-apiserver/"
	given := b.Config.APIServerConfig
	c := *given.KubeAPIServer
	ptr := func(s string) *string { return &s }
	for _, file := range []*string{&c.AuditPolicyFile, &c.AuditWebhookConfigFile, &c.AdmissionControlConfigFile, &c.AuthenticationConfigFile, &c.TokenAuthFile} {
		*file = b.localPath(*file)
	}
	c.ClientCAFile = b.places.keys + "/ca.crt"
	c.EtcdCAFile, c.EtcdCertFile, c.EtcdKeyFile = dir+"etcd-ca.crt", dir+"etcd-client.crt", dir+"etcd-client.key"
	c.TLSCertFile, c.TLSPrivateKeyFile = dir+"server.crt", dir+"server.key"
	if b.Host.Traits.VerifiedKubelets && c.KubeletCertificateAuthority == "" {
		c.KubeletCertificateAuthority = b.places.keys + "/ca.crt"
	}
	c.KubeletClientCertificate, c.KubeletClientKey = dir+"kubelet-api.crt", dir+"kubelet-api.key"
	c.ProxyClientCertFile, c.ProxyClientKeyFile = ptr(dir+"apiserver-aggregator.crt"), ptr(dir+"apiserver-aggregator.key")
	c.RequestheaderClientCAFile = dir + "apiserver-aggregator-ca.crt"
	if len(c.ServiceAccountKeyFile) == 0 {
		c.ServiceAccountKeyFile = []string{dir + "service-account.pub"}
	}
	if c.ServiceAccountSigningKeyFile == nil {
		c.ServiceAccountSigningKeyFile = ptr(dir + "service-account.key")
	}
	if given.EncryptionConfigSecretHash != "" {
		c.EncryptionProviderConfig = ptr(dir + "encryptionconfig.yaml")
	}
	if a := given.Authentication; a != nil && a.AWS != nil {
		c.AuthenticationTokenWebhookConfigFile = ptr(authnConfig)
	}
	if len(c.EnableAdmissionPlugins) > 0 {
		c.EnableAdmissionPlugins = unique(append(slices.Clone(c.EnableAdmissionPlugins), c.AppendAdmissionPlugins...))
	}
	if !b.isControlPlane() { // etcd is on other machines, each cluster on its own port
		at := func(etcd string) []string {
			p, _ := ports.OfEtcd(etcd) // these names are valid
			port := strconv.Itoa(p.Client)
			return []string{"127.0.0.1:" + port, hostnames.Etcd(etcd, b.Config.ClusterName) + ":" + port}
		}
		var pairs []string
		for _, etcd := range servedEtcds() {
			pairs = append(pairs, at(etcd)...)
		}
		elsewhere := strings.NewReplacer(pairs...)
		replace := func(in []string) []string {
			out := slices.Clone(in)
			for i := range out {
				out[i] = elsewhere.Replace(out[i])
			}
			return out
		}
		c.EtcdServers, c.EtcdServersOverrides = replace(c.EtcdServers), replace(c.EtcdServersOverrides)
	}
	return &c
}

// servedEtcds returns the etcd clusters that API servers use.
func servedEtcds() []string { return []string{"main", "events", "leases"} }

func (b *builder) apiServerPod() error {
	c := b.apiServerConfig()
	flags := componentflags.Flags(c)
	if b.Config.Hardened {
		flags = append(flags, "--service-account-extend-token-expiration=false")
	}
	for _, issuer := range c.AdditionalServiceAccountIssuers {
		flags = append(flags, "--service-account-issuer="+issuer)
	}
	if a := b.Config.APIServerConfig.Authentication; a != nil && a.OIDC != nil {
		flags = append(flags, oidcFlags(*a.OIDC)...)
	}
	if b.Host.Traits.Prompt { // each of the load balancer's checks asks etcd, twice in this time, so that it notices at once that etcd stalls
		flags = append(flags, "--etcd-readycheck-timeout=400ms")
	}
	// without it an API server waits a minute for its watchers, and is killed after half a minute
	flags = append(flags, "--shutdown-watch-termination-grace-period=3s")
	k := newComponent(APIServer, c.Image, "/usr/local/bin/kube-apiserver", flags)
	k.container.Env = slices.Concat(c.Env, b.egress())
	k.container.SecurityContext = confinedContext("NET_BIND_SERVICE")
	k.amounts("150m", c.CPURequest, c.CPULimit, c.MemoryRequest, c.MemoryLimit)
	k.container.Ports = []staticpod.Port{{Name: "https", ContainerPort: b.securePort(), HostPort: b.securePort()}}
	ask := func(path string, delay, timeout, failures, period int) *staticpod.Probe {
		return &staticpod.Probe{HTTPGet: staticpod.HTTPGet{Host: "127.0.0.1", Path: path, Port: ports.APIHealth}, InitialDelaySeconds: delay, TimeoutSeconds: timeout, FailureThreshold: failures, PeriodSeconds: period}
	}
	k.container.LivenessProbe = ask("/livez", 10, 15, 8, 10)
	k.container.ReadinessProbe = ask("/healthz", 0, 15, 3, 1)
	k.container.StartupProbe = ask("/livez", 10, 300, 30, 10)
	k.mountCertificates(b.Host.Like)
	if b.Host.Traits.CloudConfig != nil {
		k.mount("cloudconfig", cloudConfigFile, "", true)
	}
	k.mount("kubernetesca", b.places.keys+"/ca.crt", "", true)
	k.mount("srvkapi", b.places.keys+"/kube-apiserver", "", true)
	k.mountFolder("auditlogpathdir", text(c.AuditLogPath), false)
	k.mountFolder("auditpolicyfiledir", c.AuditPolicyFile, true)
	k.mountFolder("auditwebhookconfigdir", c.AuditWebhookConfigFile, true)
	k.mountFolder("admissioncontrolconfigdir", c.AdmissionControlConfigFile, true)
	k.mountFolder("authenticationconfigdir", c.AuthenticationConfigFile, true)
	k.mountFolder("oidccadir", text(c.OIDCCAFile), true)
	if f := text(c.AuthenticationTokenWebhookConfigFile); f != "" {
		k.mount("authn-config", f, "", true)
	}
	p := k.pod("system-cluster-critical", nil)
	p.Metadata.Annotations = b.apiServerAnnotations()
	for _, m := range b.Config.StaticManifests {
		if m.Key != "kube-apiserver-healthcheck" {
			continue
		}
		if b.Static[m.Key] == "" {
			return fmt.Errorf("the manifest %s was not read", m.Path)
		}
		if err := p.Merge(b.Static[m.Key]); err != nil {
			return err
		}
	}
	given := b.Config.APIServerConfig
	b.annotateTrust(p, []string{pki.KubernetesCA, pki.AggregatorCA, pki.EtcdClientsCA}, b.Config.KeypairIDs[pki.ServiceAccount], given.ServiceAccountPublicKeys, given.EncryptionConfigSecretHash)
	return b.manifest(p, "") // it reloads its certificates by itself
}

// oidcFlags returns the flags that make the API server accept an issuer's tokens.
// The specification keeps them apart from the API server's other fields.
func oidcFlags(o api.OIDCAuthenticationSpec) []string {
	var required []string
	for claim, value := range o.RequiredClaims {
		required = append(required, claim+"="+value)
	}
	slices.Sort(required)
	return componentflags.Flags(struct {
		IssuerURL      *string  `flag:"oidc-issuer-url"`
		ClientID       *string  `flag:"oidc-client-id"`
		UsernameClaim  *string  `flag:"oidc-username-claim"`
		UsernamePrefix *string  `flag:"oidc-username-prefix"`
		GroupsClaims   []string `flag:"oidc-groups-claim"`
		GroupsPrefix   *string  `flag:"oidc-groups-prefix"`
		RequiredClaims []string `flag:"oidc-required-claim,repeat"`
	}{o.IssuerURL, o.ClientID, o.UsernameClaim, o.UsernamePrefix, o.GroupsClaims, o.GroupsPrefix, required})
}

// apiServerAnnotations returns annotations with the names of the DNS records that point to this machine.
func (b *builder) apiServerAnnotations() map[string]string {
	out := map[string]string{"kubectl.kubernetes.io/default-container": "kube-apiserver"}
	if b.Config.UsesNoneDNS {
		return out
	}
	a := b.Config.APIServerConfig.API
	if a.LoadBalancer == nil || !a.LoadBalancer.UseForInternalAPI || b.Host.Traits.BalancerUnnamed {
		out["dns.alpha.kubernetes.io/internal"] = b.internal("api")
	}
	if a.DNS != nil && a.PublicName != "" {
		out["dns.alpha.kubernetes.io/external"] = a.PublicName
	}
	return out
}

// otherManifests adds manifests of the configuration that are run unchanged.
func (b *builder) otherManifests() error {
	for _, m := range b.Config.StaticManifests {
		if m.Key == "kube-apiserver-healthcheck" {
			continue
		}
		if b.Static[m.Key] == "" {
			return fmt.Errorf("the manifest %s was not read", m.Path)
		}
		if err := b.staticPod(m.Key, resource.Lit(b.Static[m.Key])); err != nil {
			return err
		}
	}
	return nil
}
