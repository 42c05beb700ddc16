package model

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsname"
)

// APILoadBalancerName is the real name of the load balancer before a cluster's API servers.
func APILoadBalancerName(cluster string) string { return loadBalancerName("api", cluster) }

// loadBalancerName is the real name of a load balancer or of a target group.
func loadBalancerName(what, cluster string) string {
	return names.Hashed(what+"-"+names.Dashed(cluster), awsname.MaxLoadBalancer)
}

// groupName is the name of an instance group's scaling group and launch template.
func (m *model) groupName(g *api.InstanceGroup) string {
	return awscloud.ScalingGroup(g.Name, string(g.Spec.Role), m.name)
}

// rolePlural is how the names of IAM roles and of Terraform outputs call a role.
func rolePlural(r api.InstanceGroupRole) string {
	switch r {
	case api.RoleControlPlane:
		return "masters"
	case api.RoleAPIServer:
		return "apiservers"
	case api.RoleBastion:
		return "bastions"
	}
	return "nodes"
}

// roleKey is how names of policies call a role.
func roleKey(r api.InstanceGroupRole) string { return strings.TrimSuffix(rolePlural(r), "s") }

// roleName is the name of the IAM role and of the instance profile of machines of a role.
func (m *model) roleName(r api.InstanceGroupRole) string {
	return awsname.MachineRole(rolePlural(r), m.name)
}
