package kinds

import (
	"slices"

	"kops.local/kops/internal/engine/resource"
)

// The services whose limits calls count against.
const (
	apiEC2         = "ec2"
	apiAutoScaling = "autoscaling"
	apiELB         = "elasticloadbalancing"
	apiIAM         = "iam"
	apiSQS         = "sqs"
	apiEvents      = "events"
	apiRoute53     = "route53"
)

// All lists the kinds, each after those it may refer to.
func All() []resource.Any {
	return []resource.Any{
		vpcs.Erase(), vpcCIDRs.Erase(), dhcpOptions.Erase(), dhcpAssociations.Erase(),
		internetGateways.Erase(), egressOnlyGateways.Erase(),
		subnets.Erase(), subnetTags.Erase(),
		elasticIPs.Erase(), natGateways.Erase(),
		routeTables.Erase(), routeTableAssociations.Erase(), routes.Erase(),
		securityGroups.Erase(), securityGroupRules.Erase(),
		volumes.Erase(), keyPairs.Erase(),
		iamRoles.Erase(), iamRolePolicies.Erase(), iamAttachments.Erase(), iamProfiles.Erase(), oidcProviders.Erase(),
		launchTemplates.Erase(),
		loadBalancers.Erase(), targetGroups.Erase(), listeners.Erase(), classicBalancers.Erase(),
		autoScalingGroups.Erase(), lifecycleHooks.Erase(),
		queues.Erase(), eventRules.Erase(), eventTargets.Erase(),
		dnsRecords.Erase(), dnsPlaceholders.Erase(), zoneAssociations.Erase(),
		networkInterfaces.Erase(), instances.Erase(),
	}
}

// early lists the kinds of which most is asked for by the cluster's tag.
func early() []resource.Any {
	return slices.DeleteFunc(All(), func(k resource.Any) bool { return !k.Early() })
}
