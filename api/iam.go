package api

// IAMSpec holds options for roles of the cloud account.
type IAMSpec struct {
	// AllowContainerRegistry lets machines pull from the account's registry.
	AllowContainerRegistry bool `json:"allowContainerRegistry,omitempty"`
	// PermissionsBoundary is the ARN of a policy that bounds every role.
	PermissionsBoundary *string `json:"permissionsBoundary,omitempty" cloud:"aws"`
	// UseServiceAccountExternalPermissions gives each add-on a role of its own, by service account.
	UseServiceAccountExternalPermissions *bool `json:"useServiceAccountExternalPermissions,omitempty"`
	// ServiceAccountExternalPermissions gives roles to further service accounts.
	ServiceAccountExternalPermissions []ServiceAccountExternalPermission `json:"serviceAccountExternalPermissions,omitempty" cloud:"aws"`
}

// ServiceAccountExternalPermission gives a service account permissions of the cloud.
type ServiceAccountExternalPermission struct {
	Name      string         `json:"name,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	AWS       *AWSPermission `json:"aws,omitempty"`
}

// AWSPermission defines the permissions of a role on AWS; one of its members is set.
type AWSPermission struct {
	PolicyARNs []string `json:"policyARNs,omitempty"`
	// InlinePolicy is a JSON list of statements.
	InlinePolicy string `json:"inlinePolicy,omitempty" text:"lines"`
}

// ServiceAccountIssuerDiscoveryConfig publishes the issuer of service account tokens; a store and a service are mutually exclusive.
type ServiceAccountIssuerDiscoveryConfig struct {
	// DiscoveryStore is a public bucket for the discovery documents.
	DiscoveryStore string `json:"discoveryStore,omitempty"`
	// DiscoveryService serves the documents instead of a bucket.
	DiscoveryService *DiscoveryServiceOptions `json:"discoveryService,omitempty"`
	// EnableAWSOIDCProvider registers the issuer with AWS IAM.
	EnableAWSOIDCProvider bool `json:"enableAWSOIDCProvider,omitempty" cloud:"aws"`
	// AdditionalAudiences are also accepted by that provider.
	AdditionalAudiences []string `json:"additionalAudiences,omitempty"`
}

// DiscoveryServiceOptions identify a server of discovery documents.
type DiscoveryServiceOptions struct {
	URL string `json:"url,omitempty"`
}
