package kinds

// The services whose limits calls count against.
const (
	apiCompute  = "compute"
	apiIAM      = "iam"
	apiProjects = "cloudresourcemanager"
	apiStorage  = "storage"
	apiDNS      = "dns"
)
