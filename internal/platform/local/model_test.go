package local

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/kinds"
)

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
