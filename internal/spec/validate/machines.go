package validate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// awsFacts are those of AWS, or nil.
func (c *check) awsFacts() *facts.AWS {
	if c.in.Facts == nil {
		return nil
	}
	return c.in.Facts.AWS
}

func rootVolume(c *check, g *api.InstanceGroup) {
	v := g.Spec.RootVolume
	if v == nil {
		return
	}
	for _, f := range []struct {
		path  string
		value *int32
	}{{"spec.rootVolumeSize", v.Size}, {"spec.rootVolumeIops", v.IOPS}, {"spec.rootVolumeThroughput", v.Throughput}} {
		if f.value != nil && *f.value < 0 {
			c.bad(f.path, number(*f.value), "is less than 0", "write a number from 0")
		}
	}
}

func awsRootVolume(c *check, g *api.InstanceGroup) {
	if v := g.Spec.RootVolume; v != nil {
		c.oneOf("spec.rootVolumeType", text(v.Type), "standard", "gp3", "gp2", "io1", "io2")
	}
}

func volumes(c *check, g *api.InstanceGroup) {
	for i, v := range g.Spec.Volumes {
		c.need(v.Device != "", at("spec.volumes", i)+".device", "name the device, such as /dev/xvdd")
		if v.Size <= 0 {
			c.bad(at("spec.volumes", i)+".size", number(v.Size), "is not more than 0", "write the size in GB")
		}
	}
}

func volumeMounts(c *check, g *api.InstanceGroup) {
	const list = "spec.volumeMounts"
	var folders []string
	for i, m := range g.Spec.VolumeMounts {
		field := at(list, i)
		c.need(m.Device != "", field+".device", "name the device, such as /dev/xvdd")
		c.need(m.Path != "", field+".path", "name the folder")
		if m.Path != "" && !path.IsAbs(m.Path) {
			c.bad(field+".path", m.Path, "does not begin with /", "write the whole path")
		}
		folders = append(folders, cleaned(m.Path))
		c.need(m.Filesystem != "", field+".filesystem", "write ext4 or xfs")
		if m.Filesystem != "btfs" { // as the format spells btrfs
			c.oneOf(field+".filesystem", m.Filesystem, "btrfs", "ext4", "xfs")
		}
	}
	c.unique(list, folders)
}

// cleaned is a path in its shortest form; an empty one stays empty.
func cleaned(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

func userData(c *check, g *api.InstanceGroup) {
	for i, u := range g.Spec.AdditionalUserData {
		path := at("spec.additionalUserData", i)
		c.need(u.Name != "", path+".name", "name the part")
		c.plain(path+".name", u.Name)
		c.need(u.Content != "", path+".content", "write what the part holds")
		c.need(u.Type != "", path+".type", "write text/x-shellscript for a script")
		c.oneOf(path+".type", u.Type, "text/x-include-once-url", "text/x-include-url", "text/cloud-config-archive", "text/upstart-job",
			"text/cloud-config", "text/part-handler", "text/x-shellscript", "text/cloud-boothook")
	}
}

func spot(c *check, g *api.InstanceGroup) {
	s := &g.Spec
	if d := s.SpotDurationInMinutes; d != nil && !slices.Contains([]int64{60, 120, 180, 240, 300, 360}, *d) {
		c.bad("spec.spotDurationInMinutes", number(*d), "is not supported", "use 60, 120, 180, 240, 300 or 360")
	}
	c.oneOf("spec.instanceInterruptionBehavior", text(s.InstanceInterruptionBehavior), "hibernate", "stop", "terminate")
	c.oneOf("spec.cpuCredits", text(s.CPUCredits), "standard", "unlimited")
}

func instanceMetadata(c *check, g *api.InstanceGroup) {
	m := g.Spec.InstanceMetadata
	if m == nil {
		return
	}
	c.oneOf("spec.instanceMetadata.httpTokens", text(m.HTTPTokens), "optional", "required")
	if n := m.HTTPPutResponseHopLimit; n != nil && (*n < 1 || *n > 64) {
		c.bad("spec.instanceMetadata.httpPutResponseHopLimit", number(*n), "is not between 1 and 64", "write a number in between")
	}
}

func mixedInstances(c *check, g *api.InstanceGroup) {
	m := g.Spec.MixedInstancesPolicy
	if m == nil {
		return
	}
	const path = "spec.mixedInstancesPolicy."
	if n := m.OnDemandBase; n != nil {
		switch {
		case *n < 0:
			c.bad(path+"onDemandBase", number(*n), "is less than 0", "write a number from 0")
		case g.Spec.MaxSize != nil && *n > int64(*g.Spec.MaxSize):
			c.bad(path+"onDemandBase", number(*n), "is more than maxSize "+number(*g.Spec.MaxSize), "lower it")
		}
	}
	if n := m.OnDemandAboveBase; n != nil && (*n < 0 || *n > 100) {
		c.bad(path+"onDemandAboveBase", number(*n), "is not a percentage", "write a number from 0 to 100")
	}
	c.oneOf(path+"spotAllocationStrategy", text(m.SpotAllocationStrategy),
		"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized")
}

func externalBalancers(c *check, g *api.InstanceGroup) {
	for i, lb := range g.Spec.ExternalLoadBalancers {
		path := at("spec.externalLoadBalancers", i)
		name, arn := text(lb.LoadBalancerName), text(lb.TargetGroupARN)
		if (name == "") == (arn == "") {
			c.bad(path, "", "must have loadBalancerName or targetGroupArn, and not both", "leave one of them")
		}
		if len(name) > 32 {
			c.bad(path+".loadBalancerName", name, "has more than 32 characters", "write the name as AWS has it")
		}
		if arn != "" && !isTargetGroup(arn) {
			c.bad(path+".targetGroupArn", arn, "is not the ARN of a target group", "write one such as arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/name/0123456789abcdef")
		}
	}
}

func isTargetGroup(arn string) bool {
	fields := strings.SplitN(arn, ":", 6)
	if len(fields) != 6 || fields[0] != "arn" {
		return false
	}
	parts := strings.Split(fields[5], "/")
	return len(parts) == 3 && parts[0] == "targetgroup" && parts[1] != "" && len(parts[1]) <= 32 && parts[2] != ""
}

func instanceProfile(c *check, g *api.InstanceGroup) {
	if g.Spec.IAM == nil || g.Spec.IAM.Profile == nil {
		return
	}
	arn := *g.Spec.IAM.Profile
	if fields := strings.SplitN(arn, ":", 6); len(fields) != 6 || fields[0] != "arn" || !strings.HasPrefix(fields[5], "instance-profile/") {
		c.bad("spec.iam.profile", arn, "is not the ARN of an instance profile", "write one such as arn:aws:iam::123456789012:instance-profile/name")
	}
}

func lifetime(c *check, g *api.InstanceGroup) {
	if d := g.Spec.MaxInstanceLifetime; d != nil && d.Duration != 0 && d.Duration < 24*time.Hour {
		c.bad("spec.maxInstanceLifetime", d.Duration.String(), "is less than a day", "write 24h or more, or 0")
	}
}

// groupWarmPool checks a pool that the group asks for itself. A completed group
// has the cluster's pool as well, where it suits the role.
func groupWarmPool(c *check, g *api.InstanceGroup) {
	w := g.Spec.WarmPool
	if w == nil {
		return
	}
	used := w.MaxSize == nil || *w.MaxSize != 0
	switch {
	case c.cloud != "" && c.cloud != api.CloudAWS: // it has no effect, see NoEffect
	case used && g.Spec.Role != api.RoleNode && g.Spec.Role != api.RoleAPIServer:
		c.bad("spec.warmPool", "", "is for groups of role Node or APIServer", "remove it, or set maxSize to 0")
	case used && g.Spec.MaxPrice != nil:
		c.bad("spec.warmPool", "", "cannot hold spot instances, which maxPrice asks for", "remove one of them")
	}
	warmPool(c, w)
}

func karpenterGroup(c *check, g *api.InstanceGroup) {
	if g.Spec.Manager != api.ManagerKarpenter {
		return
	}
	if c.cloud != "" && c.cloud != api.CloudAWS {
		c.bad("spec.manager", string(g.Spec.Manager), "exists on AWS only", "use CloudGroup")
	}
	if g.Spec.Role != api.RoleNode && g.Spec.Role != "" {
		c.bad("spec.manager", string(g.Spec.Manager), "is for groups of role Node", "use CloudGroup")
	}
	for _, s := range []struct {
		path  string
		value *int32
	}{{"spec.minSize", g.Spec.MinSize}, {"spec.maxSize", g.Spec.MaxSize}} {
		if s.value != nil && *s.value <= 0 {
			c.bad(s.path, number(*s.value), "is not more than 0", "raise it, or remove it")
		}
	}
	if strings.Contains(g.Spec.Image, "://") {
		c.bad("spec.image", g.Spec.Image, "is not an image that Karpenter finds", "write ami-…, ssm:/parameter, a name or owner/name")
	}
}

// machineType checks that the type exists and runs the image.
func machineType(c *check, g *api.InstanceGroup) {
	aws := c.awsFacts()
	if aws == nil || len(aws.MachineTypes) == 0 || g.Spec.MachineType == "" {
		return
	}
	for name := range strings.SplitSeq(g.Spec.MachineType, ",") {
		t, ok := aws.MachineType(name)
		if !ok {
			c.unknownType("spec.machineType", name)
			continue
		}
		image, known := aws.Image(g.Spec.Image)
		if known && image.Architecture != "" && !t.Supports(image.Architecture) {
			c.bad("spec.machineType", name, fmt.Sprintf("does not run images for %s, and spec.image is one", image.Architecture), "choose another machine type or image")
		}
	}
}

func (c *check) unknownType(path, name string) {
	remedy := "check the name and the region"
	if near := diag.Nearest(name, sortedKeys(c.awsFacts().MachineTypes)); near != "" {
		remedy = "did you mean " + near + "?"
	}
	c.bad(path, name, "is no machine type of the region", remedy)
}

// mixedTypes checks that the types of a mixed group exist and are of one sort.
func mixedTypes(c *check, g *api.InstanceGroup) {
	aws := c.awsFacts()
	m := g.Spec.MixedInstancesPolicy
	if aws == nil || len(aws.MachineTypes) == 0 || m == nil {
		return
	}
	first := ""
	gpu := false
	for i, name := range m.Instances {
		path := at("spec.mixedInstancesPolicy.instances", i)
		t, ok := aws.MachineType(name)
		switch {
		case !ok:
			c.unknownType(path, name)
		case first == "":
			first, gpu = name, t.GPU
		case t.GPU && !gpu:
			c.bad(path, name, "has a GPU, and "+first+" has none", "keep types with and without a GPU in groups of their own")
		case gpu && !t.GPU:
			c.bad(path, name, "has no GPU, and "+first+" has one", "keep types with and without a GPU in groups of their own")
		}
	}
}
