package spec

import "kops.local/kops/internal/spec/facts"

// Facts are what only GCE has.
type Facts struct {
	// Project is the id of the project that was asked.
	Project string `json:"project,omitempty"`
	// DefaultServiceAccount is the address of the account that machines of the project act as
	// where nobody names one.
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`
	// Images are what else is known of machine images, by the name that a spec writes.
	Images map[string]Image `json:"images,omitempty"`
	// Families are names that a spec writes for an image and that are families of them: the
	// image that each has now, as a spec writes it.
	Families map[string]string `json:"families,omitempty"`
	// Accelerators are the zones of the region that offer a type of GPU, by the type.
	Accelerators map[string][]string `json:"accelerators,omitempty"`
	// Secondary are the secondary ranges of shared subnets, by the subnet and the range's name.
	Secondary map[string]map[string]string `json:"secondary,omitempty"`
	// Quotas are the limits of the project in the region and, for metrics that have none
	// there, everywhere; by the metric, such as CPUS.
	Quotas map[string]float64 `json:"quotas,omitempty"`
}

// Image holds the properties of a machine image that only GCE has.
type Image struct {
	// DiskSizeGB is the size of the smallest disk that holds it.
	DiskSizeGB int64 `json:"diskSizeGB,omitempty"`
	// State is its life cycle's: ACTIVE or empty, DEPRECATED, OBSOLETE or DELETED.
	State string `json:"state,omitempty"`
	// NoUEFI: it starts without UEFI, so that its machines have no virtual TPM.
	NoUEFI bool `json:"noUEFI,omitempty"`
}

// own returns the facts of GCE alone, as far as they can be read; their source reports errors in
// them.
func own(f *facts.Cloud) Facts {
	o, _ := facts.OwnAs[Facts](f) // CheckFacts has refused others
	return o
}
