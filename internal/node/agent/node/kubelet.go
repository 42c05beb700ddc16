package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// KubeletKubeconfig is the kubeconfig, with a client certificate, that the kubelet uses to call the API.
const KubeletKubeconfig = "/var/lib/kubelet/kubeconfig"

const (
	kubeletConfigFile   = "/var/lib/kubelet/kubelet.conf"
	credentialProviders = "/var/lib/kubelet/credential-provider.conf"
	containerdSocket    = "unix:///run/containerd/containerd.sock"
)

const kubeletUnit = `[Unit]
Description=Kubernetes kubelet
Documentation=https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/
After=containerd.service
StartLimitIntervalSec=0
%s
[Service]
EnvironmentFile=/etc/sysconfig/kubelet
ExecStart=%s/kubelet "$DAEMON_ARGS"
Restart=always
RestartSec=2s
KillMode=process
User=root
CPUAccounting=true
MemoryAccounting=true

[Install]
WantedBy=multi-user.target
`

func (b *builder) kubelet() error {
	c := b.Config.KubeletConfig
	if c == nil {
		c = &api.KubeletConfigSpec{}
	}
	config, err := b.kubeletConfig(c)
	if err != nil {
		return err
	}
	if err := b.ownerOnlyFile(kubeletConfigFile, config, 0); err != nil {
		return err
	}
	const env = "/etc/sysconfig/kubelet"
	arguments := "DAEMON_ARGS=\"" + strings.Join(b.kubeletFlags(c), " ") + "\"\nHOME=\"" + b.places.home + "\"\n" + b.memoryEnvironment()
	if err := b.ownerOnlyFile(env, arguments, 0); err != nil {
		return err
	}
	providers := b.credentialProviders()
	if providers != "" {
		if err := b.file(credentialProviders, providers); err != nil {
			return err
		}
	}
	after := slices.Concat(b.runtime, b.packages, b.programs, b.node, b.filesWritten)
	unit := fmt.Sprintf(kubeletUnit, b.needsMounts(), b.places.kubelet)
	if b.Host.Warming {
		_, err := add(b, &host.Units, KubeletUnit, host.Unit{Name: KubeletUnit, Content: resource.Text(resource.Lit(unit)), Private: true, Current: true}, after...)
		return err
	}
	reads := append([]string{config, arguments, providers, b.trustDigest([]string{pki.KubernetesCA})}, b.assetsThat(func(a host.Asset) bool { return strings.HasPrefix(a.Base(), "kubelet") })...)
	content := withCertificate(host.WithDigest(unit, reads...)+"Certificate="+certificateMark+"\n", KubeletKubeconfig)
	_, err = add(b, &host.Units, KubeletUnit, host.Unit{Name: KubeletUnit, Content: resource.Text(content), Private: true, On: true, Current: true}, after...)
	return err
}

// memoryEnvironment makes a service return memory earlier on platforms where many machines share
// one host.
func (b *builder) memoryEnvironment() string {
	if b.Host.Contained {
		return "GOGC=50\n"
	}
	return ""
}

// kubeletFlags returns the settings that the configuration file does not support.
func (b *builder) kubeletFlags(c *api.KubeletConfigSpec) []string {
	flags := []string{"--config=" + kubeletConfigFile, "--kubeconfig=" + KubeletKubeconfig, "--runtime-request-timeout=15m0s"}
	if t := c.RuntimeRequestTimeout; t != nil {
		flags[2] = "--runtime-request-timeout=" + t.Duration.String()
	}
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	add("cloud-provider", c.CloudProvider)
	name := c.HostnameOverride
	if strings.HasPrefix(name, "@") { // a placeholder for a name that the cloud assigns
		name = ""
	}
	if b.Host.OverrideName {
		name = b.Host.NodeName
	}
	add("hostname-override", name)
	add("root-dir", c.RootDir)
	add("runtime-cgroups", c.RuntimeCgroups)
	switch {
	case strings.Contains(b.Config.Networking.NonMasqueradeCIDR, ":"):
		add("node-ip", "::")
	case b.secondaryAddresses():
		add("node-ip", b.Host.Address)
	}
	if t := c.HousekeepingInterval; t != nil {
		add("housekeeping-interval", t.Duration.String())
	}
	if c.LogFormat != "" && c.LogFormat != "text" {
		add("logging-format", c.LogFormat)
	}
	if b.credentialProviders() != "" {
		add("image-credential-provider-config", credentialProviders)
		add("image-credential-provider-bin-dir", ownBinaries)
	}
	if c.LogLevel != nil && *c.LogLevel != 0 {
		add("v", strconv.Itoa(int(*c.LogLevel)))
	}
	slices.Sort(flags)
	return flags
}

// credentialProviders returns the configuration of the programs that log in to a cloud's own registries.
func (b *builder) credentialProviders() string {
	type provider struct {
		APIVersion string   `json:"apiVersion"`
		Args       []string `json:"args"`
		Cache      string   `json:"defaultCacheDuration"`
		Images     []string `json:"matchImages"`
		Name       string   `json:"name"`
	}
	r := b.Host.Traits.Registry
	if r.Name == "" {
		return ""
	}
	p := provider{APIVersion: "credentialprovider.kubelet.k8s.io/v1", Args: []string{"get-credentials"}, Cache: r.Cache, Images: r.Images, Name: r.Name}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": []provider{p}})
	if err != nil {
		panic(err) // it contains only strings
	}
	return string(text)
}

// document is a configuration file under construction.
type document map[string]any

// set adds a value that is not empty.
func (d document) set(name string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	case map[string]string:
		if len(v) == 0 {
			return
		}
	}
	d[name] = value
}

// setAny sets the value that a pointer points to, if any.
func setAny[T any](d document, name string, value *T) {
	if value != nil {
		d[name] = *value
	}
}

func (d document) duration(name string, value *metav1.Duration) {
	if value != nil {
		d[name] = value.Duration.String()
	}
}

// kubeletConfig returns the KubeletConfiguration, version v1beta1.
func (b *builder) kubeletConfig(c *api.KubeletConfigSpec) (string, error) {
	d := document{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	b.kubeletSecurity(d, c)
	if err := b.kubeletResources(d, c); err != nil {
		return "", err
	}
	b.kubeletRest(d, c)
	text, err := yaml.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("write the kubelet's configuration: %w", err)
	}
	return string(text), nil
}

// kubeletSecurity sets who may call the kubelet, and its keys.
func (b *builder) kubeletSecurity(d document, c *api.KubeletConfigSpec) {
	webhook := document{"enabled": c.AuthenticationTokenWebhook == nil || *c.AuthenticationTokenWebhook}
	webhook.duration("cacheTTL", c.AuthenticationTokenWebhookCacheTTL)
	d["authentication"] = document{
		"anonymous": document{"enabled": isTrue(c.AnonymousAuth)}, "webhook": webhook,
		"x509": document{"clientCAFile": orDefault(c.ClientCAFile, b.places.keys+"/ca.crt")},
	}
	d["authorization"] = document{"mode": orDefault(c.AuthorizationMode, "Webhook")}
	d.set("tlsCertFile", orDefault(c.TLSCertFile, b.places.keys+"/kubelet-server.crt"))
	d.set("tlsPrivateKeyFile", orDefault(c.TLSPrivateKeyFile, b.places.keys+"/kubelet-server.key"))
	d.set("tlsCipherSuites", c.TLSCipherSuites)
	d.set("tlsMinVersion", c.TLSMinVersion)
	setAny(d, "readOnlyPort", c.ReadOnlyPort)
	setAny(d, "rotateCertificates", c.RotateCertificates)
	setAny(d, "seccompDefault", c.SeccompDefault)
	setAny(d, "enableDebuggingHandlers", c.EnableDebuggingHandlers)
	d.set("allowedUnsafeSysctls", c.AllowedUnsafeSysctls)
	setAny(d, "protectKernelDefaults", c.ProtectKernelDefaults)
}

// kubeletResources sets how much of the machine pods may use.
func (b *builder) kubeletResources(d document, c *api.KubeletConfigSpec) error {
	for _, e := range []struct{ name, text, by string }{
		{"evictionHard", text(c.EvictionHard), "<"}, {"evictionSoft", c.EvictionSoft, "<"},
		{"evictionSoftGracePeriod", c.EvictionSoftGracePeriod, "="}, {"evictionMinimumReclaim", c.EvictionMinimumReclaim, "="},
	} {
		signals, err := split(e.text, e.by)
		if err != nil {
			return fmt.Errorf("kubelet.%s: %w", e.name, err)
		}
		d.set(e.name, signals)
	}
	d.duration("evictionPressureTransitionPeriod", c.EvictionPressureTransitionPeriod)
	if c.EvictionMaxPodGracePeriod != 0 {
		d["evictionMaxPodGracePeriod"] = c.EvictionMaxPodGracePeriod
	}
	d.set("cgroupDriver", c.CgroupDriver)
	d.set("cgroupRoot", c.CgroupRoot)
	d.set("kubeletCgroups", c.KubeletCgroups)
	d.set("systemCgroups", c.SystemCgroups)
	d.set("kubeReserved", c.KubeReserved)
	d.set("kubeReservedCgroup", c.KubeReservedCgroup)
	d.set("systemReserved", c.SystemReserved)
	d.set("systemReservedCgroup", c.SystemReservedCgroup)
	if c.EnforceNodeAllocatable != "" {
		d["enforceNodeAllocatable"] = strings.Split(c.EnforceNodeAllocatable, ",")
	}
	setAny(d, "cpuCFSQuota", c.CPUCFSQuota)
	d.duration("cpuCFSQuotaPeriod", c.CPUCFSQuotaPeriod)
	d.set("cpuManagerPolicy", c.CPUManagerPolicy)
	d.set("topologyManagerPolicy", c.TopologyManagerPolicy)
	setAny(d, "podPidsLimit", c.PodPidsLimit)
	if c.MaxPods != nil {
		d["maxPods"] = *c.MaxPods
	} else if b.Host.MaxPods > 0 {
		d["maxPods"] = min(110, b.Host.MaxPods)
	}
	setAny(d, "failSwapOn", c.FailSwapOn)
	if c.MemorySwapBehavior != "" {
		d["memorySwap"] = document{"swapBehavior": c.MemorySwapBehavior}
	}
	if b.Host.CgroupV1 && b.minor() >= 31 {
		d["failCgroupV1"] = false
	}
	if b.Host.Contained {
		d["oomScoreAdj"] = 0
	}
	setAny(d, "kernelMemcgNotification", c.KernelMemcgNotification)
	setAny(d, "imageGCHighThresholdPercent", c.ImageGCHighThresholdPercent)
	setAny(d, "imageGCLowThresholdPercent", c.ImageGCLowThresholdPercent)
	d.duration("imageMinimumGCAge", c.ImageMinimumGCAge)
	d.duration("imageMaximumGCAge", c.ImageMaximumGCAge)
	return nil
}

// kubeletRest sets how the kubelet works, and its connections.
func (b *builder) kubeletRest(d document, c *api.KubeletConfigSpec) {
	socket := containerdSocket
	if r := b.Config.ContainerdConfig; r != nil && text(r.Address) != "" {
		socket = "unix://" + *r.Address
	}
	d["containerRuntimeEndpoint"] = socket
	d.set("staticPodPath", orDefault(c.PodManifestPath, manifests))
	d.set("volumePluginDir", b.volumePlugins())
	if c.ClusterDNS != "" {
		d["clusterDNS"] = strings.Split(c.ClusterDNS, ",")
	}
	d.set("clusterDomain", c.ClusterDomain)
	switch {
	case c.ResolvConf != nil:
		d["resolvConf"] = *c.ResolvConf
	case b.Host.Resolved:
		d["resolvConf"] = "/run/systemd/resolve/resolv.conf"
	}
	d.set("providerID", b.Host.ProviderID)
	d.set("podCIDR", c.PodCIDR)
	d.set("hairpinMode", c.HairpinMode)
	setAny(d, "registerNode", c.RegisterNode)
	if taints := taintsOf(c.Taints); len(taints) > 0 {
		d["registerWithTaints"] = taints
	}
	gates := document{}
	for _, k := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		gates[k] = c.FeatureGates[k] == "true"
	}
	if len(gates) > 0 {
		d["featureGates"] = gates
	}
	d.duration("shutdownGracePeriod", c.ShutdownGracePeriod)
	d.duration("shutdownGracePeriodCriticalPods", c.ShutdownGracePeriodCriticalPods)
	d.duration("nodeStatusUpdateFrequency", c.NodeStatusUpdateFrequency)
	if b.Host.Traits.Prompt || b.isControlPlane() { // static pods then appear in the API soon after the API server is up
		d["syncFrequency"] = "10s"
	}
	setAny(d, "nodeLeaseDurationSeconds", c.NodeLeaseDurationSeconds)
	d.duration("streamingConnectionIdleTimeout", c.StreamingConnectionIdleTimeout)
	d.duration("volumeStatsAggPeriod", c.VolumeStatsAggPeriod)
	setAny(d, "serializeImagePulls", c.SerializeImagePulls)
	setAny(d, "maxParallelImagePulls", c.MaxParallelImagePulls)
	setAny(d, "registryPullQPS", c.RegistryPullQPS)
	setAny(d, "registryBurst", c.RegistryBurst)
	if c.EventQPS != nil {
		d["eventRecordQPS"] = *c.EventQPS
	} else {
		setAny(d, "eventRecordQPS", c.EventRecordQPS)
	}
	setAny(d, "eventBurst", c.EventBurst)
	setAny(d, "kubeAPIQPS", c.KubeAPIQPS)
	d.set("containerLogMaxSize", c.ContainerLogMaxSize)
	setAny(d, "containerLogMaxFiles", c.ContainerLogMaxFiles)
	longest := c.CrashLoopBackOffMaxContainerRestartPeriod
	switch {
	case longest != nil:
		d["crashLoopBackOff"] = document{"maxContainerRestartPeriod": longest.Duration.String()}
	case b.isControlPlane() && b.minor() >= 35:
		d["crashLoopBackOff"] = document{"maxContainerRestartPeriod": "1m0s"}
	}
}

// taintsOf parses taints of the form key=value:effect.
func taintsOf(in []string) []map[string]string {
	var out []map[string]string
	for _, t := range in {
		key, value, effect := labels.SplitTaint(t)
		taint := map[string]string{"key": key, "effect": effect}
		if value != "" {
			taint["value"] = value
		}
		out = append(out, taint)
	}
	return out
}

// split parses a list of signals with their thresholds.
func split(list, by string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, by)
		if !ok {
			return nil, fmt.Errorf("%q is not of the form signal%svalue", part, by)
		}
		out[name] = value
	}
	return out, nil
}

func orDefault(given, usual string) string {
	if given != "" {
		return given
	}
	return usual
}
