package complete

import (
	"slices"

	"kops.local/kops/api"
)

func setManager(_ *pass, g *api.InstanceGroup) { fill(&g.Spec.Manager, api.ManagerCloudGroup) }

func setSize(_ *pass, g *api.InstanceGroup) {
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
	fillPtr(&g.Spec.MinSize, least)
	most = max(most, *g.Spec.MinSize)
	fillPtr(&g.Spec.MaxSize, most)
}

// setGroupSubnets gives a group that names no subnets those that suit its role. A
// control plane must name its own, because its etcd volumes stand there.
func setGroupSubnets(p *pass, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) == 0 && !g.IsControlPlane() {
		g.Spec.Subnets = SubnetsFor(p.spec, g.Spec.Role)
	}
}

// SubnetsFor are the names of the subnets in the zones in which machines of a role
// stand, in the spec's order; no zones are all zones. Utility subnets are for none,
// and those with IPv4 beside IPv6 for the machines of an IPv6 cluster that are no
// nodes; where that leaves nothing, machines stand in all but the utility subnets.
func SubnetsFor(s *api.ClusterSpec, role api.InstanceGroupRole, zones ...string) []string {
	dual := IsIPv6(s) && role != api.RoleNode
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
func setMachineType(p *pass, g *api.InstanceGroup) {
	if g.Spec.MachineType != "" || g.Spec.Manager == api.ManagerKarpenter || p.cloud == api.CloudMetal {
		return
	}
	t, ok := defaultMachineType(p.in.Facts, p.cloud, g.Spec.Role, p.imageArch(g), p.groupZones(g))
	if !ok {
		message := "no machine type is usual for the role on this cloud"
		if p.cloud == api.CloudAWS {
			message = "none of the usual machine types is offered in all zones of the group"
		}
		p.failGroup(g, "spec.machineType", "", "machine-type", message, "name one in spec.machineType")
		return
	}
	g.Spec.MachineType = t
}

func setImage(p *pass, g *api.InstanceGroup) {
	if g.Spec.Image != "" {
		return
	}
	image, ok := defaultImage(p.in.Channel, p.cloud, machineArch(p.in.Facts, p.cloud, g.Spec.MachineType), p.version)
	if !ok {
		p.failGroup(g, "spec.image", "", "image", "the channel has no image for this cloud and Kubernetes version", "name one in spec.image")
		return
	}
	g.Spec.Image = image
}

// groupZones are the zones in which the group's machines stand.
func (p *pass) groupZones(g *api.InstanceGroup) []string {
	zones := slices.Clone(g.Spec.Zones)
	for _, name := range g.Spec.Subnets {
		if s := p.subnet(name); s != nil && s.Zone != "" {
			zones = append(zones, s.Zone)
		}
	}
	return union(zones)
}

func setGPU(p *pass, g *api.InstanceGroup) {
	cluster, own := p.spec.Containerd.NvidiaGPU, (*api.NvidiaGPUConfig)(nil)
	if g.Spec.Containerd != nil {
		own = g.Spec.Containerd.NvidiaGPU
	}
	enabled := cluster != nil && isTrue(cluster.Enabled) || own != nil && isTrue(own.Enabled)
	switch p.cloud {
	case api.CloudAWS:
		enabled = enabled && p.hasGPU(g)
	case api.CloudOpenstack:
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

func (p *pass) hasGPU(g *api.InstanceGroup) bool {
	if p.in.Facts.AWS == nil {
		return false
	}
	t, ok := p.in.Facts.AWS.MachineType(firstType(g.Spec.MachineType))
	return ok && t.GPU
}

func setGVisor(_ *pass, g *api.InstanceGroup) {
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

// setRootVolume gives the sizes in GB that kops has always used.
func setRootVolume(_ *pass, g *api.InstanceGroup) {
	v := ensure(&g.Spec.RootVolume)
	size := int32(128)
	switch g.Spec.Role {
	case api.RoleControlPlane:
		size = 64
	case api.RoleBastion:
		size = 32
	}
	fillPtr(&v.Size, size)
	fillPtr(&v.Type, "gp3")
	fillPtr(&v.Encryption, true)
	if *v.Type == "gp3" {
		fillPtr(&v.IOPS, 3000)
		fillPtr(&v.Throughput, 125)
	}
}

func setInstanceMetadata(_ *pass, g *api.InstanceGroup) {
	m := ensure(&g.Spec.InstanceMetadata)
	fillPtr(&m.HTTPTokens, "required")
	fillPtr(&m.HTTPPutResponseHopLimit, 1)
}

// setWarmPool gives workers the cluster's warm pool, under the group's own settings. A
// group that wants no machines in it wants none of the cluster's settings either.
func setWarmPool(p *pass, g *api.InstanceGroup) {
	pool := p.spec.CloudProvider.AWS.WarmPool
	if own := g.Spec.WarmPool; own != nil && own.MaxSize != nil && *own.MaxSize == 0 {
		return
	}
	worker := g.Spec.Role == api.RoleNode || g.Spec.Role == api.RoleAPIServer
	if pool != nil && worker && g.Spec.MaxPrice == nil && g.Spec.Manager != api.ManagerKarpenter {
		g.Spec.WarmPool = overlay(pool, g.Spec.WarmPool)
	}
}

func mergeContainerd(p *pass, g *api.InstanceGroup) {
	g.Spec.Containerd = overlay(p.spec.Containerd, g.Spec.Containerd)
	setRuntimeExtras(g.Spec.Containerd)
}

// mergeKubelet gives the group the kubelet of its role. A bastion has one only in
// its configuration; no kubelet runs there.
func mergeKubelet(p *pass, g *api.InstanceGroup) {
	k := p.spec.Kubelet
	if g.IsControlPlane() {
		k = p.spec.ControlPlaneKubelet
	}
	g.Spec.Kubelet = overlayKubelet(k, g.Spec.Kubelet)
}
