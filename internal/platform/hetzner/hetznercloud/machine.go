package hetznercloud

// ClaimScheme is the first word of the tokens with which servers name themselves to kops-controller. The
// second one is the server's number.
const ClaimScheme = "x-hetzner-id"

// ProviderPrefix precedes a server's number in the provider ID of its node.
const ProviderPrefix = "hcloud://"

// Environment variables.
const (
	// TokenVariable has an API token of the project.
	TokenVariable = "HCLOUD_TOKEN"
	// EndpointVariable has the URL of the API; empty: Hetzner's.
	EndpointVariable = "HCLOUD_ENDPOINT"
	// MetadataVariable has the URL of the metadata service of servers, up to its version; empty:
	// Hetzner's.
	MetadataVariable = "HCLOUD_METADATA"
)
