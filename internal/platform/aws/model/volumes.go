package model

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/fill"
)

const defaultEtcdVolumeSize = 20 // GiB

// volumes returns the volumes of etcd's members.
func (m *model) volumes() ([]resource.Node, error) { return m.EtcdDisks(m.etcdVolume) }

func (m *model) etcdVolume(e platform.EtcdMember) (resource.Node, error) {
	zone, err := m.groupZone(e.Group)
	if err != nil {
		return resource.Node{}, err
	}
	name := e.Name + ".etcd-" + e.Etcd.Name + "." + m.name
	v := kinds.Volume{
		Zone: zone, Type: fill.Or(e.VolumeType, spec.DefaultVolumeType), SizeGiB: int(fill.Or(e.VolumeSize, defaultEtcdVolumeSize)),
		Encrypted: fill.Or(e.EncryptedVolume, false), KMSKey: fill.Or(e.KMSKeyID, ""),
		Tags: m.tagsWith(name, tagEtcdPrefix+e.Etcd.Name, e.Name+"/"+memberNames(e.Etcd),
			tagRolePrefix+"control-plane", "1", tagRolePrefix+"master", "1"),
	}
	v.IOPS, v.Throughput = spec.VolumeSpeed(v.Type, int(fill.Or(e.VolumeIOPS, 0)), int(fill.Or(e.VolumeThroughput, 0)))
	n := kinds.Volumes.New(volumeNode(name), v)
	n.Remedy = "the volume holds etcd's data: keep it, and undo the change to " + e.Path + ".encryptedVolume, or to the zone of the group in " +
		e.Path + ".instanceGroup; both are fixed when a cluster is created"
	return n, nil
}

// volumeNode returns the name of a volume's node. Terraform's name is derived from it, and must not
// begin with a digit. It must not change: under another name, Terraform would consider it a new
// volume, and delete the old one with etcd's data.
func volumeNode(name string) string {
	if name[0] >= '0' && name[0] <= '9' {
		return "ebs-" + name
	}
	return name
}

// memberNames returns the names of an etcd cluster's members, sorted.
func memberNames(e *api.EtcdClusterSpec) string {
	var names []string
	for _, m := range e.EtcdMembers {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// groupZone returns the zone of the disks of a group's members: the group's, or the first of several.
func (m *model) groupZone(g *api.InstanceGroup) (string, error) {
	subnets, err := m.subnetsOf(g)
	if err != nil {
		return "", err
	}
	var zones []string
	for _, s := range subnets {
		zones = append(zones, m.zoneOf(s))
	}
	return slices.Min(zones), nil
}
