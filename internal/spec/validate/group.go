package validate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
)

func groupName(c *check, g *api.InstanceGroup) {
	switch {
	case g.Name == "":
		c.required("metadata.name", "name the group, such as nodes")
	case len(g.Name) > validation.LabelValueMaxLength:
		c.long("metadata.name", g.Name, "characters", len(g.Name), "the label of nodes that names their group", validation.LabelValueMaxLength)
	case len(validation.IsDNS1123Subdomain(g.Name)) > 0:
		c.bad("metadata.name", g.Name, "is not a DNS name", "use lower-case letters, digits, dots and dashes; begin and end with a letter or a digit")
	}
}

func groupRole(c *check, g *api.InstanceGroup) {
	switch g.Spec.Role {
	case "":
		c.required("spec.role", "write Master, Node, Bastion or APIServer")
	case api.RoleEtcd, api.RoleScheduler, api.RoleKubeControllerManager:
		c.bad("spec.role", string(g.Spec.Role), "is not supported yet", "use Master, Node, Bastion or APIServer")
	}
}

func apiServerRole(c *check, g *api.InstanceGroup) {
	if g.Spec.Role != api.RoleAPIServer || c.in.Cluster == nil {
		return
	}
	switch {
	case !c.in.Features["APIServerNodes"]:
		c.bad("spec.role", "APIServer", "is experimental", "set KOPS_FEATURE_FLAGS=APIServerNodes")
	case !c.onCloud(api.CloudGCE, api.CloudAWS):
		c.bad("spec.role", "APIServer", "is not supported on "+title(c.cloud), "use Master")
	case c.cloud == api.CloudAWS && complete.DNS(c.spec) == api.DNSNone:
		c.bad("spec.role", "APIServer", "needs names in DNS on AWS, and spec.topology.dns.type is None", "publish names, or use Master")
	}
}

// subnet is the cluster's subnet of that name.
func (c *check) subnet(name string) (api.ClusterSubnetSpec, bool) {
	for _, s := range c.spec.Networking.Subnets {
		if s.Name == name {
			return s, true
		}
	}
	return api.ClusterSubnetSpec{}, false
}

// unknownSubnet notes a name that no subnet of the cluster has.
func (c *check) unknownSubnet(path, name string) {
	var names []string
	for _, s := range c.spec.Networking.Subnets {
		names = append(names, s.Name)
	}
	remedy := "use one of " + strings.Join(names, ", ")
	if strings.Join(names, "") == "" {
		remedy = "add it to spec.subnets of the cluster"
	}
	if near := diag.Nearest(name, names); near != "" {
		remedy = "did you mean " + near + "?"
	}
	c.bad(path, name, "is no subnet of the cluster", remedy)
}

func groupSubnets(c *check, g *api.InstanceGroup) {
	if g.IsControlPlane() {
		c.need(len(g.Spec.Subnets) > 0, "spec.subnets", "name the subnet in which the control plane stands")
	}
	if c.in.Cluster == nil {
		return
	}
	if c.in.Strict && len(g.Spec.Subnets) == 0 && len(c.spec.Networking.Subnets) > 0 && !g.IsControlPlane() {
		c.required("spec.subnets", "name subnets of the cluster, which has none that suits the role")
	}
	for i, name := range g.Spec.Subnets {
		if _, ok := c.subnet(name); !ok {
			c.unknownSubnet(at("spec.subnets", i), name)
		}
	}
}

func groupSize(c *check, g *api.InstanceGroup) {
	least, most := g.Spec.MinSize, g.Spec.MaxSize
	if c.in.Strict && g.Spec.Manager == api.ManagerCloudGroup {
		c.need(least != nil, "spec.minSize", "write the least number of machines")
		c.need(most != nil, "spec.maxSize", "write the greatest number of machines")
	}
	for _, s := range []struct {
		path  string
		value *int32
	}{{"spec.minSize", least}, {"spec.maxSize", most}} {
		switch {
		case s.value == nil:
		case *s.value < 0:
			c.bad(s.path, number(*s.value), "is less than 0", "write a number from 0")
		case g.IsControlPlane() && *s.value > 1:
			c.bad(s.path, number(*s.value), "a control plane group has one machine, because each keeps its own etcd volumes", "set it to 1, and add groups")
		}
	}
	if least != nil && most != nil && *least > *most {
		c.bad("spec.maxSize", number(*most), "is less than minSize "+number(*least), "raise it, or lower minSize")
	}
}

// isMember checks that a control plane takes part in every etcd.
func isMember(c *check, g *api.InstanceGroup) {
	if !g.IsControlPlane() || c.in.Cluster == nil {
		return
	}
	for i, e := range c.spec.EtcdClusters {
		if !slices.ContainsFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool { return text(m.InstanceGroup) == g.Name }) {
			c.bad("metadata.name", g.Name, "is in no member of the etcd "+e.Name, fmt.Sprintf("add a member with instanceGroup: %s to spec.etcdClusters[%d].etcdMembers of the cluster", g.Name, i))
		}
	}
}

func tenancy(c *check, g *api.InstanceGroup) {
	c.oneOf("spec.tenancy", g.Spec.Tenancy, "default", "dedicated", "host")
	small := []string{"t2.nano", "t2.micro", "t2.small", "t2.medium", "t2.large", "t2.xlarge"}
	if g.Spec.Tenancy == "dedicated" && slices.Contains(small, g.Spec.MachineType) {
		c.bad("spec.tenancy", g.Spec.Tenancy, "does not exist for "+g.Spec.MachineType, "choose another machine type, or remove it")
	}
}

func taints(c *check, g *api.InstanceGroup) {
	seen := map[string]bool{}
	for i, t := range g.Spec.Taints {
		path := at("spec.taints", i)
		key, effect, ok := splitTaint(t)
		if !ok {
			c.bad(path, t, "is not a taint", "write key=value:NoSchedule")
			continue
		}
		if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
			c.warn(path, t, "has an effect with which kubelets refuse to start", "use NoSchedule, PreferNoSchedule or NoExecute")
		}
		if seen[key+":"+effect] {
			c.bad(path, t, "is there twice", "remove one")
		}
		seen[key+":"+effect] = true
	}
}

// splitTaint reads key=value:Effect or key:Effect.
func splitTaint(t string) (key, effect string, ok bool) {
	head, effect, ok := strings.Cut(t, ":")
	key, _, _ = strings.Cut(head, "=")
	return key, effect, ok && key != "" && effect != "" && !strings.ContainsAny(effect, ":= ")
}

func securityGroups(c *check, g *api.InstanceGroup) {
	for i, id := range g.Spec.AdditionalSecurityGroups {
		c.groupID(at("spec.additionalSecurityGroups", i), id)
	}
	c.unique("spec.additionalSecurityGroups", g.Spec.AdditionalSecurityGroups)
	if g.Spec.SecurityGroupOverride != nil {
		c.groupID("spec.securityGroupOverride", *g.Spec.SecurityGroupOverride)
	}
}

func provisioningModel(c *check, g *api.InstanceGroup) {
	c.oneOf("spec.gcpProvisioningModel", text(g.Spec.GCPProvisioningModel), "STANDARD", "SPOT")
}

func gceZones(c *check, g *api.InstanceGroup) {
	c.need(len(g.Spec.Zones) > 0, "spec.zones", "name the zones in which the machines stand")
}

func groupImage(c *check, g *api.InstanceGroup) {
	image := g.Spec.Image
	if image == "" {
		c.need(!c.in.Strict, "spec.image", "name a machine image")
		return
	}
	aws := c.awsFacts()
	if c.cloud != api.CloudAWS || aws == nil || len(aws.Images) == 0 || g.Spec.Manager == api.ManagerKarpenter {
		return
	}
	if _, ok := aws.Image(image); !ok {
		c.bad("spec.image", image, "was not found", "check the name and the region; write ami-…, owner/name or ssm:/parameter")
	}
}

// distribution refuses images whose machines nodeup cannot set up.
func distribution(c *check, g *api.InstanceGroup) {
	image := strings.ToLower(g.Spec.Image)
	for _, d := range []struct{ part, title string }{{"flatcar", "Flatcar"}, {"cos-cloud/", "Container-Optimized OS"}, {"coreos", "CoreOS"}} {
		if strings.Contains(image, d.part) {
			c.bad("spec.image", g.Spec.Image, "is an image of "+d.title+", whose machines are not supported", "use an image of Debian, Ubuntu, Amazon Linux 2023 or a relative of RHEL")
			return
		}
	}
}
