package spec

import "kops.local/kops/internal/spec/facts"

// Facts are what only AWS has.
type Facts struct {
	Partition string `json:"partition,omitempty"` // "aws", "aws-cn", …
	AccountID string `json:"accountID,omitempty"`
	// InstanceProfiles are the names of the roles of shared instance profiles, by the profile's name or ARN as a spec writes it.
	InstanceProfiles map[string]string `json:"instanceProfiles,omitempty"`
	// ElasticIPs are the allocation ids, "eipalloc-…", of shared addresses, by address.
	ElasticIPs map[string]string `json:"elasticIPs,omitempty"`
}

// InstanceProfileRole returns the name of the role of a shared instance profile.
func (f Facts) InstanceProfileRole(profile string) (string, bool) {
	return facts.Lookup(f.InstanceProfiles, profile)
}
