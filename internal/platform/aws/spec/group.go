package spec

import (
	"cmp"
	"maps"
	"path"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/spec/facts"
)

// Defaults for a volume: the free performance of gp3, and what kOps sets for the types that require
// a value.
const (
	DefaultVolumeType = "gp3"
	gp3IOPS           = 3000
	gp3Throughput     = 125 // MiB/s
	provisionedIOPS   = 100 // io1 and io2
)

// Tags of a group's machines.
const (
	TagRolePrefix    = "k8s.io/role/" // followed by the role, "1"
	tagInstanceGroup = api.LabelInstanceGroup
	tagNodeLabel     = "k8s.io/cluster-autoscaler/node-template/label/"
	tagNodeTaint     = "k8s.io/cluster-autoscaler/node-template/taint/"
	taintGPU         = "nvidia.com/gpu"
)

// VolumeSpeed completes the performance of a volume. Types without a configurable performance get
// 0. IOPS below a type's minimum are raised to it.
func VolumeSpeed(kind string, iops, throughput int) (int, int) {
	switch kind {
	case "gp3":
		return max(iops, gp3IOPS), cmp.Or(throughput, gp3Throughput)
	case "io1", "io2":
		return max(iops, provisionedIOPS), 0
	}
	return 0, 0
}

// PublicIP reports whether a group's machines have public addresses: only in public subnets, unless
// the spec disables it.
func PublicIP(g *api.InstanceGroup, in *api.ClusterSubnetSpec) bool {
	private := in.Type == api.SubnetPrivate || in.Type == api.SubnetDualStack
	return !private && valueOr(g.Spec.AssociatePublicIP, true)
}

// HasTerminationQueue reports whether the node termination handler learns from a queue which
// machines will be terminated.
func HasTerminationQueue(a *api.AWSSpec) bool {
	h := a.NodeTerminationHandler
	return h != nil && valueOr(h.Enabled, true) && valueOr(h.EnableSQSTerminationDraining, true)
}

// GroupTags returns the tags of a group's machines, apart from those of all objects of the cluster.
func GroupTags(c *api.Cluster, g *api.InstanceGroup) map[string]string {
	t := map[string]string{}
	maps.Copy(t, c.Spec.CloudLabels)
	maps.Copy(t, g.Spec.CloudLabels)
	if g.Spec.Kubelet != nil && !g.IsBastion() {
		for k, v := range g.Spec.Kubelet.NodeLabels {
			t[tagNodeLabel+k] = v
		}
	}
	for _, taint := range g.Spec.Taints {
		if key, rest, ok := strings.Cut(taint, "="); ok {
			t[tagNodeTaint+key] = rest
		} else if key, effect, ok := strings.Cut(taint, ":"); ok && key == taintGPU { // completion writes this taint without a value
			t[tagNodeTaint+key] = ":" + effect
		}
	}
	for _, r := range roleTags(g.Spec.Role) {
		t[TagRolePrefix+r] = "1"
	}
	t[tagInstanceGroup] = g.Name
	if a := c.Spec.CloudProvider.AWS; HasTerminationQueue(a) {
		t[valueOr(a.NodeTerminationHandler.ManagedASGTag, "aws-node-termination-handler/managed")] = ""
	}
	return t
}

// roleTags returns the roles in a group's tags.
func roleTags(r api.InstanceGroupRole) []string {
	switch r {
	case api.RoleControlPlane:
		return []string{"control-plane", "master"}
	case api.RoleAPIServer:
		return []string{"apiserver"}
	case api.RoleBastion:
		return []string{"bastion"}
	}
	return []string{"node"}
}

// groupValues returns what the machines of a group are made of, for programs that create them: the
// selectors of its image, the disks, the tags, the instance profile, and whether they have public
// addresses.
func groupValues(c *api.Cluster, g *api.InstanceGroup, f *facts.Cloud) (map[string]any, error) {
	tags := GroupTags(c, g)
	tags[awscloud.ClusterTag], tags["Name"] = c.Name, awscloud.ScalingGroup(g.Name, string(g.Spec.Role), c.Name)
	profile := awsname.MachineRole("nodes", c.Name)
	if p := g.Spec.IAM; p != nil && p.Profile != nil {
		profile = path.Base(*p.Profile)
	}
	public := false
	for i := range c.Spec.Networking.Subnets {
		if s := &c.Spec.Networking.Subnets[i]; len(g.Spec.Subnets) > 0 && s.Name == g.Spec.Subnets[0] {
			public = PublicIP(g, s)
		}
	}
	return map[string]any{
		"images": imageSelectors(g.Spec.Image), "disks": disks(g, f), "tags": tags, "profile": profile, "publicIP": public,
	}, nil
}

// imageSelectors returns the selectors of an image, one of which matches.
func imageSelectors(text string) []map[string]string {
	i := ParseImage(text)
	switch {
	case i.ID != "":
		return []map[string]string{{"id": i.ID}}
	case i.Parameter != "":
		return []map[string]string{{"parameter": i.Parameter}}
	}
	var out []map[string]string
	for _, name := range i.Names {
		out = append(out, map[string]string{"name": name, "owner": i.Owner})
	}
	return out
}

// disk is a disk of a machine.
type disk struct {
	Device           string
	Root             bool
	Keep             bool // when the machine is terminated
	Encrypted        bool
	Key              string
	GiB              int64
	Type             string
	IOPS, Throughput int
}

// disks returns the disks of a group's machines, the root disk first.
func disks(g *api.InstanceGroup, f *facts.Cloud) []disk {
	image, _ := f.Image(g.Spec.Image)
	v := valueOr(g.Spec.RootVolume, api.InstanceRootVolumeSpec{})
	root := disk{Device: cmp.Or(image.RootDevice, "/dev/xvda"), Root: true, Encrypted: valueOr(v.Encryption, true), Key: valueOr(v.EncryptionKey, ""),
		GiB: int64(valueOr(v.Size, 128)), Type: valueOr(v.Type, DefaultVolumeType)}
	root.IOPS, root.Throughput = VolumeSpeed(root.Type, int(valueOr(v.IOPS, 0)), int(valueOr(v.Throughput, 0)))
	out := []disk{root}
	for _, v := range g.Spec.Volumes {
		d := disk{Device: v.Device, Keep: !valueOr(v.DeleteOnTermination, true), Encrypted: valueOr(v.Encrypted, true), Key: valueOr(v.Key, ""),
			GiB: v.Size, Type: cmp.Or(v.Type, DefaultVolumeType)}
		d.IOPS, d.Throughput = VolumeSpeed(d.Type, int(valueOr(v.IOPS, 0)), int(valueOr(v.Throughput, 0)))
		out = append(out, d)
	}
	return out
}

// valueOr returns the value that p points to, or otherwise if p is nil.
func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
