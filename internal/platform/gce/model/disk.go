package model

import (
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// Defaults of an etcd member's disk.
const (
	defaultEtcdDisk     = "pd-ssd"
	defaultEtcdDiskSize = 20 // GB
)

// disks returns the etcd members' disks.
func (m *model) disks() ([]resource.Node, error) {
	var nodes []resource.Node
	for i := range m.spec.EtcdClusters {
		e := &m.spec.EtcdClusters[i]
		for j := range e.EtcdMembers {
			n, err := m.etcdDisk(e.Name, &e.EtcdMembers[j], fmt.Sprintf("spec.etcdClusters[%d].etcdMembers[%d]", i, j))
			if err != nil {
				return nil, fmt.Errorf("member %s of etcd %s: %w", e.EtcdMembers[j].Name, e.Name, err)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// etcdDisk returns a member's disk; path is the member's path in the spec.
func (m *model) etcdDisk(etcd string, member *api.EtcdMemberSpec, path string) (resource.Node, error) {
	zone, err := m.memberZone(valueOr(member.InstanceGroup, ""))
	if err != nil {
		return resource.Node{}, err
	}
	name := gcename.EtcdDisk(member.Name, etcd, m.name)
	n := kinds.Disks.New(name, kinds.Disk{
		Name: name, Zone: zone, Type: valueOr(member.VolumeType, defaultEtcdDisk), SizeGiB: int(valueOr(member.VolumeSize, defaultEtcdDiskSize)),
		IOPS: int(valueOr(member.VolumeIOPS, 0)), Throughput: int(valueOr(member.VolumeThroughput, 0)),
		Labels: m.labels(gcecloud.RolePrefix+gcename.Master, gcename.Master, gcecloud.EtcdPrefix+etcd, gcename.EncodeLabel(member.Name+"/"+member.Name)),
	})
	n.Remedy = "the disk holds etcd's data: keep it, and undo the change to " + path + ".volumeType, or to the zone of the group in " +
		path + ".instanceGroup; both are fixed when a cluster is created"
	return n, nil
}

// memberZone returns the zone of a member, which is its group's only zone.
func (m *model) memberZone(group string) (string, error) {
	for _, g := range m.Groups {
		if g.Name == group {
			return m.zoneOf(g, "the disk of an etcd member is in one zone")
		}
	}
	return "", fmt.Errorf("the cluster has no instance group %q", group)
}
