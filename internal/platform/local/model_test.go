package local

import (
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/spec/facts"
)

// TestDoorsOfTheHost: the host balances the API, kops-controller and, if Cilium uses it, its etcd, and
// only over control planes.
func TestDoorsOfTheHost(t *testing.T) {
	role := func(name string, r api.InstanceGroupRole) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: r}}
		g.Name = name
		return g
	}
	listeners := []kinds.Listener{{Port: 443, Target: 443, Check: "http://:3990/readyz"}, {Port: 3988, Target: 3988}, {Port: 4003, Target: 4003}}
	for isEtcdManaged, want := range map[bool][]kinds.Listener{false: listeners[:2], true: listeners} {
		c := &api.Cluster{Spec: api.ClusterSpec{Networking: api.NetworkingSpec{NetworkCIDR: "10.77.0.0/24",
			Topology: &api.TopologySpec{DNS: api.DNSNone}, Cilium: &api.CiliumNetworkingSpec{EtcdManaged: isEtcdManaged}}}}
		m, err := newModel(platform.Model{Cluster: c, Groups: []*api.InstanceGroup{role("nodes", api.RoleNode), role("b", api.RoleControlPlane), role("a", api.RoleControlPlane)},
			Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"local": {Bundle: "/bundle"}}}}, &graph.Graph{})
		if err != nil {
			t.Fatal(err)
		}
		b := m.balancer.Want.(*kinds.LoadBalancer)
		if !slices.Equal(b.Listeners, want) || !slices.Equal(b.Groups, []string{"a", "b"}) {
			t.Errorf("etcd of Cilium %t: %+v", isEtcdManaged, b)
		}
	}
}

// TestSizesOfMachines: the machine type specifies CPUs and memory, the root volume the disk.
func TestSizesOfMachines(t *testing.T) {
	b := builder{name: "a.k8s.local", Model: platform.Model{Cluster: &api.Cluster{}, UserData: func(*api.InstanceGroup, ...resource.Value) (resource.Content, error) {
		return resource.Content{}, nil
	}}}
	for _, c := range []struct {
		machineType string
		volume      *api.InstanceRootVolumeSpec
		want        [3]int // CPUs, MiB, GiB
	}{
		{"host", nil, [3]int{}},
		{"host", &api.InstanceRootVolumeSpec{}, [3]int{}},
		{"2cpu-4gib", &api.InstanceRootVolumeSpec{Size: new(int32(20))}, [3]int{2, 4096, 20}},
	} {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleNode, MachineType: c.machineType, RootVolume: c.volume}}
		g.Name = "nodes"
		n, err := b.group(g)
		if err != nil {
			t.Fatal(err)
		}
		if m := n.Want.(*kinds.MachineGroup); [3]int{m.CPUs, m.MemoryMiB, m.DiskGiB} != c.want {
			t.Errorf("%s, %+v: %d processors, %d MiB of memory, %d GiB of disk", c.machineType, c.volume, m.CPUs, m.MemoryMiB, m.DiskGiB)
		}
	}
}
