package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// AuthenticationSpec configures additional authentication methods for users.
type AuthenticationSpec struct {
	Kopeio *KopeioAuthenticationSpec `json:"kopeio,omitempty"`
	AWS    *AWSAuthenticationSpec    `json:"aws,omitempty"`
	OIDC   *OIDCAuthenticationSpec   `json:"oidc,omitempty"`
}

// KopeioAuthenticationSpec has no options.
type KopeioAuthenticationSpec struct{}

// AWSAuthenticationSpec configures aws-iam-authenticator.
type AWSAuthenticationSpec struct {
	// Image replaces the default image of the version.
	Image string `json:"image,omitempty"`
	// BackendMode is a comma-separated list of MountedFile, EKSConfigMap and CRD.
	BackendMode string `json:"backendMode,omitempty"`
	// ClusterID must be unique; by convention it is the cluster's name.
	ClusterID string `json:"clusterID,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// IdentityMappings need backendMode CRD.
	IdentityMappings []AWSAuthenticationIdentityMappingSpec `json:"identityMappings,omitempty"`
}

// AWSAuthenticationIdentityMappingSpec maps a role or user of AWS to a Kubernetes user.
type AWSAuthenticationIdentityMappingSpec struct {
	ARN      string   `json:"arn,omitempty"`
	Username string   `json:"username,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// OIDCAuthenticationSpec accepts ID tokens of an OpenID Connect issuer.
type OIDCAuthenticationSpec struct {
	// UsernameClaim is the claim that holds the user's name.
	UsernameClaim  *string `json:"usernameClaim,omitempty"`
	UsernamePrefix *string `json:"usernamePrefix,omitempty"`
	// GroupsClaims are the claims that hold the user's groups.
	GroupsClaims []string `json:"groupsClaims,omitempty"`
	GroupsPrefix *string  `json:"groupsPrefix,omitempty"`
	IssuerURL    *string  `json:"issuerURL,omitempty"`
	ClientID     *string  `json:"clientID,omitempty"`
	// RequiredClaims must be present in a token with these values.
	RequiredClaims map[string]string `json:"requiredClaims,omitempty"`
}

// AuthorizationSpec has exactly one member set.
type AuthorizationSpec struct {
	AlwaysAllow *AlwaysAllowAuthorizationSpec `json:"alwaysAllow,omitempty"`
	RBAC        *RBACAuthorizationSpec        `json:"rbac,omitempty"`
}

// AlwaysAllowAuthorizationSpec has no options.
type AlwaysAllowAuthorizationSpec struct{}

// RBACAuthorizationSpec has no options.
type RBACAuthorizationSpec struct{}
