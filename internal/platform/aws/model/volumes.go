package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
)

const defaultEtcdVolumeSize = 20 // GiB

// volumes returns the volumes of etcd's members.
func (m *model) volumes() ([]resource.Node, error) {
	var nodes []resource.Node
	for i := range m.spec.EtcdClusters {
		e := &m.spec.EtcdClusters[i]
		for j := range e.EtcdMembers {
			n, err := m.etcdVolume(e, &e.EtcdMembers[j], fmt.Sprintf("spec.etcdClusters[%d].etcdMembers[%d]", i, j))
			if err != nil {
				return nil, fmt.Errorf("member %s of etcd %s: %w", e.EtcdMembers[j].Name, e.Name, err)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// etcdVolume returns the volume of the member at a path in the spec.
func (m *model) etcdVolume(e *api.EtcdClusterSpec, member *api.EtcdMemberSpec, path string) (resource.Node, error) {
	zone, err := m.memberZone(valueOr(member.InstanceGroup, ""))
	if err != nil {
		return resource.Node{}, err
	}
	name := member.Name + ".etcd-" + e.Name + "." + m.name
	v := kinds.Volume{
		Zone: zone, Type: valueOr(member.VolumeType, spec.DefaultVolumeType), SizeGiB: int(valueOr(member.VolumeSize, defaultEtcdVolumeSize)),
		Encrypted: valueOr(member.EncryptedVolume, false), KMSKey: valueOr(member.KMSKeyID, ""),
		Tags: m.tagsWith(name, tagEtcdPrefix+e.Name, member.Name+"/"+memberNames(e),
			tagRolePrefix+"control-plane", "1", tagRolePrefix+"master", "1"),
	}
	v.IOPS, v.Throughput = spec.VolumeSpeed(v.Type, int(valueOr(member.VolumeIOPS, 0)), int(valueOr(member.VolumeThroughput, 0)))
	n := kinds.Volumes.New(volumeNode(name), v)
	n.Remedy = "the volume holds etcd's data: keep it, and undo the change to " + path + ".encryptedVolume, or to the zone of the group in " +
		path + ".instanceGroup; both are fixed when a cluster is created"
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

// memberZone returns a member's zone: its group's, or the first of several.
func (m *model) memberZone(group string) (string, error) {
	for _, g := range m.Groups {
		if g.Name != group {
			continue
		}
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
	return "", fmt.Errorf("the cluster has no instance group %q", group)
}
