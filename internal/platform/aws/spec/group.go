package spec

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
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
	return !private && fill.Or(g.Spec.AssociatePublicIP, true)
}

// HasTerminationQueue reports whether the node termination handler learns from a queue which
// machines will be terminated.
func HasTerminationQueue(a *api.AWSSpec) bool {
	h := a.NodeTerminationHandler
	return h != nil && fill.Or(h.Enabled, true) && fill.Or(h.EnableSQSTerminationDraining, true)
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
		t[fill.Or(a.NodeTerminationHandler.ManagedASGTag, "aws-node-termination-handler/managed")] = ""
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

// groupValues returns what the machines of a group are made of, for programs that create them.
func groupValues(c *api.Cluster, g *api.InstanceGroup, f *facts.Cloud) (map[string]any, error) {
	tags := GroupTags(c, g)
	tags[awscloud.ClusterTag], tags["Name"] = c.Name, awscloud.ScalingGroup(g.Name, string(g.Spec.Role), c.Name)
	maps.DeleteFunc(tags, func(k, _ string) bool { return isReservedTag(k) })
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
	labels, taints := nodeMarks(g)
	return map[string]any{
		"images": imageSelectors(g.Spec.Image), "disks": disks(g, f), "tags": tags, "profile": profile, "publicIP": public,
		"types": machineTypes(g), "requirements": requirements(g), "markets": markets(g), "labels": labels, "taints": taints,
	}, nil
}

// isReservedTag reports whether Karpenter sets a tag itself, and rejects it from others.
func isReservedTag(key string) bool {
	return strings.HasPrefix(key, "kubernetes.io/cluster") || slices.Contains([]string{
		"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"}, key)
}

// taint is a taint of nodes.
type taint struct{ Key, Value, Effect string }

// nodeMarks returns the labels and taints of a group's nodes, except those that Karpenter sets
// itself, and rejects from others.
func nodeMarks(g *api.InstanceGroup) (labels map[string]string, taints []taint) {
	labels = map[string]string{}
	k := fill.Or(g.Spec.Kubelet, api.KubeletConfigSpec{})
	for key, value := range k.NodeLabels {
		domain, _, _ := strings.Cut(key, "/")
		own := slices.ContainsFunc([]string{"karpenter.sh", "karpenter.k8s.aws"}, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
		if !own && key != "kubernetes.io/hostname" {
			labels[key] = value
		}
	}
	for _, text := range k.Taints {
		rest, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(rest, "=")
		if key != "karpenter.sh/unregistered" {
			taints = append(taints, taint{key, value, effect})
		}
	}
	return labels, taints
}

// machineTypes returns the types that a group's machines may have, sorted; none means any.
// Requirements replace the types: Karpenter would choose only among the types that meet both.
func machineTypes(g *api.InstanceGroup) []string {
	p := fill.Or(g.Spec.MixedInstancesPolicy, api.MixedInstancesPolicySpec{})
	if p.InstanceRequirements != nil {
		return nil
	}
	out := slices.Clone(p.Instances)
	for name := range strings.SplitSeq(g.Spec.MachineType, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// requirement is a requirement of machine types, as Karpenter spells it.
type requirement struct {
	Key, Operator string
	Values        []string
}

// Labels of machine types.
const (
	labelType   = "node.kubernetes.io/instance-type"
	labelFamily = "karpenter.k8s.aws/instance-family"
	labelCPU    = "karpenter.k8s.aws/instance-cpu"    // processors
	labelMemory = "karpenter.k8s.aws/instance-memory" // MiB
)

// requirements returns what selects machine types by their properties.
func requirements(g *api.InstanceGroup) []requirement {
	p := g.Spec.MixedInstancesPolicy
	if p == nil || p.InstanceRequirements == nil {
		return nil
	}
	r := p.InstanceRequirements
	const mebi = 1 << 20
	out := slices.Concat(bounds(labelCPU, r.CPU, 1), bounds(labelMemory, r.Memory, mebi))
	excluded := map[string][]string{}
	for _, text := range r.ExcludedInstanceTypes {
		if key, value, ok := excludedTypes(text); ok {
			excluded[key] = append(excluded[key], value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(excluded)) {
		out = append(out, requirement{key, "NotIn", excluded[key]})
	}
	return out
}

// bounds returns the requirements of a minimum and a maximum, which Karpenter's operators exclude.
// It compares whole units only: a minimum is rounded up, and a maximum down.
func bounds(key string, m *api.MinMaxSpec, unit int64) (out []requirement) {
	if m != nil && m.Min != nil {
		n := m.Min.Value() // rounded up
		if n > 0 {
			out = append(out, requirement{key, "Gt", []string{strconv.FormatInt((n-1)/unit, 10)}})
		}
	}
	if m != nil && m.Max != nil {
		n := m.Max.Value()
		if m.Max.CmpInt64(n) < 0 { // it was rounded up
			n--
		}
		out = append(out, requirement{key, "Lt", []string{strconv.FormatInt(n/unit+1, 10)}})
	}
	return out
}

// Types and families as AWS names them. Karpenter compares them as they are, and an API server
// rejects a pool with a value that cannot be the value of a label.
var (
	typeName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?\.[a-z0-9]([a-z0-9-]*[a-z0-9])?$`) // m5.large, u7i-12tb.224xlarge
	familyName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)                                // m5
)

// excludedTypes returns the label and the value of excluded types: one type, such as m5.large, or a
// family, such as m5.*. Karpenter knows no other patterns.
func excludedTypes(text string) (key, value string, ok bool) {
	text = strings.TrimSpace(text)
	if family, isFamily := strings.CutSuffix(text, ".*"); isFamily {
		return labelFamily, family, familyName.MatchString(family)
	}
	return labelType, text, typeName.MatchString(text)
}

// markets returns how a group's machines may be bought.
func markets(g *api.InstanceGroup) []string {
	p := g.Spec.MixedInstancesPolicy
	switch {
	case fill.Or(g.Spec.MaxPrice, "") != "" || g.Spec.SpotDurationInMinutes != nil:
		return []string{"spot"}
	case p != nil && fill.Or(p.OnDemandAboveBase, 100) < 100:
		return []string{"on-demand", "spot"}
	}
	return []string{"on-demand"}
}

// imageSelectors returns the selectors of an image, one of which matches, as Karpenter spells them.
func imageSelectors(text string) []map[string]string {
	i := ParseImage(text)
	switch {
	case i.ID != "":
		return []map[string]string{{"id": i.ID}}
	case i.Parameter != "":
		return []map[string]string{{"ssmParameter": i.Parameter}}
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
	v := fill.Or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{})
	root := disk{Device: cmp.Or(image.RootDevice, "/dev/xvda"), Root: true, Encrypted: fill.Or(v.Encryption, true), Key: fill.Or(v.EncryptionKey, ""),
		GiB: int64(fill.Or(v.Size, 128)), Type: fill.Or(v.Type, DefaultVolumeType)}
	root.IOPS, root.Throughput = VolumeSpeed(root.Type, int(fill.Or(v.IOPS, 0)), int(fill.Or(v.Throughput, 0)))
	out := []disk{root}
	for _, v := range g.Spec.Volumes {
		d := disk{Device: v.Device, Keep: !fill.Or(v.DeleteOnTermination, true), Encrypted: fill.Or(v.Encrypted, true), Key: fill.Or(v.Key, ""),
			GiB: v.Size, Type: cmp.Or(v.Type, DefaultVolumeType)}
		d.IOPS, d.Throughput = VolumeSpeed(d.Type, int(fill.Or(v.IOPS, 0)), int(fill.Or(v.Throughput, 0)))
		out = append(out, d)
	}
	return out
}
