package node

import (
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/spec/componentflags"
)

// controlPlane adds the resources of a machine that runs the whole control plane.
func (b *builder) controlPlane() error {
	for _, u := range []struct {
		name string
		id   int
	}{{"kops-controller", users.Controller}, {"kops-channels", users.Channels}} {
		if err := b.user(u.name, u.id); err != nil {
			return err
		}
	}
	for _, step := range []func() error{b.authorities, b.controllerTrust, b.etcdTrust, b.platformSecrets, b.etcdManagers, b.controllerManager, b.scheduler, b.channels, b.otherManifests} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// authorities writes the machine's CA certificates to a file for pods, which trust the same authorities.
func (b *builder) authorities() error {
	if b.Host.Authorities == "" {
		return nil
	}
	return b.file(paths.Trust+"/ca-certificates.crt", b.Host.Authorities)
}

// platformSecrets adds the secrets with which etcd's managers use the platform.
func (b *builder) platformSecrets() error {
	if len(b.PlatformSecrets) == 0 {
		return nil
	}
	if err := b.directory(paths.PlatformSecrets, "0700", 0); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.PlatformSecrets)) {
		if err := b.secret(paths.PlatformSecrets+"/"+name, b.PlatformSecrets[name].Reveal(), 0); err != nil {
			return err
		}
	}
	return nil
}

// etcdManagers adds etcd's manifests after the API server's: an API server that has to
// stop, too, then finishes its requests while etcd still serves it.
func (b *builder) etcdManagers() error {
	var after []resource.Address
	if b.hasAPIServer() {
		after = append(after, resource.Address{Kind: host.Files.Name, Name: APIServerManifest})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Etcd)) {
		text, err := b.manifestWithTrust("etcd-"+name, b.Etcd[name], b.etcdTrusts(name)...)
		if err == nil {
			err = b.staticPod("etcd-"+name, resource.Lit(text), after...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// channels adds the component that applies the cluster's add-ons.
func (b *builder) channels() error {
	if b.Config.ChannelsManifest == "" {
		return nil
	}
	if b.Channels == "" {
		return fmt.Errorf("the manifest %s was not read", b.Config.ChannelsManifest)
	}
	if err := b.directory(paths.Channels, "0755", 0); err != nil {
		return err
	}
	const kubeconfig = paths.ChannelsKubeconfig
	if err := b.kubeconfig(kubeconfig, "kops", "kops", host.Certificate{CommonName: "kops", Organization: []string{"system:masters"}, Owner: users.Channels}); err != nil {
		return err
	}
	text, err := b.manifestWithTrust("kops-channels", b.Channels, pki.KubernetesCA)
	if err != nil {
		return err
	}
	return b.podRestartedWithCertificate("kops-channels", text, kubeconfig)
}

// serving adds the certificate with which a component serves its health checks and metrics.
func (b *builder) serving(name string) error {
	domain := "cluster.local"
	if a := b.Config.APIServerConfig; a != nil && a.ClusterDNSDomain != "" {
		domain = a.ClusterDNSDomain
	}
	return b.certificatePair(b.places.keys+"/"+name+"/server", host.Certificate{CommonName: name, Usage: string(pki.Server), Names: []string{name + ".kube-system.svc." + domain}})
}

// metricsFlags returns the flags that keep a component's health checks and metrics on the machine. A
// component of a cluster that is not hardened serves its metrics on all interfaces.
func (b *builder) metricsFlags() []string {
	if !b.Config.Hardened {
		return nil
	}
	return []string{"--bind-address=127.0.0.1"}
}

func healthProbe(port int) *staticpod.Probe {
	return &staticpod.Probe{HTTPGet: staticpod.HTTPGet{Scheme: "HTTPS", Host: "127.0.0.1", Path: "/healthz", Port: port}, InitialDelaySeconds: 15, TimeoutSeconds: 15}
}

func (b *builder) controllerManager() error {
	const kubeconfig = "/var/lib/kube-controller-manager/kubeconfig"
	dir := b.places.keys + "/kube-controller-manager"
	c := api.KubeControllerManagerConfig{}
	if given := b.Config.ControlPlaneConfig.KubeControllerManager; given != nil {
		c = *given
	}
	if err := b.serving("kube-controller-manager"); err != nil {
		return err
	}
	if err := b.signingFiles(pki.KubernetesCA, dir+"/ca"); err != nil {
		return err
	}
	key, err := b.key(pki.ServiceAccount)
	if err != nil {
		return err
	}
	if err := b.secret(dir+"/service-account.key", key, 0); err != nil {
		return err
	}
	if err := b.kubeconfig(kubeconfig, "kube-controller-manager", "kube-controller-manager", host.Certificate{}); err != nil {
		return err
	}
	cert := dir + "/server.crt"
	c.AuthenticationKubeconfig, c.AuthorizationKubeconfig = kubeconfig, kubeconfig
	c.RootCAFile, c.ServiceAccountPrivateKeyFile = b.places.keys+"/ca.crt", dir+"/service-account.key"
	c.TLSCertFile, c.TLSPrivateKeyFile = &cert, dir+"/server.key"
	flags := append(componentflags.Flags(&c), "--cluster-signing-cert-file="+dir+"/ca.crt", "--cluster-signing-key-file="+dir+"/ca.key",
		"--flex-volume-plugin-dir="+b.volumePlugins(), "--kubeconfig="+kubeconfig)
	flags = append(flags, b.metricsFlags()...)
	slices.Sort(flags)
	k := newComponent("kube-controller-manager", c.Image, "/usr/local/bin/kube-controller-manager", flags)
	k.amounts("100m", c.CPURequest, c.CPULimit, c.MemoryRequest, c.MemoryLimit)
	k.container.LivenessProbe = healthProbe(ports.ControllerManager)
	k.container.Env = b.egress()
	b.waitForAPI(k)
	k.mountCertificates(b.Host.Like)
	k.mount("cabundle", b.places.keys+"/ca.crt", "", true)
	k.mount("srvkcm", dir, "", true)
	k.mount("varlibkcm", "/var/lib/kube-controller-manager", "", true)
	k.mount("volplugins", b.volumePlugins(), "", true)
	p := k.pod("system-cluster-critical", nil)
	b.annotateTrust(p, []string{pki.KubernetesCA}, b.Config.KeypairIDs[pki.ServiceAccount])
	return b.manifest(p, kubeconfig)
}

func (b *builder) scheduler() error {
	const kubeconfig = paths.SchedulerKubeconfig
	dir := b.places.keys + "/kube-scheduler"
	c := api.KubeSchedulerConfig{}
	if given := b.Config.ControlPlaneConfig.KubeScheduler; given != nil {
		c = *given
	}
	if err := b.serving("kube-scheduler"); err != nil {
		return err
	}
	if err := b.kubeconfig(kubeconfig, "kube-scheduler", "kube-scheduler", host.Certificate{}); err != nil {
		return err
	}
	cert := dir + "/server.crt"
	c.AuthenticationKubeconfig, c.AuthorizationKubeconfig = kubeconfig, kubeconfig
	c.TLSCertFile, c.TLSPrivateKeyFile = &cert, dir+"/server.key"
	flags := append(componentflags.Flags(&c), "--config="+paths.SchedulerConfig,
		"--authentication-tolerate-lookup-failure=false", "--authentication-skip-lookup=false")
	flags = append(flags, b.metricsFlags()...)
	slices.Sort(flags)
	k := newComponent("kube-scheduler", c.Image, "/usr/local/bin/kube-scheduler", flags)
	k.amounts("100m", c.CPURequest, c.CPULimit, c.MemoryRequest, c.MemoryLimit)
	k.container.LivenessProbe = healthProbe(ports.Scheduler)
	k.container.Env = b.egress()
	b.waitForAPI(k)
	k.mount("varlibkubescheduler", paths.Scheduler, "", true)
	k.mount("srvscheduler", dir, "", true)
	return b.manifest(k.pod("system-cluster-critical", nil), kubeconfig)
}

// proxy adds kube-proxy.
func (b *builder) proxy() error {
	const kubeconfig = "/var/lib/kube-proxy/kubeconfig"
	if err := b.kubeconfig(kubeconfig, "kube-proxy", "kube-proxy", host.Certificate{}); err != nil {
		return err
	}
	c := *b.Config.KubeProxy
	c.Master = b.server()
	c.HostnameOverride = ""
	if b.Host.OverrideName {
		c.HostnameOverride = b.Host.NodeName
	}
	score := "--oom-score-adj=-998"
	most := int32(131072)
	var more []string
	if b.Host.Contained { // the conntrack table is the host's, and the machine may not resize it
		score = "--oom-score-adj=0"
		more = []string{"--conntrack-tcp-timeout-close-wait=0s", "--conntrack-tcp-timeout-established=0s"}
	}
	if c.ConntrackMaxPerCore == nil {
		c.ConntrackMaxPerCore = &most
	}
	if b.Host.enterprise() >= nftablesOnly {
		c.ProxyMode = "nftables"
	}
	flags := append(componentflags.Flags(&c), append(more, "--kubeconfig="+kubeconfig, score)...)
	slices.Sort(flags)
	k := newComponent("kube-proxy", c.Image, "/usr/local/bin/kube-proxy", flags)
	k.amounts("100m", c.CPURequest, c.CPULimit, c.MemoryRequest, c.MemoryLimit)
	yes := true
	k.container.SecurityContext = &staticpod.SecurityContext{Privileged: &yes}
	k.mount("kubeconfig", kubeconfig, "", true)
	k.mount("modules", "/lib/modules", "", true)
	k.mount("ssl-certs-hosts", "/etc/ssl/certs", "", true)
	k.mount("iptableslock", "/run/xtables.lock", "FileOrCreate", false)
	return b.manifest(k.pod("system-node-critical", map[string]string{"tier": "node", "kubernetes.io/managed-by": "nodeup"}), kubeconfig)
}

// egress returns the environment that configures the cluster's egress proxy, through which control-plane
// programs reach webhooks and clouds.
func (b *builder) egress() []api.ContainerEnvVar {
	return staticpod.ProxyEnvironment(b.Config.Networking.EgressProxy)
}

// waitForAPI makes a component of this machine wait for the API server, on
// platforms that run kops' own images: a component that exits without the API is
// restarted with growing delays. Its liveness probe, which must be set before,
// must not kill a component that waits.
func (b *builder) waitForAPI(k *component) {
	if b.Host.Traits.Prompt {
		k.container.LivenessProbe.InitialDelaySeconds = 300
		k.container.Env = append(k.container.Env, api.ContainerEnvVar{Name: "GO_RUNNER_WAIT_FOR", Value: fmt.Sprintf("127.0.0.1:%d/readyz", ports.APIHealth)})
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
