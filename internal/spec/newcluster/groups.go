package newcluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
)

// setGroups creates the groups: control planes, API servers, nodes, bastions.
func (b *Builder) setGroups() {
	b.addControlPlanes()
	if b.APIServerCount > 0 {
		b.addPerZone(api.RoleAPIServer, "apiserver-", b.APIServerCount, b.APIServerSizes)
	}
	switch {
	case b.InstanceManager == "karpenter":
		g := b.add(api.RoleNode, "nodes", b.NodeSizes)
		g.Spec.Manager = api.ManagerKarpenter
		g.Spec.Subnets = b.subnetsOf(api.RoleNode, b.nodeZones()...)
	case b.World.Features[b.platform.Machines.OneGroupFeature]:
		g := b.add(api.RoleNode, "nodes", b.NodeSizes)
		g.Spec.Subnets = b.subnetsOf(api.RoleNode, b.nodeZones()...)
		setSize(g, b.nodeCount())
	default:
		b.addPerZone(api.RoleNode, "nodes-", b.nodeCount(), b.NodeSizes)
	}
	if b.Bastion {
		g := b.add(api.RoleBastion, "bastions", nil)
		g.Spec.Subnets = b.subnetsOf(api.RoleBastion, b.zones...)
		g.Spec.Zones = b.groupZones(b.zones...)
		setSize(g, 1)
	}
}

// addControlPlanes creates one group for every control-plane machine, so that each keeps its zone
// and its etcd volumes.
func (b *Builder) addControlPlanes() {
	zones := distinct(b.ControlPlaneZones)
	count := int(b.ControlPlaneCount)
	if count == 0 {
		count = max(1, len(zones))
	}
	if count < len(zones) {
		b.Fail("option:ControlPlaneCount", fmt.Sprint(count), fmt.Sprintf("is less than the %d zones of option:ControlPlaneZones", len(zones)), "specify fewer zones or more machines")
		return
	}
	if len(zones) == 0 {
		zones = b.nodeZones()
	}
	numbered := count > len(zones) || b.platform.Machines.Numbered && count >= len(zones)
	for i := range count {
		zone := zones[i%len(zones)]
		name := "control-plane-" + zone
		if numbered {
			name += fmt.Sprintf("-%d", 1+i/len(zones))
		}
		g := b.add(api.RoleControlPlane, name, b.ControlPlaneSizes)
		g.Spec.Subnets = b.subnetsOf(api.RoleControlPlane, zone)
		g.Spec.Zones = b.groupZones(zone)
		setSize(g, 1)
	}
}

// addPerZone creates a group per zone and distributes the machines among them, the remainder to the
// first zones.
func (b *Builder) addPerZone(role api.InstanceGroupRole, prefix string, count int32, sizes []string) {
	zones := b.nodeZones()
	n := int32(len(zones))
	for i, zone := range zones {
		g := b.add(role, prefix+zone, sizes)
		g.Spec.Subnets = b.subnetsOf(role, zone)
		g.Spec.Zones = b.groupZones(zone)
		size := count / n
		if int32(i) < count%n {
			size++
		}
		setSize(g, size)
	}
}

// nodeZones returns the zones of nodes, in the user's order.
func (b *Builder) nodeZones() []string {
	if len(b.Zones) > 0 {
		return distinct(b.Zones)
	}
	return b.zones
}

func (b *Builder) nodeCount() int32 {
	if b.NodeCount > 0 {
		return b.NodeCount
	}
	return int32(len(b.nodeZones()))
}

// add appends a group with the settings that only depend on its role.
func (b *Builder) add(role api.InstanceGroupRole, name string, sizes []string) *api.InstanceGroup {
	g := newGroup(b.ClusterName, name, role)
	s := &g.Spec
	s.AssociatePublicIP = b.AssociatePublicIP
	if len(sizes) > 0 {
		s.MachineType = sizes[0]
	}
	if len(sizes) > 1 {
		if !b.platform.Has.MixedInstances {
			b.Fail(sizeOption(role), strings.Join(sizes, ","), "groups on "+b.platform.Title+" can have only one machine type", "specify one machine type")
		}
		s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{Instances: slices.Clone(sizes)}
	}
	s.Image = b.Image
	switch role {
	case api.RoleControlPlane:
		s.Image = first(b.ControlPlaneImage, b.Image)
		s.Tenancy, s.AdditionalSecurityGroups = b.ControlPlaneTenancy, b.ControlPlaneSecurityGroups
		s.RootVolume = rootVolume(b.ControlPlaneVolumeSize, b.ControlPlaneVolumeType)
	case api.RoleNode:
		s.Image = first(b.NodeImage, b.Image)
		s.Tenancy, s.AdditionalSecurityGroups = b.NodeTenancy, b.NodeSecurityGroups
		s.RootVolume = rootVolume(b.NodeVolumeSize, b.NodeVolumeType)
	case api.RoleBastion:
		s.Image = first(b.BastionImage, b.Image)
	}
	b.groups = append(b.groups, g)
	return g
}

// sizeOption returns the option that sets the machine types of a role.
func sizeOption(role api.InstanceGroupRole) string {
	switch role {
	case api.RoleControlPlane:
		return "option:ControlPlaneSizes"
	case api.RoleAPIServer:
		return "option:APIServerSizes"
	default:
		return "option:NodeSizes"
	}
}

// newGroup returns a group with its names.
func newGroup(cluster, name string, role api.InstanceGroupRole) *api.InstanceGroup {
	return &api.InstanceGroup{
		TypeMeta:   typeMeta(api.KindInstanceGroup),
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelCluster: cluster}},
		Spec:       api.InstanceGroupSpec{Role: role, NodeLabels: map[string]string{api.LabelInstanceGroup: name}},
	}
}

func rootVolume(size int32, kind string) *api.InstanceRootVolumeSpec {
	if size == 0 && kind == "" {
		return nil
	}
	v := &api.InstanceRootVolumeSpec{Type: NotEmpty(kind)}
	if size != 0 {
		v.Size = &size
	}
	return v
}

func setSize(g *api.InstanceGroup, n int32) {
	least, most := n, n
	g.Spec.MinSize, g.Spec.MaxSize = &least, &most
}

// groupZones returns the zones that a group itself names, if subnets span a region.
func (b *Builder) groupZones(zones ...string) []string {
	if b.platform.Network.SpansRegion {
		return zones
	}
	return nil
}

// subnetsOf returns the names of the subnets for machines of a role.
//
// A control plane uses the first of its zone; nodes use the others, if --network-cidr gave any;
// bastions use all.
func (b *Builder) subnetsOf(role api.InstanceGroupRole, zones ...string) []string {
	if role == api.RoleBastion {
		return complete.SubnetsFor(b.Spec, role, zones...)
	}
	var names []string
	for _, zone := range zones {
		found := complete.SubnetsFor(b.Spec, role, zone)
		switch {
		case role == api.RoleControlPlane && len(found) > 1:
			found = found[:1]
		case role == api.RoleNode && len(found) > 1:
			found = found[1:]
		}
		names = append(names, found...)
	}
	return names
}

// distinct returns the texts without duplicates, in order.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
