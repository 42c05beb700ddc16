// Package spec defines the local cloud for the stages that infer, check and describe a cluster.
//
// It must not know how the cloud is reached.
package spec

import (
	"fmt"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform returns the description of the local cloud.
func Platform() platform.Platform {
	return platform.Platform{Stub: func(c *api.Cluster, _ string) { c.Spec.CloudProvider.Local = &api.LocalSpec{} }, Complete: completion(), CheckFacts: facts.CheckOwn[Facts], Validate: validate.Rules{
		Cluster: []validate.Rule{{Name: "local-network", Do: checkNetwork}, {Name: "local-store", Do: checkStore}, {Name: "local-pod-network", Do: checkPodNetwork}, {Name: "local-cilium", Do: checkCilium}},
		Group:   []validate.GroupRule{{Name: "local-machine-type", Do: checkMachineType}, {Name: "local-image", Do: checkImage}, {Name: "local-disk", Do: checkDisk}},
	}, New: newcluster.Rules{
		Defaults: setDefaults,
		Describe: describe,
	}, Traits: traits.Traits{
		Name: api.CloudLocal, Title: "this host", Terraform: traits.Terraform{Never: true}, OwnStore: true, OwnNetworking: true, OwnersAdmin: true,
		Has:    traits.Abilities{Repair: true},
		Unused: unusedFields(),
		Network: traits.Network{NeedsSubnets: true, NeedsCIDR: true, NeedsNonMasquerade: true,
			CIDR: "10.77.0.0/24", // new clusters get one that the host does not use
			Only: &traits.PodNetworks{Names: []string{"kubenet", "cni", "cilium", "flannel", "kuberouter"}, Why: "where only some networks are known to run",
				BesideProxy: []string{"kuberouter"}, // machines cannot load the kernel's modules for IPVS
				Remedy:      "choose kubenet, cilium, flannel or kube-router, or cni and install a network yourself"}},
		Machines: traits.Machines{
			Types: map[api.InstanceGroupRole][]traits.Type{
				api.RoleControlPlane: {{Name: HostSize}}, api.RoleAPIServer: {{Name: HostSize}}, api.RoleNode: {{Name: HostSize}},
			},
			Image: theImage, NoCloud: true, Shared: true,
		},
		Model: traits.Model{
			Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
				return traits.Volumes{Provider: "local", Tags: []string{localcloud.Disk(c.Name, etcd, "")}}
			},
			Peers:         traits.NamedPeers,
			NewestPlugins: true, // they are built from modules, whose old versions are not always available
			HealthClients: func(c *api.Cluster) (string, bool) { // the host's load balancer
				if a, ok := HostAddress(c); ok {
					return a.String(), false
				}
				return "", false
			},
			Controller: func(*api.Cluster, []*api.InstanceGroup, *facts.Cloud, string) (any, error) {
				return localcloud.Controller{Machines: localcloud.Registry, Requests: localcloud.Requests}, nil
			},
			Values: func(*api.Cluster, *facts.Cloud, string) (map[string]string, error) {
				return map[string]string{"machines": localcloud.Registry, "requests": localcloud.Requests}, nil
			},
			Awaited: true, FixedDNS: true, RemovesNodes: true, NodeRoutes: true,
		},
	}}
}

func unusedFields() []traits.Unused {
	const inImage = "remove it; the image of machines on this host has it"
	return []traits.Unused{
		{Kind: api.KindCluster, Blocks: []string{"containerd"}, Names: []string{"installNerdCtl"}, Remedy: inImage},
		{Kind: api.KindInstanceGroup, Blocks: []string{"containerd"}, Names: []string{"installNerdCtl"}, Remedy: inImage},
		{Kind: api.KindInstanceGroup, Blocks: []string{"rootVolume"}, Names: []string{"type", "iops", "throughput", "optimization", "encryption", "encryptionKey"},
			Remedy: "remove it; disks of machines on this host are files, and only spec.rootVolumeSize applies"},
	}
}

// setDefaults sets the defaults of clusters on this host: one zone, two nodes, and the pod network
// that needs only the machines.
func setDefaults(b *newcluster.Builder) {
	if len(b.Zones) == 0 && len(b.ControlPlaneZones) == 0 {
		b.Zones = []string{"local"}
	}
	if b.NodeCount == 0 {
		b.NodeCount = 2
	}
	if b.Networking == "" {
		b.Networking = "kubenet"
	}
}

func checkNetwork(c *validate.Check) {
	n := &c.Spec.Networking
	if r, ok := validate.Parsed(n.NetworkCIDR); ok && (!r.Addr().Is4() || r.Bits() < 16 || r.Bits() > 28 || r != r.Masked()) {
		c.Bad("spec.networkCIDR", n.NetworkCIDR, "cannot be the network of machines on one host", "write an IPv4 range of 16 to 28 bits, such as 10.77.0.0/24")
	}
}

// describe begins the spec of a cluster on this host.
func describe(b *newcluster.Builder) {
	b.Spec.CloudProvider.Local = &api.LocalSpec{}
	if b.Networking == "kube-router" { // without IPVS, which machines cannot load, it has no services
		fill.Ptr(&fill.Ensure(&b.Spec.KubeProxy).Enabled, true)
	}
}

// checkPodNetwork rejects what the programs that are built for machines of this host cannot do.
func checkPodNetwork(c *validate.Check) {
	n := &c.Spec.Networking
	if f := n.Flannel; f != nil && f.Backend == "udp" {
		c.Bad("spec.networking.flannel.backend", f.Backend, "is not built for machines of this host", "use vxlan")
	}
	if k := n.Cilium; k != nil && k.IPAM == "crd" {
		c.Bad("spec.networking.cilium.ipam", k.IPAM, "needs a program that gives addresses to nodes, and this host has none", "use kubernetes")
	}
}

func checkStore(c *validate.Check) {
	if base := c.Spec.ConfigStore.Base; base != "" && !strings.HasPrefix(base, "file://") {
		c.Bad("spec.configBase", base, "cannot be read by machines on this host", "keep the state of local clusters in a folder: option:Store file://…")
	}
}

// theImage is the image of all machines; kops builds it.
const theImage = "debian-12"

func checkImage(c *validate.Check, g *api.InstanceGroup) {
	if g.Spec.Image != "" && g.Spec.Image != theImage {
		c.Warn("spec.image", g.Spec.Image, "has no effect", "remove it; kops builds the image of machines on this host, "+theImage)
	}
}

// CiliumDisk is the least size of a disk, in GiB, on which the image of Cilium's agent, which has a
// compiler, fits beside what every machine has.
const CiliumDisk = 4

// Disk returns the size in GiB of the disks of a group's machines; 0 lets the host choose.
func Disk(g *api.InstanceGroup) int {
	if v := g.Spec.RootVolume; v != nil && v.Size != nil {
		return int(*v.Size)
	}
	return 0
}

// MinDisk returns the least size in GiB of the disks of a cluster's machines; 0 means that any will do.
func MinDisk(c *api.Cluster) int {
	if c.Spec.Networking.Cilium != nil {
		return CiliumDisk
	}
	return 0
}

func checkDisk(c *validate.Check, g *api.InstanceGroup) {
	if size := Disk(g); size != 0 && size < MinDisk(c.Cluster) {
		c.Bad("spec.rootVolumeSize", validate.Number(size), "is too small for the image of Cilium's agent", fmt.Sprintf("write %d or more (GiB), or remove it", CiliumDisk))
	}
}

func checkMachineType(c *validate.Check, g *api.InstanceGroup) {
	if _, _, ok := Size(g.Spec.MachineType); !ok && g.Spec.MachineType != "" {
		c.Bad("spec.machineType", g.Spec.MachineType, "is not a machine size on this host", "use host for all resources of the host, or a size such as 2cpu-4gib")
	}
}
