package api

// CloudProviderSpec has exactly one member set: the cloud.
type CloudProviderSpec struct {
	AWS       *AWSSpec       `json:"aws,omitempty"`
	Azure     *AzureSpec     `json:"azure,omitempty"`
	DO        *DOSpec        `json:"do,omitempty"`
	GCE       *GCESpec       `json:"gce,omitempty"`
	Hetzner   *HetznerSpec   `json:"hetzner,omitempty"`
	Openstack *OpenstackSpec `json:"openstack,omitempty"`
	Scaleway  *ScalewaySpec  `json:"scaleway,omitempty"`
	Linode    *LinodeSpec    `json:"linode,omitempty"`
	// Local is the machine that kops runs on; kOps does not support it.
	Local *LocalSpec `json:"local,omitempty"`
}

// LocalSpec selects machines that are containers on one host; it has no options.
type LocalSpec struct{}

// CloudConfiguration holds options that several clouds share.
type CloudConfiguration struct {
	// ManageStorageClasses enables the default storage class; true when nil.
	ManageStorageClasses *bool `json:"manageStorageClasses,omitempty"`
}

// DOSpec has no options. It is DigitalOcean; v1alpha2 names it digitalocean.
type DOSpec struct{}

// HetznerSpec has no options.
type HetznerSpec struct{}

// LinodeSpec has no options.
type LinodeSpec struct{}

// ScalewaySpec has no options.
type ScalewaySpec struct{}
