package model

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/model/access"
)

// nodeConfig writes the configuration of a group's machines.
func (in Input) nodeConfig(g *api.InstanceGroup) ([]byte, error) {
	c := in.commonConfig(g)
	if err := in.addAssets(c, g); err != nil {
		return nil, err
	}
	in.addImages(c, g)
	if configure := in.Traits.Model.NodeConfig; configure != nil {
		configure(in.Cluster, g, c)
	}
	in.addWarmPool(c, g)
	if err := in.addTrust(c, g); err != nil {
		return nil, err
	}
	if g.HasAPIServer() {
		if err := in.addAPIServer(c); err != nil {
			return nil, err
		}
	}
	if g.IsControlPlane() {
		if err := in.addControlPlane(c, g); err != nil {
			return nil, err
		}
	}
	if c.FileTrust != nil {
		in.pin(c)
	}
	if text := in.DockerConfig.Reveal(); text != "" {
		var err error
		if c.DockerConfigDigest, err = labels.DigestSecret(layout.Secrets+"/"+pki.DockerConfig, []byte(text)); err != nil {
			return nil, err
		}
	}
	return c.Encode()
}

// commonConfig returns what the machines of every role need.
func (in Input) commonConfig(g *api.InstanceGroup) *nodeconfig.Config {
	spec := in.spec()
	c := &nodeconfig.Config{
		ClusterName:       in.Cluster.Name,
		KubernetesVersion: strings.TrimPrefix(in.kubernetes(g), "v"),
		Packages:          append(slices.Clone(g.Spec.Packages), spec.Packages...),
		CAs:               map[string]string{},
		KeypairIDs:        map[string]string{},
		KubeletConfig:     g.Spec.Kubelet,
		Networking:        nodeNetworking(spec.Networking),
		InstallCNIAssets:  in.needsCNIPlugins(),
		SysctlParameters:  sysctls(g, spec),
		UpdatePolicy:      "automatic",
		VolumeMounts:      g.Spec.VolumeMounts,
		FileAssets:        append(forRole(g.Spec.Role, g.Spec.FileAssets), forRole(g.Spec.Role, spec.FileAssets)...),
		Hooks:             [2][]api.HookSpec{hooksForRole(g.Spec.Role, g.Spec.Hooks), hooksForRole(g.Spec.Role, spec.Hooks)},
		ContainerdConfig:  g.Spec.Containerd,
		UsesNoneDNS:       in.noDNS(),
		Hardened:          in.Cluster.IsHardened(),
	}
	if m := in.mirrors(); len(m.Keys()) > 0 {
		c.FileTrust = &nodeconfig.FileTrust{Repository: m.Repository(), Keys: m.Keys()}
	}
	n := spec.Networking
	c.UsesKubenet = n.Kubenet != nil || n.External != nil || n.Kopeio != nil || n.GCP != nil
	c.UseCiliumEtcd = access.CiliumEtcd(spec)
	isolated := isTrue(n.IsolateControlPlane) && g.IsControlPlane() // not on the pod network, and so without services
	if p := spec.KubeProxy; p != nil && (p.Enabled == nil || *p.Enabled) && !isolated {
		c.KubeProxy = p
	}
	if spec.NTP != nil && spec.NTP.Managed != nil {
		c.NTPUnmanaged = !*spec.NTP.Managed
	}
	if spec.KubeAPIServer != nil {
		c.ServiceNodePortRange = spec.KubeAPIServer.ServiceNodePortRange
	}
	for _, p := range []*string{spec.UpdatePolicy, g.Spec.UpdatePolicy} {
		if p != nil {
			c.UpdatePolicy = *p
		}
	}
	if r := g.Spec.Containerd; r != nil {
		if r.NvidiaGPU != nil && isTrue(r.NvidiaGPU.Enabled) {
			c.NvidiaGPU = r.NvidiaGPU
		}
		if r.GVisor != nil && isTrue(r.GVisor.Enabled) {
			c.GVisor = r.GVisor
		}
	}
	return c
}

// pin adds the digests to the images that nodeup itself writes into files: with a tag, the registry
// could decide what runs.
func (in Input) pin(c *nodeconfig.Config) {
	if r := c.ContainerdConfig; r != nil && r.SandboxImage != nil {
		own, image := *r, in.image(*r.SandboxImage)
		own.SandboxImage = &image
		c.ContainerdConfig = &own
	}
	if c.KubeProxy != nil {
		own := *c.KubeProxy
		own.Image = in.image(own.Image)
		c.KubeProxy = &own
	}
	if a := c.APIServerConfig; a != nil && a.KubeAPIServer != nil {
		own := *a.KubeAPIServer
		own.Image = in.image(own.Image)
		a.KubeAPIServer = &own
	}
	p := c.ControlPlaneConfig
	if p != nil && p.KubeControllerManager != nil {
		own := *p.KubeControllerManager
		own.Image = in.image(own.Image)
		p.KubeControllerManager = &own
	}
	if p != nil && p.KubeScheduler != nil {
		own := *p.KubeScheduler
		own.Image = in.image(own.Image)
		p.KubeScheduler = &own
	}
}

// nodeNetworking returns the part of the network's settings that machines need.
func nodeNetworking(n api.NetworkingSpec) api.NetworkingSpec {
	out := api.NetworkingSpec{NonMasqueradeCIDR: n.NonMasqueradeCIDR, ServiceClusterIPRange: n.ServiceClusterIPRange, EgressProxy: n.EgressProxy}
	switch {
	case n.AmazonVPC != nil:
		out.AmazonVPC = &api.AmazonVPCNetworkingSpec{}
	case n.Calico != nil:
		out.Calico = &api.CalicoNetworkingSpec{WireguardEnabled: n.Calico.WireguardEnabled}
	case n.Cilium != nil:
		out.Cilium = &api.CiliumNetworkingSpec{}
		if n.Cilium.IPAM == "eni" {
			out.Cilium.IPAM = n.Cilium.IPAM
		}
	case n.CNI != nil && n.CNI.UsesSecondaryIP:
		out.CNI = n.CNI
	case n.Flannel != nil:
		out.Flannel = &api.FlannelNetworkingSpec{}
	case n.Kindnet != nil:
		out.Kindnet = &api.KindnetNetworkingSpec{}
	case n.KubeRouter != nil:
		out.KubeRouter = &api.KuberouterNetworkingSpec{}
	}
	return out
}

func (in Input) addAssets(c *nodeconfig.Config, g *api.InstanceGroup) error {
	c.Assets = map[download.Arch][]string{}
	for _, arch := range in.arches() {
		files, err := in.files(g, arch)
		if err != nil {
			return err
		}
		for _, f := range files {
			c.Assets[arch] = append(c.Assets[arch], f.String())
		}
	}
	return nil
}

// addImages adds the images that are not in a registry, for the programs on machines with an API
// server.
func (in Input) addImages(c *nodeconfig.Config, g *api.InstanceGroup) {
	if !g.HasAPIServer() || in.Own.Programs == nil || in.cloudFacts().Bundle != "" { // a bundle is served as a registry
		return
	}
	for _, arch := range in.arches() {
		names, files := in.Own.Archives(in.ownPrograms(g), arch, in.programs(g), in.mirrors())
		for i, f := range files {
			if c.Images == nil {
				c.Images = map[download.Arch][]nodeconfig.Image{}
			}
			c.Images[arch] = append(c.Images[arch], nodeconfig.Image{Name: names[i], Sources: f.URLs, Hash: f.SHA256})
		}
	}
}

// addTrust adds the authorities that the machines trust, and the identifiers
// of the keys that they expect others to use.
func (in Input) addTrust(c *nodeconfig.Config, g *api.InstanceGroup) error {
	var cas []string
	switch {
	case g.IsBastion():
		return nil
	case g.IsControlPlane():
		cas = pki.KeysetNames(in.Cluster)
	case g.HasAPIServer():
		cas = []string{pki.KubernetesCA, pki.AggregatorCA, pki.EtcdClientsCA, pki.ServiceAccount}
	default:
		ca := in.Keysets[pki.KubernetesCA]
		c.KeypairIDs[pki.KubernetesCA] = ca.Primary // its certificates are part of the boot script
		if len(ca.Items) > 1 {
			c.CAs[pki.KubernetesCA] = ca.Bundle() // for machines created before there were several, it is in their configuration
		}
		if c.UseCiliumEtcd && in.Keysets[pki.EtcdClientsCiliumCA] != nil {
			cas = []string{pki.EtcdClientsCiliumCA}
		}
	}
	for _, n := range cas {
		k := in.Keysets[n]
		if k == nil {
			return fmt.Errorf("the keyset %s is missing", n)
		}
		c.KeypairIDs[n] = k.Primary
		if n != pki.ServiceAccount {
			c.CAs[n] = k.Bundle()
		}
	}
	return nil
}

func (in Input) addAPIServer(c *nodeconfig.Config) error {
	spec := in.spec()
	keys, err := in.Keysets[pki.ServiceAccount].PublicKeys()
	if err != nil {
		return err
	}
	c.APIServerAdditionalIPs = in.APINames
	a := &nodeconfig.APIServer{
		ClusterDNSDomain: spec.ClusterDNSDomain, KubeAPIServer: spec.KubeAPIServer, ServiceAccountPublicKeys: keys,
		API: api.APISpec{DNS: spec.API.DNS, PublicName: spec.API.PublicName, AdditionalSANs: spec.API.AdditionalSANs},
	}
	if lb := spec.API.LoadBalancer; lb != nil && lb.UseForInternalAPI {
		a.API.LoadBalancer = &api.LoadBalancerAccessSpec{UseForInternalAPI: true}
	}
	if x := spec.Authentication; x != nil {
		a.Authentication = &api.AuthenticationSpec{Kopeio: x.Kopeio, OIDC: x.OIDC}
		if x.AWS != nil {
			a.Authentication.AWS = &api.AWSAuthenticationSpec{}
		}
	}
	if isTrue(spec.EncryptionConfig) {
		a.EncryptionConfigSecretHash = nodeconfig.Hash([]byte(in.EncryptionConfig.Reveal()))
	}
	c.APIServerConfig = a
	c.ConfigStore = &nodeconfig.ConfigStore{Keypairs: spec.ConfigStore.Keypairs, Secrets: spec.ConfigStore.Secrets}
	c.StaticManifests = []nodeconfig.StaticManifest{{Key: "kube-apiserver-healthcheck", Path: layout.Healthcheck}}
	if !in.noDNS() {
		c.DNSZone = spec.DNSZone
	}
	return nil
}

func (in Input) addControlPlane(c *nodeconfig.Config, g *api.InstanceGroup) error {
	spec := in.spec()
	c.ControlPlaneConfig = &nodeconfig.ControlPlane{KubeControllerManager: spec.KubeControllerManager, KubeScheduler: spec.KubeScheduler}
	c.ChannelsManifest = in.url(layout.Channels)
	for _, e := range spec.EtcdClusters {
		c.EtcdClusterNames = append(c.EtcdClusterNames, e.Name)
		for _, m := range e.EtcdMembers {
			if m.InstanceGroup != nil && *m.InstanceGroup == g.Name {
				c.EtcdManifests = append(c.EtcdManifests, in.url(layout.EtcdManifest(e.Name, g.Name)))
			}
		}
	}
	text, err := in.schedulerConfig()
	if err != nil {
		return err
	}
	c.FileAssets = append(c.FileAssets, api.FileAssetSpec{Path: paths.SchedulerConfig, Content: string(text)})
	return nil
}

// schedulerConfig returns the scheduler's configuration file: the user's, if there is one, with the
// settings of the spec.
func (in Input) schedulerConfig() ([]byte, error) {
	config := map[string]any{}
	for _, o := range in.Objects {
		if o["kind"] == "KubeSchedulerConfiguration" {
			for k, v := range o {
				config[k] = v
			}
			delete(config, "metadata")
		}
	}
	if config["apiVersion"] == nil {
		config["apiVersion"] = "kubescheduler.config.k8s.io/v1"
	}
	config["kind"] = "KubeSchedulerConfiguration"
	client := map[string]any{}
	if given, ok := config["clientConnection"].(map[string]any); ok {
		for k, v := range given {
			client[k] = v
		}
	}
	config["clientConnection"] = client
	client["kubeconfig"] = paths.SchedulerKubeconfig
	if s := in.spec().KubeScheduler; s != nil {
		if s.QPS != nil {
			client["qps"] = s.QPS.AsApproximateFloat64()
		}
		if s.Burst != 0 {
			client["burst"] = s.Burst
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return text, nil
}

// sysctls lists kernel parameters, the group's before the cluster's.
func sysctls(g *api.InstanceGroup, spec *api.ClusterSpec) []string {
	var out []string
	for _, p := range []struct {
		of   string
		list []string
	}{{"instance group", g.Spec.SysctlParameters}, {"cluster", spec.SysctlParameters}} {
		if len(p.list) > 0 {
			out = append(append(out, "# Custom sysctl parameters from "+p.of+" spec"), p.list...)
		}
	}
	return out
}

// forRole returns the files for a role.
func forRole(role api.InstanceGroupRole, files []api.FileAssetSpec) []api.FileAssetSpec {
	var out []api.FileAssetSpec
	for _, f := range files {
		if len(f.Roles) == 0 || slices.Contains(f.Roles, role) {
			f.Roles = nil
			out = append(out, f)
		}
	}
	return out
}

// hooksForRole returns the hooks for a role.
func hooksForRole(role api.InstanceGroupRole, hooks []api.HookSpec) []api.HookSpec {
	var out []api.HookSpec
	for _, h := range hooks {
		if len(h.Roles) == 0 || slices.Contains(h.Roles, role) {
			h.Roles = nil
			out = append(out, h)
		}
	}
	return out
}

func isTrue(b *bool) bool { return b != nil && *b }
