package kinds

import "kops.local/kops/internal/engine/resource"

// The services whose limits calls count against.
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
		Networks.Erase(), Subnetworks.Erase(), Routers.Erase(), RouterNATs.Erase(),
		Firewalls.Erase(), Addresses.Erase(), HTTPHealthChecks.Erase(), HealthChecks.Erase(), TargetPools.Erase(), Disks.Erase(),
		ServiceAccounts.Erase(), ProjectMembers.Erase(), BucketMembers.Erase(), Placeholders.Erase(),
		InstanceTemplates.Erase(), InstanceGroupManagers.Erase(), BackendServices.Erase(), ForwardingRules.Erase(),
	}
}
