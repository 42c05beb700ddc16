package kinds

import (
	"kops.local/kops/internal/engine/resource"
)

// The APIs to whose rate limits calls count.
const (
	apiCompute  = "compute"
	apiIAM      = "iam"
	apiProjects = "cloudresourcemanager"
	apiStorage  = "storage"
	apiDNS      = "dns"
)

// All lists the kinds, each after those it may refer to.
func All() []resource.Any {
	return []resource.Any{
		Networks.Erase(), Subnetworks.Erase(), Routers.Erase(), RouterNATs.Erase(), Routes.Erase(), Firewalls.Erase(),
		ServiceAccounts.Erase(), ProjectMembers.Erase(), BucketMembers.Erase(),
		Disks.Erase(), Addresses.Erase(),
		HTTPHealthChecks.Erase(), HealthChecks.Erase(), GlobalHealthChecks.Erase(), TargetPools.Erase(),
		InstanceTemplates.Erase(), InstanceGroupManagers.Erase(), Instances.Erase(), InstanceGroups.Erase(),
		BackendServices.Erase(), ForwardingRules.Erase(),
		Placeholders.Erase(),
	}
}
