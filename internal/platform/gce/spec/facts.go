package spec

import "kops.local/kops/internal/spec/facts"

// Facts are the facts that only GCE has.
type Facts struct {
	// Project is the ID of the project that was queried.
	Project string `json:"project,omitempty"`
	// DefaultServiceAccount is the address of the account that the project's machines use by
	// default.
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`
	// Images holds additional properties of machine images, by the name that a spec writes.
	Images map[string]Image `json:"images,omitempty"`
	// Families maps names in a spec that are image families to the family's current image, as a
	// spec writes it.
	Families map[string]string `json:"families,omitempty"`
	// Accelerators maps a GPU type to the region's zones that offer it.
	Accelerators map[string][]string `json:"accelerators,omitempty"`
	// Secondary holds the secondary ranges of shared subnets, by the subnet's and the range's name.
	Secondary map[string]map[string]string `json:"secondary,omitempty"`
	// Quotas are the project's limits in the region or, for metrics without a regional limit, its
	// global limits; by metric, such as CPUS.
	Quotas map[string]float64 `json:"quotas,omitempty"`
}

// Image holds the properties of a machine image that only GCE has.
type Image struct {
	// DiskSizeGB is the minimum disk size for the image.
	DiskSizeGB int64 `json:"diskSizeGB,omitempty"`
	// State is its lifecycle state: ACTIVE or empty, DEPRECATED, OBSOLETE or DELETED.
	State string `json:"state,omitempty"`
	// NoUEFI: it does not boot with UEFI, so its machines have no virtual TPM.
	NoUEFI bool `json:"noUEFI,omitempty"`
}

// ownFacts returns the GCE-specific facts, as far as they can be parsed; their source reports parse
// errors.
func ownFacts(f *facts.Cloud) Facts {
	o, _ := facts.OwnAs[Facts](f) // CheckFacts has rejected invalid ones
	return o
}
