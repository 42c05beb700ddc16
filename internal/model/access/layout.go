package access

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/net"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
)

// GroupsOf returns the instance groups with one of the roles, sorted by name.
func GroupsOf(groups []*api.InstanceGroup, roles ...api.InstanceGroupRole) []*api.InstanceGroup {
	var out []*api.InstanceGroup
	for _, g := range groups {
		if slices.Contains(roles, g.Spec.Role) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *api.InstanceGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// HasBastions reports whether users log in through bastions.
func HasBastions(groups []*api.InstanceGroup) bool { return len(GroupsOf(groups, api.RoleBastion)) > 0 }

// CiliumEtcd reports whether Cilium's agents, on all machines, use their own etcd on control planes.
func CiliumEtcd(s *api.ClusterSpec) bool {
	return s.Networking.Cilium != nil && s.Networking.Cilium.EtcdManaged
}

// NodePorts returns the ports of Services of type NodePort.
func NodePorts(s *api.ClusterSpec) Range {
	text := ports.NodePorts
	if a := s.KubeAPIServer; a != nil && a.ServiceNodePortRange != "" {
		text = a.ServiceNodePortRange
	}
	r, _ := net.ParsePortRange(text) // validation has rejected others
	return Range{r.Base, r.Base + r.Size - 1}
}
