package model

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/spec/fill"
)

// Defaults of an etcd member's disk.
const (
	defaultEtcdDisk     = "pd-ssd"
	defaultEtcdDiskSize = 20 // GB
)

// disks returns the etcd members' disks.
func (m *model) disks() ([]resource.Node, error) { return m.EtcdDisks(m.etcdDisk) }

func (m *model) etcdDisk(e platform.EtcdMember) (resource.Node, error) {
	zone, err := m.zoneOf(e.Group, "the disk of an etcd member is in one zone")
	if err != nil {
		return resource.Node{}, err
	}
	name := gcename.EtcdDisk(e.Name, e.Etcd.Name, m.name)
	n := kinds.Disks.New(name, kinds.Disk{
		Name: name, Zone: zone, Type: fill.Or(e.VolumeType, defaultEtcdDisk), SizeGiB: int(fill.Or(e.VolumeSize, defaultEtcdDiskSize)),
		IOPS: int(fill.Or(e.VolumeIOPS, 0)), Throughput: int(fill.Or(e.VolumeThroughput, 0)),
		Labels: m.labels(gcecloud.RolePrefix+gcename.Master, gcename.Master, gcecloud.EtcdPrefix+e.Etcd.Name, gcename.EncodeLabel(e.Name+"/"+e.Name)),
	})
	n.Remedy = "the disk holds etcd's data: keep it, and undo the change to " + e.Path + ".volumeType, or to the zone of the group in " +
		e.Path + ".instanceGroup; both are fixed when a cluster is created"
	return n, nil
}
