package kinds

import (
	"context"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// InstanceTemplate describes how machines are created. It is immutable: a change creates another
// template, whose name ends in a digest of the content.
type InstanceTemplate struct {
	// Prefix is the name's prefix, and ends in a dash; Cluster and Group are stored in the
	// metadata.
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
	// Idle reports that no group uses it for new machines, and that no machine created from it is
	// left.
	Idle bool `res:"out,volatile"`
}

// TemplateDisk is the boot disk. It has attributes that are always empty here because Terraform's
// provider prints them.
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

// TemplateLifecycle is Terraform's lifecycle block. The constructor sets it.
type TemplateLifecycle struct {
	CreateBeforeDestroy bool `tf:"create_before_destroy"`
}

// TemplateInterface is a machine's network interface. An empty Access gives it a public address.
type TemplateInterface struct {
	Network    resource.Value `tf:"network"`    // Network.ID
	Subnetwork resource.Value `tf:"subnetwork"` // Subnetwork.ID
	StackType  string         `tf:"stack_type"`
	Access     *AccessConfig  `tf:"access_config,block"`
	Aliases    []AliasRange   `tf:"alias_ip_range,block"`
}

// AccessConfig gives a public address.
type AccessConfig struct{}

// AliasRange assigns a machine a part of a secondary range for its pods.
type AliasRange struct {
	CIDR  string `tf:"ip_cidr_range"` // "/24"
	Range string `tf:"subnetwork_range_name"`
}

// ShieldedInstance protects the boot of machines; nil leaves the defaults of the image and of
// Google.
type ShieldedInstance struct {
	SecureBoot bool `tf:"enable_secure_boot,zero"`
	VTPM       bool `tf:"enable_vtpm,zero"`
	Integrity  bool `tf:"enable_integrity_monitoring,zero"`
}

// ConfidentialInstance makes the processor encrypt machines' memory.
type ConfidentialInstance struct {
	Type string `tf:"confidential_instance_type"` // "SEV", "SEV_SNP" or "TDX"
}

// Scheduling says when a machine may be stopped.
type Scheduling struct {
	AutomaticRestart  bool   `tf:"automatic_restart,zero"`
	OnHostMaintenance string `tf:"on_host_maintenance"` // "MIGRATE" or "TERMINATE"
	Preemptible       bool   `tf:"preemptible,zero"`
	ProvisioningModel string `tf:"provisioning_model"` // "STANDARD" or "SPOT"
}

// TemplateAccount is the account that machines use.
type TemplateAccount struct {
	Email  resource.Value `tf:"email"`
	Scopes []string       `tf:"scopes"`
}

// Accelerator is a GPU type and the number of GPUs.
type Accelerator struct {
	Type  string `tf:"type"`
	Count int    `tf:"count"`
}

// InstanceTemplates is the kind of InstanceTemplate. Its key is the name that kops gives: the
// prefix and a digest of everything else. A template with the same content under another name is
// equivalent.
var InstanceTemplates = resource.Kind[InstanceTemplate, *Client]{
	Name:   "google_compute_instance_template",
	API:    apiCompute,
	Tasks:  []string{"InstanceTemplate"},
	Early:  true,
	Tidy:   normalizeTemplate,
	Group:  func(t *InstanceTemplate) string { return t.metadata(gcecloud.MetadataGroup) },
	Key:    templateName,
	Idle:   func(t *InstanceTemplate) bool { return t.Idle },
	List:   listTemplates,
	Create: createTemplate,
	Delete: func(ctx context.Context, c *Client, t *InstanceTemplate) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.InstanceTemplates.Delete(c.Project, gceapi.Name(t.ID)).Context(ctx).Do()))
	},
}
