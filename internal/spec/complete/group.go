package complete

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/fill"
)

func setManager(_ *Pass, g *api.InstanceGroup) { fill.Value(&g.Spec.Manager, api.ManagerCloudGroup) }

func setSize(_ *Pass, g *api.InstanceGroup) {
	if g.Spec.Manager == api.ManagerKarpenter {
		return
	}
	size := int32(2)
	if g.IsControlPlane() || g.IsBastion() {
		size = 1
	}
	least, most := size, size
	if g.Spec.MaxSize != nil {
		least = min(size, *g.Spec.MaxSize)
	}
	fill.Ptr(&g.Spec.MinSize, least)
	most = max(most, *g.Spec.MinSize)
	fill.Ptr(&g.Spec.MaxSize, most)
}

// setGroupSubnets gives a group that names no subnets those that suit its role. A
// control plane must name its own, because its etcd volumes stand there.
func setGroupSubnets(p *Pass, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) == 0 && !g.IsControlPlane() {
		g.Spec.Subnets = SubnetsFor(p.Spec, g.Spec.Role)
	}
}

// SubnetsFor returns the names of the subnets in the given zones for machines of a role,
// in the spec's order; no zones means all zones. Utility subnets are never used,
// and subnets with IPv4 beside IPv6 only for an IPv6 cluster's machines that are not
// nodes; if that leaves no subnet, all but the utility subnets are used.
func SubnetsFor(s *api.ClusterSpec, role api.InstanceGroupRole, zones ...string) []string {
	dual := s.IPv6Only() && role != api.RoleNode
	var suitable, others []string
	for _, n := range s.Networking.Subnets {
		if n.Type == api.SubnetUtility || len(zones) > 0 && n.Zone != "" && !slices.Contains(zones, n.Zone) {
			continue
		}
		others = append(others, n.Name)
		if dual && n.Type != api.SubnetPrivate || !dual && n.Type != api.SubnetDualStack {
			suitable = append(suitable, n.Name)
		}
	}
	if len(suitable) == 0 {
		return others
	}
	return suitable
}

// setMachineType needs the zones of the group and what they offer.
func setMachineType(p *Pass, g *api.InstanceGroup) {
	if g.Spec.MachineType != "" || g.Spec.Manager == api.ManagerKarpenter || p.on.Machines.Unsized {
		return
	}
	t, ok := p.defaultMachineType(g)
	if !ok {
		message := "no machine type is usual for the role on this cloud"
		if len(p.on.Machines.Types[g.Spec.Role]) > 0 {
			message = "none of the usual machine types is offered in all zones of the group"
		}
		p.FailGroup(g, "spec.machineType", "", "machine-type", message, "name one in spec.machineType")
		return
	}
	g.Spec.MachineType = t
}

func setImage(p *Pass, g *api.InstanceGroup) {
	if g.Spec.Image != "" {
		return
	}
	image := p.in.Channel.Image(p.on.Name, MachineArch(p.Facts, g.Spec.MachineType), p.Version)
	fill.Value(&image, p.on.Machines.Image)
	if image == "" {
		p.FailGroup(g, "spec.image", "", "image", "the channel has no image for this cloud and Kubernetes version", "name one in spec.image")
		return
	}
	g.Spec.Image = image
}

// groupZones are the zones in which the group's machines stand.
func (p *Pass) groupZones(g *api.InstanceGroup) []string {
	zones := slices.Clone(g.Spec.Zones)
	for _, name := range g.Spec.Subnets {
		if s := p.Subnet(name); s != nil && s.Zone != "" {
			zones = append(zones, s.Zone)
		}
	}
	return union(zones)
}

func setGPU(p *Pass, g *api.InstanceGroup) {
	cluster, own := p.Spec.Containerd.NvidiaGPU, (*api.NvidiaGPUConfig)(nil)
	if g.Spec.Containerd != nil {
		own = g.Spec.Containerd.NvidiaGPU
	}
	enabled := cluster != nil && isTrue(cluster.Enabled) || own != nil && isTrue(own.Enabled)
	switch p.on.Machines.GPU {
	case traits.GPUByType:
		t, ok := p.Facts.MachineType(firstType(g.Spec.MachineType))
		enabled = enabled && ok && t.GPU
	case traits.GPUByGroup:
		enabled = own != nil && isTrue(own.Enabled)
	default:
		enabled = false
	}
	if !enabled {
		return
	}
	label(g, "kops.k8s.io/gpu", "1")
	const taint = "nvidia.com/gpu"
	if !slices.ContainsFunc(g.Spec.Taints, func(t string) bool { return taintKey(t) == taint }) {
		g.Spec.Taints = append(g.Spec.Taints, taint+":NoSchedule")
	}
}

func setGVisor(_ *Pass, g *api.InstanceGroup) {
	if c := g.Spec.Containerd; c != nil && c.GVisor != nil && isTrue(c.GVisor.Enabled) {
		label(g, "kops.k8s.io/gvisor", "1")
	}
}

// label sets a label of the group that is not there.
func label(g *api.InstanceGroup, key, value string) {
	if g.Spec.NodeLabels == nil {
		g.Spec.NodeLabels = map[string]string{}
	}
	if _, ok := g.Spec.NodeLabels[key]; !ok {
		g.Spec.NodeLabels[key] = value
	}
}

func mergeContainerd(p *Pass, g *api.InstanceGroup) {
	g.Spec.Containerd = fill.Overlay(p.Spec.Containerd, g.Spec.Containerd)
	setRuntimeExtras(g.Spec.Containerd)
}

// mergeKubelet gives the group the kubelet of its role. A bastion has one only in
// its configuration; no kubelet runs there.
func mergeKubelet(p *Pass, g *api.InstanceGroup) {
	k := p.Spec.Kubelet
	if g.IsControlPlane() {
		k = p.Spec.ControlPlaneKubelet
	}
	g.Spec.Kubelet = overlayKubelet(k, g.Spec.Kubelet)
}
