package model

import (
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
)

// Tags by which a cluster's machines, and the programs on them, find resources.
const (
	tagRolePrefix     = spec.TagRolePrefix
	tagEtcdPrefix     = "k8s.io/etcd/" // followed by the etcd cluster: member/all members
	tagRouteTableRole = "kubernetes.io/kops/role"
	tagSubnetType     = "SubnetType"
	tagPublicLB       = "kubernetes.io/role/elb"
	tagInternalLB     = "kubernetes.io/role/internal-elb"
	tagServiceAccount = "service-account.kops.k8s.io/" // followed by name or namespace
)

// tags returns the tags of a resource of the cluster.
func (m *model) tags(name string) map[string]string {
	t := maps.Clone(m.spec.CloudLabels)
	if t == nil {
		t = map[string]string{}
	}
	maps.Copy(t, kinds.OwnedTags(m.name, name))
	return t
}

// tagsWith returns the tags of a resource of the cluster, and additional tags as pairs.
func (m *model) tagsWith(name string, pairs ...string) map[string]string {
	t := m.tags(name)
	for i := 0; i+1 < len(pairs); i += 2 {
		t[pairs[i]] = pairs[i+1]
	}
	return t
}

// groupTags returns the tags of a group's machines, scaling group and launch template. The
// cluster's own tags take precedence over a user's tags and labels.
func (m *model) groupTags(g *api.InstanceGroup) map[string]string {
	t := spec.GroupTags(m.Cluster, g)
	maps.Copy(t, kinds.OwnedTags(m.name, m.groupName(g)))
	return t
}

// subnetTags returns the tags that describe a subnet's use.
func (m *model) subnetTags(s *api.ClusterSubnetSpec) map[string]string {
	t := map[string]string{tagSubnetType: string(s.Type)}
	switch s.Type {
	case api.SubnetPublic:
		t[tagPublicLB] = "1"
		if !m.ipv6Only() && !m.hasSubnet("", api.SubnetPrivate) && !m.hasSubnet("", api.SubnetDualStack) {
			t[tagInternalLB] = "1"
		}
	case api.SubnetUtility:
		t[tagPublicLB] = "1"
	case api.SubnetDualStack:
		t[tagInternalLB] = "1"
	case api.SubnetPrivate:
		if !m.hasSubnet(m.zoneOf(s), api.SubnetDualStack) {
			t[tagInternalLB] = "1"
		}
	}
	for _, g := range m.Groups {
		if g.Spec.Manager == api.ManagerKarpenter && slices.Contains(g.Spec.Subnets, s.Name) {
			t[kinds.TagKarpenterGroup+g.Name] = "true"
		}
	}
	return t
}

// hasSubnet reports whether a zone, or the cluster if zone is "", has a subnet of a type.
func (m *model) hasSubnet(zone string, t api.SubnetType) bool {
	return slices.ContainsFunc(m.spec.Networking.Subnets, func(s api.ClusterSubnetSpec) bool {
		return s.Type == t && (zone == "" || m.zoneOf(&s) == zone)
	})
}
