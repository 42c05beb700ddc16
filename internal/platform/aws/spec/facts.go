package spec

import "kops.local/kops/internal/spec/facts"

// Facts are the facts that exist only on AWS.
type Facts struct {
	Partition string `json:"partition,omitempty"` // "aws", "aws-cn", …
	AccountID string `json:"accountID,omitempty"`
	// InstanceProfiles maps shared instance profiles, by name or ARN as written in a spec, to the
	// names of their roles.
	InstanceProfiles map[string]string `json:"instanceProfiles,omitempty"`
	// ElasticIPs maps shared addresses to their allocation ids, "eipalloc-…".
	ElasticIPs map[string]string `json:"elasticIPs,omitempty"`
}

// InstanceProfileRole returns the name of the role in a shared instance profile.
func (f Facts) InstanceProfileRole(profile string) (string, bool) {
	return facts.Lookup(f.InstanceProfiles, profile)
}
