package validate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/spec/diag"
)

func groupName(c *Check, g *api.InstanceGroup) {
	switch {
	case g.Name == "":
		c.Required("metadata.name", "specify a name, such as nodes")
	case len(g.Name) > validation.LabelValueMaxLength:
		c.long("metadata.name", g.Name, "characters", len(g.Name), "the node label with the name of the group", validation.LabelValueMaxLength)
	case len(validation.IsDNS1123Subdomain(g.Name)) > 0:
		c.Bad("metadata.name", g.Name, "is not a DNS name", "use lower-case letters, digits, dots and dashes; begin and end with a letter or a digit")
	}
}

func groupRole(c *Check, g *api.InstanceGroup) {
	switch g.Spec.Role {
	case "":
		c.Required("spec.role", "write Master, Node, Bastion or APIServer")
	case api.RoleEtcd, api.RoleScheduler, api.RoleKubeControllerManager:
		c.Bad("spec.role", string(g.Spec.Role), "is not supported yet", "use Master, Node, Bastion or APIServer")
	}
}

func apiServerRole(c *Check, g *api.InstanceGroup) {
	if g.Spec.Role != api.RoleAPIServer || c.input.Cluster == nil {
		return
	}
	switch {
	case !c.Feature("APIServerNodes"):
		c.Bad("spec.role", "APIServer", "is experimental", "set KOPS_FEATURE_FLAGS=APIServerNodes")
	case !c.platform.Has.APIServerNodes:
		c.Bad("spec.role", "APIServer", "is not supported on "+c.title(), "use Master")
	}
}

// subnet returns the cluster's subnet with that name.
func (c *Check) subnet(name string) (api.ClusterSubnetSpec, bool) {
	for _, s := range c.Spec.Networking.Subnets {
		if s.Name == name {
			return s, true
		}
	}
	return api.ClusterSubnetSpec{}, false
}

// unknownSubnet records a name that no subnet of the cluster has.
func (c *Check) unknownSubnet(path, name string) {
	var names []string
	for _, s := range c.Spec.Networking.Subnets {
		names = append(names, s.Name)
	}
	remedy := "use one of " + strings.Join(names, ", ")
	if strings.Join(names, "") == "" {
		remedy = "add it to spec.subnets of the cluster"
	}
	if near := diag.Nearest(name, names); near != "" {
		remedy = "did you mean " + near + "?"
	}
	c.Bad(path, name, "is not a subnet of the cluster", remedy)
}

func groupSubnets(c *Check, g *api.InstanceGroup) {
	if g.IsControlPlane() {
		c.Need(len(g.Spec.Subnets) > 0, "spec.subnets", "specify the subnet of the control plane")
	}
	if c.input.Cluster == nil {
		return
	}
	if c.input.Strict && len(g.Spec.Subnets) == 0 && len(c.Spec.Networking.Subnets) > 0 && !g.IsControlPlane() {
		c.Required("spec.subnets", "specify subnets; no subnet of the cluster suits the role by default")
	}
	for i, name := range g.Spec.Subnets {
		if _, ok := c.subnet(name); !ok {
			c.unknownSubnet(At("spec.subnets", i), name)
		}
	}
}

func groupSize(c *Check, g *api.InstanceGroup) {
	least, most := g.Spec.MinSize, g.Spec.MaxSize
	if c.input.Strict && g.Spec.Manager == api.ManagerCloudGroup {
		c.Need(least != nil, "spec.minSize", "specify the minimum number of machines")
		c.Need(most != nil, "spec.maxSize", "specify the maximum number of machines")
	}
	for _, s := range []struct {
		path  string
		value *int32
	}{{"spec.minSize", least}, {"spec.maxSize", most}} {
		switch {
		case s.value == nil:
		case *s.value < 0:
			c.Bad(s.path, Number(*s.value), "is less than 0", "write a number from 0")
		case g.IsControlPlane() && *s.value > 1:
			c.Bad(s.path, Number(*s.value), "a control plane group has one machine, because each keeps its own etcd volumes", "set it to 1, and add groups")
		}
	}
	if least != nil && most != nil && *least > *most {
		c.Bad("spec.maxSize", Number(*most), "is less than minSize "+Number(*least), "raise it, or lower minSize")
	}
}

// isMember checks that a control plane has a member of every etcd.
func isMember(c *Check, g *api.InstanceGroup) {
	if !g.IsControlPlane() || c.input.Cluster == nil {
		return
	}
	for i, e := range c.Spec.EtcdClusters {
		if !slices.ContainsFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool { return text(m.InstanceGroup) == g.Name }) {
			c.Bad("metadata.name", g.Name, "has no member in etcd "+e.Name, fmt.Sprintf("add a member with instanceGroup: %s to spec.etcdClusters[%d].etcdMembers of the cluster", g.Name, i))
		}
	}
}

func tenancy(c *Check, g *api.InstanceGroup) {
	c.OneOf("spec.tenancy", g.Spec.Tenancy, "default", "dedicated", "host")
	small := []string{"t2.nano", "t2.micro", "t2.small", "t2.medium", "t2.large", "t2.xlarge"}
	if g.Spec.Tenancy == "dedicated" && slices.Contains(small, g.Spec.MachineType) {
		c.Bad("spec.tenancy", g.Spec.Tenancy, "does not exist for "+g.Spec.MachineType, "choose another machine type, or remove it")
	}
}

func taints(c *Check, g *api.InstanceGroup) {
	seen := map[string]bool{}
	for i, t := range g.Spec.Taints {
		path := At("spec.taints", i)
		c.taint(path, t)
		key, _, effect := labels.SplitTaint(t)
		if seen[key+":"+effect] {
			c.Bad(path, t, "is listed twice", "remove one")
		}
		seen[key+":"+effect] = true
	}
	if k := g.Spec.Kubelet; k != nil {
		c.kubeletTaints("spec.kubelet", k, g.Spec.Taints...) // a completed group has its taints in both places
	}
}

// clusterTaints checks the taints of the nodes of all groups.
func clusterTaints(c *Check) {
	if k := c.Spec.Kubelet; k != nil {
		c.kubeletTaints("spec.kubelet", k)
	}
	if k := c.Spec.ControlPlaneKubelet; k != nil {
		c.kubeletTaints("spec.masterKubelet", k)
	}
}

// kubeletTaints checks taints with which kubelets register their nodes, except for some.
func (c *Check) kubeletTaints(path string, k *api.KubeletConfigSpec, except ...string) {
	for _, t := range k.Taints {
		if !slices.Contains(except, t) {
			c.taint(path+".taints", t) // without an index, because completion sorts them
		}
	}
}

// taint checks a taint as a kubelet does, which exits at once if it does not accept one of them. An
// effect that resembles none of Kubernetes' is a warning only: kOps' own examples have one.
func (c *Check) taint(path, t string) {
	key, value, effect := labels.SplitTaint(t)
	effects := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	const message, remedy = "has an effect that kubelets do not accept", "use NoSchedule, PreferNoSchedule or NoExecute"
	switch near := diag.Nearest(effect, effects); {
	case key == "" || effect == "" || strings.ContainsAny(effect, ":= "):
		c.Bad(path, t, "is not a taint", "write key=value:NoSchedule")
	case len(validation.IsQualifiedName(key)) > 0:
		c.Bad(path, t, "does not have a valid taint key", validKey)
	case len(validation.IsValidLabelValue(value)) > 0:
		c.Bad(path, t, "does not have a valid taint value", "use at most 63 letters, digits, dashes, dots and underscores; begin and end with a letter or a digit")
	case slices.Contains(effects, effect):
	case near != "":
		c.Bad(path, t, message, "did you mean "+near+"? "+remedy)
	default:
		c.Warn(path, t, message, remedy)
	}
}

func securityGroups(c *Check, g *api.InstanceGroup) {
	for i, id := range g.Spec.AdditionalSecurityGroups {
		c.GroupID(At("spec.additionalSecurityGroups", i), id)
	}
	c.Unique("spec.additionalSecurityGroups", g.Spec.AdditionalSecurityGroups)
	if g.Spec.SecurityGroupOverride != nil {
		c.GroupID("spec.securityGroupOverride", *g.Spec.SecurityGroupOverride)
	}
}

func groupImage(c *Check, g *api.InstanceGroup) {
	image := g.Spec.Image
	if image == "" {
		c.Need(!c.input.Strict, "spec.image", "specify a machine image")
		return
	}
	if len(c.Facts.Images) == 0 || g.Spec.Manager == api.ManagerKarpenter {
		return
	}
	if _, ok := c.Facts.Image(image); !ok {
		remedy := "check the name and the region"
		if forms := c.platform.Machines.ImageForms; forms != "" {
			remedy += "; write " + forms
		}
		c.Bad("spec.image", image, "was not found", remedy)
	}
}

// distribution rejects images whose machines nodeup cannot set up.
func distribution(c *Check, g *api.InstanceGroup) {
	image := strings.ToLower(g.Spec.Image)
	if strings.Contains(image, "coreos") {
		c.Bad("spec.image", g.Spec.Image, "is a CoreOS image, which is not supported", "use an image of Flatcar, Debian, Ubuntu, Amazon Linux 2023 or RHEL, or of a distribution based on RHEL")
	}
}
