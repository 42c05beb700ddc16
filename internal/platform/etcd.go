package platform

import (
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/spec/fill"
)

// EtcdMember is a member of an etcd cluster.
type EtcdMember struct {
	*api.EtcdMemberSpec
	Etcd *api.EtcdClusterSpec
	// Path is where it is in the spec.
	Path string
	// Group is the instance group whose machine has its disk.
	Group *api.InstanceGroup
}

// EtcdDisks returns the disks of all members, each of which disk declares.
func (m Model) EtcdDisks(disk func(EtcdMember) (resource.Node, error)) ([]resource.Node, error) {
	var nodes []resource.Node
	for i := range m.Cluster.Spec.EtcdClusters {
		e := &m.Cluster.Spec.EtcdClusters[i]
		for j := range e.EtcdMembers {
			x := EtcdMember{EtcdMemberSpec: &e.EtcdMembers[j], Etcd: e, Path: fmt.Sprintf("spec.etcdClusters[%d].etcdMembers[%d]", i, j)}
			n, err := m.etcdDisk(x, disk)
			if err != nil {
				return nil, fmt.Errorf("member %s of etcd %s: %w", x.Name, e.Name, err)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

func (m Model) etcdDisk(x EtcdMember, disk func(EtcdMember) (resource.Node, error)) (resource.Node, error) {
	group := fill.Or(x.InstanceGroup, "")
	i := slices.IndexFunc(m.Groups, func(g *api.InstanceGroup) bool { return g.Name == group })
	if i < 0 {
		return resource.Node{}, fmt.Errorf("the cluster has no instance group %q", group)
	}
	x.Group = m.Groups[i]
	return disk(x)
}
