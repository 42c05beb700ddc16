package model

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsname"
)

// APILoadBalancerName returns the name in AWS of the load balancer of a cluster's API servers.
func APILoadBalancerName(cluster string) string { return loadBalancerName("api", cluster) }

// loadBalancerName returns the name in AWS of a load balancer or of a target group.
func loadBalancerName(what, cluster string) string {
	return names.Hashed(what+"-"+names.Dashed(cluster), awsname.MaxLoadBalancer)
}

// groupName returns the name of an instance group's scaling group and launch template.
func (m *model) groupName(g *api.InstanceGroup) string {
	return awscloud.ScalingGroup(g.Name, string(g.Spec.Role), m.name)
}

// rolePlural returns a role's name in the names of IAM roles and Terraform outputs.
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

// roleKey returns a role's name in the names of policies.
func roleKey(r api.InstanceGroupRole) string { return strings.TrimSuffix(rolePlural(r), "s") }

// roleName returns the name of the IAM role and of the instance profile of machines of a role.
func (m *model) roleName(r api.InstanceGroupRole) string {
	return awsname.MachineRole(rolePlural(r), m.name)
}
