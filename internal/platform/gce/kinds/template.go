package kinds

import (
	"context"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// InstanceTemplate says how machines are made. It cannot be changed: another content is another
// template, whose name ends in a digest of it.
type InstanceTemplate struct {
	// Prefix begins the name, and ends in a dash; Cluster and Group are in the metadata.
	Prefix       string                      `res:"forbid" tf:"name_prefix"`
	CanIPForward bool                        `res:"forbid" tf:"can_ip_forward,zero"`
	Disks        []TemplateDisk              `res:"forbid" tf:"disk,block"`
	Labels       map[string]string           `res:"forbid" tf:"labels"`
	Lifecycle    TemplateLifecycle           `res:"writeonly" tf:"lifecycle,block"`
	MachineType  string                      `res:"forbid" tf:"machine_type"`
	Metadata     map[string]resource.Content `res:"forbid" tf:"metadata,lines"`
	Interfaces   []TemplateInterface         `res:"forbid" tf:"network_interface,block"`
	Scheduling   Scheduling                  `res:"forbid" tf:"scheduling,block"`
	Account      TemplateAccount             `res:"forbid" tf:"service_account,block"`
	Tags         []string                    `res:"forbid" tf:"tags"`
	Accelerators []Accelerator               `res:"forbid" tf:"guest_accelerator,block"`
	Shielded     *ShieldedInstance           `res:"forbid" tf:"shielded_instance_config,block"`
	Confidential *ConfidentialInstance       `res:"forbid" tf:"confidential_instance_config,block"`

	// ID is projects/P/global/instanceTemplates/NAME.
	ID string `res:"out,id" out:"id" tf:"self_link"`
	// Idle says that no group makes machines of it, and that no machine was made of it which still runs.
	Idle bool `res:"out,volatile"`
}

// TemplateDisk is the boot disk. Terraform's provider prints attributes that are always empty here.
type TemplateDisk struct {
	AutoDelete  bool   `tf:"auto_delete,zero"`
	Boot        bool   `tf:"boot,zero"`
	DeviceName  string `tf:"device_name"`
	DiskName    string `tf:"disk_name,zero"`
	SizeGiB     int    `tf:"disk_size_gb"`
	DiskType    string `tf:"disk_type"`
	Interface   string `tf:"interface,zero"`
	Mode        string `tf:"mode"`
	IOPS        int    `tf:"provisioned_iops,zero"`
	Throughput  int    `tf:"provisioned_throughput,zero"`
	Source      string `tf:"source,zero"`
	SourceImage string `tf:"source_image"`
	Type        string `tf:"type"`
}

// TemplateLifecycle is Terraform's own block. The constructor sets it.
type TemplateLifecycle struct {
	CreateBeforeDestroy bool `tf:"create_before_destroy"`
}

// TemplateInterface is the interface of a machine. An empty Access gives it a public address.
type TemplateInterface struct {
	Network    resource.Value `tf:"network"`    // Network.ID
	Subnetwork resource.Value `tf:"subnetwork"` // Subnetwork.ID
	StackType  string         `tf:"stack_type"`
	Access     *AccessConfig  `tf:"access_config,block"`
	Aliases    []AliasRange   `tf:"alias_ip_range,block"`
}

// AccessConfig gives a public address.
type AccessConfig struct{}

// AliasRange gives a machine a part of a secondary range for its pods.
type AliasRange struct {
	CIDR  string `tf:"ip_cidr_range"` // "/24"
	Range string `tf:"subnetwork_range_name"`
}

// ShieldedInstance guards the start of machines; nil leaves it to the image and to Google.
type ShieldedInstance struct {
	SecureBoot bool `tf:"enable_secure_boot,zero"`
	VTPM       bool `tf:"enable_vtpm,zero"`
	Integrity  bool `tf:"enable_integrity_monitoring,zero"`
}

// ConfidentialInstance has a processor encrypt the memory of machines.
type ConfidentialInstance struct {
	Type string `tf:"confidential_instance_type"` // "SEV", "SEV_SNP" or "TDX"
}

// Scheduling says when a machine may be ended.
type Scheduling struct {
	AutomaticRestart  bool   `tf:"automatic_restart,zero"`
	OnHostMaintenance string `tf:"on_host_maintenance"` // "MIGRATE" or "TERMINATE"
	Preemptible       bool   `tf:"preemptible,zero"`
	ProvisioningModel string `tf:"provisioning_model"` // "STANDARD" or "SPOT"
}

// TemplateAccount is what machines act as.
type TemplateAccount struct {
	Email  resource.Value `tf:"email"`
	Scopes []string       `tf:"scopes"`
}

// Accelerator is a number of GPUs of a type.
type Accelerator struct {
	Type  string `tf:"type"`
	Count int    `tf:"count"`
}

// InstanceTemplates is the kind of InstanceTemplate. Its key is the name that kops gives: the prefix
// and a digest of all else. One of the same content that has another name is as good.
var InstanceTemplates = resource.Kind[InstanceTemplate, *Client]{
	Name:   "google_compute_instance_template",
	API:    apiCompute,
	Tasks:  []string{"InstanceTemplate"},
	Early:  true,
	Tidy:   tidyTemplate,
	Group:  func(t *InstanceTemplate) string { return t.metadata(gcecloud.MetadataGroup) },
	Key:    templateName,
	Idle:   func(t *InstanceTemplate) bool { return t.Idle },
	List:   listTemplates,
	Create: createTemplate,
	Delete: func(ctx context.Context, c *Client, t *InstanceTemplate) error {
		return fault.IgnoreGone(c.Done(ctx)(c.Compute.InstanceTemplates.Delete(c.Project, gceapi.Name(t.ID)).Context(ctx).Do()))
	},
}
