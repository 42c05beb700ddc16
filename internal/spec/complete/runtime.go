package complete

import "kops.local/kops/api"

// Versions of the container runtime that go together.
const (
	containerdVersion = "2.3.4"
	runcVersion       = "1.4.3"
	pauseImage        = "registry.k8s.io/pause:3.10.1"
)

func setContainerd(p *pass) {
	c := ensure(&p.spec.Containerd)
	if c.Version == nil || *c.Version == "" {
		c.Version = ptr(containerdVersion)
		fillPtr(&ensure(&c.Runc).Version, runcVersion)
	}
	fillPtr(&c.LogLevel, "info")
	fillPtr(&c.SandboxImage, p.mirrored(pauseImage))
	setRuntimeExtras(c)
}

// setRuntimeExtras fills what belongs to parts of the runtime that are enabled.
func setRuntimeExtras(c *api.ContainerdConfig) {
	if n := c.NvidiaGPU; n != nil && isTrue(n.Enabled) {
		fill(&n.Package, "nvidia-driver-535-server")
		fill(&n.Image, "nvcr.io/nvidia/k8s-device-plugin:v0.17.3")
	}
	if g := c.GVisor; g != nil && isTrue(g.Enabled) {
		fill(&g.Platform, "systrap")
	}
}
