package validate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

func rootVolume(c *Check, g *api.InstanceGroup) {
	v := g.Spec.RootVolume
	if v == nil {
		return
	}
	for _, f := range []struct {
		path  string
		value *int32
	}{{"spec.rootVolumeSize", v.Size}, {"spec.rootVolumeIops", v.IOPS}, {"spec.rootVolumeThroughput", v.Throughput}} {
		if f.value != nil && *f.value < 0 {
			c.Bad(f.path, Number(*f.value), "is less than 0", "write a number from 0")
		}
	}
}

func volumes(c *Check, g *api.InstanceGroup) {
	for i, v := range g.Spec.Volumes {
		c.Need(v.Device != "", At("spec.volumes", i)+".device", "specify the device, such as /dev/xvdd")
		if v.Size <= 0 {
			c.Bad(At("spec.volumes", i)+".size", Number(v.Size), "is not more than 0", "write the size in GB")
		}
	}
}

func volumeMounts(c *Check, g *api.InstanceGroup) {
	const list = "spec.volumeMounts"
	var folders []string
	for i, m := range g.Spec.VolumeMounts {
		field := At(list, i)
		c.Need(m.Device != "", field+".device", "specify the device, such as /dev/xvdd")
		c.Need(m.Path != "", field+".path", "specify the folder")
		if m.Path != "" && !path.IsAbs(m.Path) {
			c.Bad(field+".path", m.Path, "does not begin with /", "write an absolute path")
		}
		folders = append(folders, cleaned(m.Path))
		c.Need(m.Filesystem != "", field+".filesystem", "write ext4 or xfs")
		if m.Filesystem != "btfs" { // the spelling of btrfs in the format
			c.OneOf(field+".filesystem", m.Filesystem, "btrfs", "ext4", "xfs")
		}
	}
	c.Unique(list, folders)
}

// cleaned returns a path in its shortest form; an empty one stays empty.
func cleaned(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

func userData(c *Check, g *api.InstanceGroup) {
	for i, u := range g.Spec.AdditionalUserData {
		path := At("spec.additionalUserData", i)
		c.Need(u.Name != "", path+".name", "specify the name of the part")
		c.plain(path+".name", u.Name)
		c.Need(u.Content != "", path+".content", "specify the content of the part")
		c.Need(u.Type != "", path+".type", "write text/x-shellscript for a script")
		c.OneOf(path+".type", u.Type, "text/x-include-once-url", "text/x-include-url", "text/cloud-config-archive", "text/upstart-job",
			"text/cloud-config", "text/part-handler", "text/x-shellscript", "text/cloud-boothook")
	}
}

func spot(c *Check, g *api.InstanceGroup) {
	s := &g.Spec
	if d := s.SpotDurationInMinutes; d != nil && !slices.Contains([]int64{60, 120, 180, 240, 300, 360}, *d) {
		c.Bad("spec.spotDurationInMinutes", Number(*d), "is not supported", "use 60, 120, 180, 240, 300 or 360")
	}
	c.OneOf("spec.instanceInterruptionBehavior", text(s.InstanceInterruptionBehavior), "hibernate", "stop", "terminate")
	c.OneOf("spec.cpuCredits", text(s.CPUCredits), "standard", "unlimited")
}

func instanceMetadata(c *Check, g *api.InstanceGroup) {
	m := g.Spec.InstanceMetadata
	if m == nil {
		return
	}
	c.OneOf("spec.instanceMetadata.httpTokens", text(m.HTTPTokens), "optional", "required")
	if n := m.HTTPPutResponseHopLimit; n != nil && (*n < 1 || *n > 64) {
		c.Bad("spec.instanceMetadata.httpPutResponseHopLimit", Number(*n), "is not between 1 and 64", "use a number in this range")
	}
}

func mixedInstances(c *Check, g *api.InstanceGroup) {
	m := g.Spec.MixedInstancesPolicy
	if m == nil {
		return
	}
	const path = "spec.mixedInstancesPolicy."
	if n := m.OnDemandBase; n != nil {
		switch {
		case *n < 0:
			c.Bad(path+"onDemandBase", Number(*n), "is less than 0", "write a number from 0")
		case g.Spec.MaxSize != nil && *n > int64(*g.Spec.MaxSize):
			c.Bad(path+"onDemandBase", Number(*n), "is more than maxSize "+Number(*g.Spec.MaxSize), "lower it")
		}
	}
	if n := m.OnDemandAboveBase; n != nil && (*n < 0 || *n > 100) {
		c.Bad(path+"onDemandAboveBase", Number(*n), "is not a percentage", "write a number from 0 to 100")
	}
	if r := m.InstanceRequirements; r != nil {
		c.bounds(path+"instanceRequirements.cpu", r.CPU)
		c.bounds(path+"instanceRequirements.memory", r.Memory)
	}
	c.OneOf(path+"spotAllocationStrategy", text(m.SpotAllocationStrategy),
		"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized")
}

func lifetime(c *Check, g *api.InstanceGroup) {
	if d := g.Spec.MaxInstanceLifetime; d != nil && d.Duration != 0 && d.Duration < 24*time.Hour {
		c.Bad("spec.maxInstanceLifetime", d.Duration.String(), "is less than a day", "write 24h or more, or 0")
	}
}

// groupWarmPool checks a group's own pool. A completed group also has the cluster's pool, if it
// suits the role.
func groupWarmPool(c *Check, g *api.InstanceGroup) {
	w := g.Spec.WarmPool
	if w == nil {
		return
	}
	used := w.MaxSize == nil || *w.MaxSize != 0
	switch {
	case !c.isAlone() && !c.platform.Has.WarmPools: // it has no effect, see NoEffect
	case used && g.Spec.Role != api.RoleNode && g.Spec.Role != api.RoleAPIServer:
		c.Bad("spec.warmPool", "", "is only supported in groups with the role Node or APIServer", "remove it, or set maxSize to 0")
	case used && g.Spec.MaxPrice != nil:
		c.Bad("spec.warmPool", "", "cannot contain spot instances, which maxPrice requests", "remove one of them")
	}
	WarmPool(c, w)
}

func karpenterGroup(c *Check, g *api.InstanceGroup) {
	if g.Spec.Manager != api.ManagerKarpenter {
		return
	}
	if !c.isAlone() && !c.platform.Has.Karpenter {
		c.Bad("spec.manager", string(g.Spec.Manager), "does not exist on "+c.title(), "use CloudGroup")
	}
	if g.Spec.Role != api.RoleNode && g.Spec.Role != "" {
		c.Bad("spec.manager", string(g.Spec.Manager), "is only supported in groups with the role Node", "use CloudGroup")
	}
	for _, s := range []struct {
		path  string
		value *int32
	}{{"spec.minSize", g.Spec.MinSize}, {"spec.maxSize", g.Spec.MaxSize}} {
		if s.value != nil && *s.value <= 0 {
			c.Bad(s.path, Number(*s.value), "is not more than 0", "raise it, or remove it")
		}
	}
	switch k := c.Spec.Karpenter; {
	case c.isAlone() || !c.platform.Has.Karpenter || g.Spec.Role != api.RoleNode:
	case k == nil || !k.Enabled:
		c.Warn("spec.manager", string(g.Spec.Manager), "creates no machines, because the cluster does not run Karpenter", "set spec.karpenter.enabled of the cluster to true")
	case g.Spec.MinSize != nil && isOff(k.FeatureGates, "StaticCapacity"):
		c.Bad("spec.minSize", Number(*g.Spec.MinSize), "needs Karpenter's feature gate StaticCapacity", "remove it, or StaticCapacity=false in spec.karpenter.featureGates of the cluster")
	}
	if strings.Contains(g.Spec.Image, "://") {
		c.Bad("spec.image", g.Spec.Image, "is not an image that Karpenter can find", "write ami-…, ssm:/parameter, a name or owner/name")
	}
}

// isOff reports whether a list of feature gates, NAME=true or false, has one that is off.
func isOff(gates, name string) bool {
	for gate := range strings.SplitSeq(gates, ",") {
		key, value, _ := strings.Cut(gate, "=")
		if strings.TrimSpace(key) == name && strings.TrimSpace(value) == "false" {
			return true
		}
	}
	return false
}

// machineType checks that the type exists and runs the image.
func machineType(c *Check, g *api.InstanceGroup) {
	if len(c.Facts.MachineTypes) == 0 || g.Spec.MachineType == "" {
		return
	}
	for name := range strings.SplitSeq(g.Spec.MachineType, ",") {
		t, ok := c.Facts.MachineType(name)
		if !ok {
			c.unknownType("spec.machineType", name)
			continue
		}
		image, known := c.Facts.Image(g.Spec.Image)
		if known && image.Architecture != "" && !t.Supports(image.Architecture) {
			c.Bad("spec.machineType", name, fmt.Sprintf("cannot run spec.image, which is for %s", image.Architecture), "choose another machine type or image")
		}
	}
}

func (c *Check) unknownType(path, name string) {
	remedy := "check the name and the region"
	if near := diag.Nearest(name, sortedKeys(c.Facts.MachineTypes)); near != "" {
		remedy = "did you mean " + near + "?"
	}
	c.Bad(path, name, "is not a machine type in the region", remedy)
}

// mixedTypes checks that the types of a mixed group exist and are compatible.
func mixedTypes(c *Check, g *api.InstanceGroup) {
	m := g.Spec.MixedInstancesPolicy
	if len(c.Facts.MachineTypes) == 0 || m == nil {
		return
	}
	first := ""
	gpu := false
	for i, name := range m.Instances {
		path := At("spec.mixedInstancesPolicy.instances", i)
		t, ok := c.Facts.MachineType(name)
		switch {
		case !ok:
			c.unknownType(path, name)
		case first == "":
			first, gpu = name, t.GPU
		case t.GPU && !gpu:
			c.Bad(path, name, "has a GPU, but "+first+" does not", "use separate groups for types with and without a GPU")
		case gpu && !t.GPU:
			c.Bad(path, name, "has no GPU, but "+first+" does", "use separate groups for types with and without a GPU")
		}
	}
}

// WarmPool checks the sizes of a cluster's or a group's warm pool.
func WarmPool(c *Check, w *api.WarmPoolSpec) {
	if w == nil {
		return
	}
	const path = "spec.warmPool."
	if w.MinSize < 0 {
		c.Bad(path+"minSize", Number(w.MinSize), "is less than 0", "write a number from 0")
	}
	if w.MaxSize == nil {
		return
	}
	switch {
	case *w.MaxSize < 0:
		c.Bad(path+"maxSize", Number(*w.MaxSize), "is less than 0", "write a number from 0")
	case w.MinSize > *w.MaxSize:
		c.Bad(path+"minSize", Number(w.MinSize), "is more than maxSize "+Number(*w.MaxSize), "lower it, or raise maxSize")
	}
}
