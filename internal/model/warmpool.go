package model

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
)

// addWarmPool lists the images that machines should fetch while they wait in a warm pool.
func (in Input) addWarmPool(c *nodeconfig.Config, g *api.InstanceGroup) {
	pool := g.Spec.WarmPool
	if pool == nil || pool.MaxSize != nil && *pool.MaxSize == 0 {
		return
	}
	c.EnableLifecycleHook = pool.EnableLifecycleHook
	if g.Spec.Role != api.RoleNode && g.Spec.Role != api.RoleAPIServer {
		return
	}
	images := map[string]bool{}
	for _, f := range in.shared.addons.Files {
		for _, i := range f.Images {
			if strings.HasPrefix(f.Name, "networking.") || in.gatesReadiness(i.Public) {
				images[i.Used] = true
			}
		}
	}
	if c.KubeProxy != nil {
		images[c.KubeProxy.Image] = true
	}
	for _, i := range pool.AdditionalImages {
		images[i] = true
	}
	c.WarmPoolImages = slices.Sorted(maps.Keys(images))
}

// gatesReadiness reports whether a node only becomes ready when its pods with this image run.
func (in Input) gatesReadiness(image string) bool {
	return slices.ContainsFunc(in.Traits.Model.NodeImages, func(p string) bool { return strings.HasPrefix(image, p) })
}
