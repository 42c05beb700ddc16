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

// setGroupSubnets gives a group without subnets those that suit its role. A control plane must name
// its own, because its etcd volumes are there.
func setGroupSubnets(p *Pass, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) == 0 && !g.IsControlPlane() {
		g.Spec.Subnets = SubnetsFor(p.Spec, g.Spec.Role)
	}
}

// SubnetsFor returns the names of the subnets in the given zones for machines of a role, in the
// spec's order; no zones means all zones. Utility subnets are never used, and dual-stack subnets
// only for an IPv6 cluster's machines that are not nodes; if that leaves no subnet, all but the
// utility subnets are used.
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

// setMachineType chooses a machine type that is offered in the zones of the group.
func setMachineType(p *Pass, g *api.InstanceGroup) {
	if g.Spec.MachineType != "" || g.Spec.Manager == api.ManagerKarpenter || p.platform.Machines.Unsized {
		return
	}
	t, ok := p.defaultMachineType(g)
	if !ok {
		message := "kops has no default machine type for the role on this cloud"
		if len(p.platform.Machines.Types[g.Spec.Role]) > 0 {
			message = "no default machine type is available in all zones of the group"
		}
		p.FailGroup(g, "spec.machineType", "", "machine-type", message, "set spec.machineType")
		return
	}
	g.Spec.MachineType = t
}

func setImage(p *Pass, g *api.InstanceGroup) {
	if g.Spec.Image != "" {
		return
	}
	image := p.input.Channel.Image(p.platform.Name, MachineArch(p.Facts, g.Spec.MachineType), p.Version)
	fill.Value(&image, p.platform.Machines.Image)
	if image == "" {
		p.FailGroup(g, "spec.image", "", "image", "the channel has no image for this cloud and Kubernetes version", "set spec.image")
		return
	}
	g.Spec.Image = image
}

// groupZones returns the zones of the group's machines.
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
	switch p.platform.Machines.GPU {
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

// label sets a label of the group unless it exists.
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

// mergeKubelet sets the group's kubelet configuration according to its role. A bastion only has it
// in its configuration; no kubelet runs there.
func mergeKubelet(p *Pass, g *api.InstanceGroup) {
	k := p.Spec.Kubelet
	if g.IsControlPlane() {
		k = p.Spec.ControlPlaneKubelet
	}
	g.Spec.Kubelet = overlayKubelet(k, g.Spec.Kubelet)
}
