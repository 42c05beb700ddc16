package api

// GCESpec holds options for Google Compute Engine.
type GCESpec struct {
	// Project is the project ID.
	Project string `json:"project,omitempty"`
	// ServiceAccount is the account that machines run as.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	Multizone      *bool  `json:"multizone,omitempty"`
	// NodeTags are the tags by which firewall rules find nodes.
	NodeTags           *string `json:"nodeTags,omitempty"`
	NodeInstancePrefix *string `json:"nodeInstancePrefix,omitempty"`
	// PDCSIDriver configures the driver for persistent disks.
	PDCSIDriver      *PDCSIDriver `json:"pdCSIDriver,omitempty"`
	UseStartupScript *bool        `json:"useStartupScript,omitempty"`
	BinariesLocation *string      `json:"binariesLocation,omitempty"`
}

// PDCSIDriver configures the driver for persistent disks, which is on by default.
type PDCSIDriver struct {
	Enabled                 *bool   `json:"enabled,omitempty"`
	Version                 *string `json:"version,omitempty"`
	DefaultStorageClassName *string `json:"defaultStorageClassName,omitempty"`
}
