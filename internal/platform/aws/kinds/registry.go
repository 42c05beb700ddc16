package kinds

import (
	"kops.local/kops/internal/engine/resource"
)

// The services that have separate limits on calls.
const (
	apiEC2         = "ec2"
	apiAutoScaling = "autoscaling"
	apiELB         = "elasticloadbalancing"
	apiIAM         = "iam"
	apiSQS         = "sqs"
	apiEvents      = "events"
	apiRoute53     = "route53"
	apiSSM         = "ssm"
)

// All returns all kinds, each after the kinds that it may refer to.
func All() []resource.Any {
	return []resource.Any{
		VPCs.Erase(), VPCCIDRs.Erase(), DHCPOptionSets.Erase(), DHCPAssociations.Erase(),
		InternetGateways.Erase(), EgressOnlyGateways.Erase(),
		Subnets.Erase(), SubnetTagSets.Erase(),
		ElasticIPs.Erase(), NATGateways.Erase(),
		RouteTables.Erase(), RouteTableAssociations.Erase(), Routes.Erase(),
		SecurityGroups.Erase(), SecurityGroupRules.Erase(),
		Volumes.Erase(), KeyPairs.Erase(),
		IAMRoles.Erase(), IAMRolePolicies.Erase(), IAMAttachments.Erase(), IAMProfiles.Erase(), OIDCProviders.Erase(), StoreKeySets.Erase(),
		LaunchTemplates.Erase(),
		LoadBalancers.Erase(), TargetGroups.Erase(), Listeners.Erase(), ClassicBalancers.Erase(),
		AutoScalingGroups.Erase(), LifecycleHooks.Erase(),
		Queues.Erase(), EventRules.Erase(), EventTargets.Erase(),
		DNSRecords.Erase(), DNSPlaceholders.Erase(), ZoneAssociations.Erase(),
		NetworkInterfaces.Erase(), Instances.Erase(),
	}
}
