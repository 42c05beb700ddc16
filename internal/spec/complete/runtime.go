package complete

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// Compatible versions of the container runtime's parts.
const (
	containerdVersion = "2.3.4"
	runcVersion       = "1.4.3"
	pauseImage        = "registry.k8s.io/pause:3.10.1"
)

func setContainerd(p *Pass) {
	c := fill.Ensure(&p.Spec.Containerd)
	if c.Version == nil || *c.Version == "" {
		c.Version = ptr(containerdVersion)
		fill.Ptr(&fill.Ensure(&c.Runc).Version, runcVersion)
	}
	fill.Ptr(&c.LogLevel, "info")
	fill.Ptr(&c.SandboxImage, p.mirrored(pauseImage))
	setRuntimeExtras(c)
}

// setRuntimeExtras fills the settings of enabled parts of the runtime.
func setRuntimeExtras(c *api.ContainerdConfig) {
	if n := c.NvidiaGPU; n != nil && isTrue(n.Enabled) {
		fill.Value(&n.Package, "nvidia-driver-535-server")
		fill.Value(&n.Image, "nvcr.io/nvidia/k8s-device-plugin:v0.17.3")
	}
	if g := c.GVisor; g != nil && isTrue(g.Enabled) {
		fill.Value(&g.Platform, "systrap")
	}
}
