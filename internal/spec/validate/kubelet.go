package validate

import (
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
)

// kubelet checks a cluster's or a group's settings of the kubelet.
func kubelet(c *Check, path string, k *api.KubeletConfigSpec) {
	if k == nil {
		return
	}
	kubeletRemoved(c, path, k)
	path += "."
	c.domain(path+"clusterDomain", k.ClusterDomain)
	c.OneOf(path+"topologyManagerPolicy", k.TopologyManagerPolicy, "none", "best-effort", "restricted", "single-numa-node")
	c.OneOf(path+"logFormat", k.LogFormat, "text", "json")
	c.OneOf(path+"memorySwapBehavior", k.MemorySwapBehavior, "LimitedSwap", "UnlimitedSwap")
	c.kubeletReserved(path+"kubeReserved", k.KubeReserved)
	c.kubeletReserved(path+"systemReserved", k.SystemReserved)
	if size := k.ContainerLogMaxSize; size != "" {
		if _, err := resource.ParseQuantity(size); err != nil {
			c.Bad(path+"containerLogMaxSize", size, "is not a quantity", "write one such as 10Mi")
		}
	}
	if k.CloudProvider != "" && c.platform.Name != "" {
		c.OneOf(path+"cloudProvider", k.CloudProvider, "external") // with any other, no cloud controller manages the node
	}
	if critical := k.ShutdownGracePeriodCriticalPods; critical != nil {
		switch {
		case k.ShutdownGracePeriod == nil:
			c.Bad(path+"shutdownGracePeriodCriticalPods", critical.Duration.String(), "needs shutdownGracePeriod, because it is part of that time", "set shutdownGracePeriod")
		case critical.Duration > k.ShutdownGracePeriod.Duration:
			c.Bad(path+"shutdownGracePeriodCriticalPods", critical.Duration.String(), "is more than shutdownGracePeriod "+k.ShutdownGracePeriod.Duration.String()+", but it is part of that time", "lower it")
		}
	}
	if d := k.CrashLoopBackOffMaxContainerRestartPeriod; d != nil && (d.Duration < time.Second || d.Duration > 300*time.Second) {
		c.Bad(path+"crashLoopBackOffMaxContainerRestartPeriod", d.Duration.String(), "is not between 1s and 300s", "use a duration in this range")
	}
}

// kubeletRemoved reports settings that the kubelet no longer has.
func kubeletRemoved(c *Check, path string, k *api.KubeletConfigSpec) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"podInfraContainerImage", k.PodInfraContainerImage != ""},
		{"bootstrapKubeconfig", k.BootstrapKubeconfig != ""},
		{"enableCadvisorJsonEndpoints", k.EnableCadvisorJSONEndpoints != nil},
		{"cpuCFSQuotaPeriod", k.CPUCFSQuotaPeriod != nil},
		{"networkPluginName", k.NetworkPluginName != nil},
		{"networkPluginMTU", k.NetworkPluginMTU != nil},
		{"nonMasqueradeCIDR", k.NonMasqueradeCIDR != nil},
	} {
		if f.set {
			c.Bad(path+"."+f.name, "", "no longer exists in the kubelet", "remove it")
		}
	}
}

// containerd checks the container runtime of a cluster or a group.
func containerd(c *Check, r *api.ContainerdConfig) {
	if r == nil {
		return
	}
	const path = "spec.containerd."
	version, err := semver.Parse(text(r.Version))
	switch {
	case text(r.Version) == "":
	case err != nil:
		c.Bad(path+"version", *r.Version, "is not a version", "write one such as 2.3.4")
	case version.LT(semver.MustParse("2.1.0")):
		c.Bad(path+"version", *r.Version, "is too old", "use 2.1.0 or later, or remove it")
	}
	packages(c, path+"packages", r.Packages)
	registryMirrors(c, r.RegistryMirrors)
	if r.Runc != nil {
		packages(c, path+"runc.packages", r.Runc.Packages)
	}
	if n := r.NRI; n != nil {
		if d := n.PluginRegistrationTimeout; d != nil && d.Duration <= 0 {
			c.Bad(path+"nri.pluginRegistrationTimeout", d.Duration.String(), "is not more than 0", "write a duration such as 5s")
		}
		if d := n.PluginRequestTimeout; d != nil && d.Duration <= 0 {
			c.Bad(path+"nri.pluginRequestTimeout", d.Duration.String(), "is not more than 0", "write a duration such as 2s")
		}
	}
	if n := r.NvidiaGPU; n != nil && IsTrue(n.Enabled) && !c.isAlone() && !c.platform.Has.GPUDrivers {
		c.Bad(path+"nvidiaGPU.enabled", "true", "GPU drivers are not installed on "+c.title(), "remove it")
	}
}

// packages checks archives that replace kops' own: a URL and its hash must be set together.
func packages(c *Check, path string, p *api.PackagesConfig) {
	if p == nil {
		return
	}
	for _, a := range []struct {
		arch      string
		url, hash *string
	}{{"Amd64", p.URLAmd64, p.HashAmd64}, {"Arm64", p.URLArm64, p.HashArm64}} {
		if (text(a.url) == "") != (text(a.hash) == "") {
			c.Bad(path+".hash"+a.arch, text(a.hash), "must be set together with url"+a.arch, "set both or neither")
		}
		if sum := text(a.hash); sum != "" && !download.IsSHA256(sum) {
			c.Bad(path+".hash"+a.arch, sum, "is not a SHA-256", "write the 64 hexadecimal digits of the archive's SHA-256")
		}
	}
}

// clusterRuntime checks what is only allowed for groups.
func clusterRuntime(c *Check) {
	r := c.Spec.Containerd
	if r == nil {
		return
	}
	if r.GVisor != nil && IsTrue(r.GVisor.Enabled) {
		c.Bad("spec.containerd.gvisor.enabled", "true", "cannot be set for the whole cluster", "set it in instance groups with the role Node")
	}
}

// groupRuntime checks what is only allowed for groups of nodes.
func groupRuntime(c *Check, g *api.InstanceGroup) {
	if r := g.Spec.Containerd; r != nil && r.GVisor != nil && IsTrue(r.GVisor.Enabled) && g.Spec.Role != api.RoleNode {
		c.Bad("spec.containerd.gvisor.enabled", "true", "is only supported in groups with the role Node", "remove it")
	}
}
