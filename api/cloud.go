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
	// Local is the machine that kops runs on; kOps does not know it.
	Local *LocalSpec `json:"local,omitempty"`
}

// LocalSpec is for clusters of machines that are containers of one host.
type LocalSpec struct{}

// CloudConfiguration holds options that several clouds share.
type CloudConfiguration struct {
	// ManageStorageClasses says whether the cluster applies a default storage class; true when nil.
	ManageStorageClasses *bool `json:"manageStorageClasses,omitempty"`
}

// DOSpec has no options. It is DigitalOcean, which v1alpha2 calls digitalocean.
type DOSpec struct{}

// HetznerSpec has no options.
type HetznerSpec struct{}

// LinodeSpec has no options.
type LinodeSpec struct{}

// ScalewaySpec has no options.
type ScalewaySpec struct{}
