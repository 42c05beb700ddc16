package onmachine

import (
	"kops.local/kops/internal/contract/nodeconfig"
)

// Traits are what is specific to a platform's machines. The zero value is a machine without a known
// platform.
type Traits struct {
	// TimeServers is a pool of NTP servers; empty: the distribution's default.
	TimeServers string
	// KernelParameters are set in addition to every machine's, as NAME=VALUE.
	KernelParameters []string
	// Registry logs in to the platform's own image registries; zero: there are none.
	Registry CredentialProvider
	// CloudConfig returns the file that tells components about the platform; nil: there is none.
	CloudConfig func(*nodeconfig.Config) string
	// VerifiedKubelets reports that every kubelet's certificate holds the addresses at which the
	// API server reaches it.
	VerifiedKubelets bool
	// CalledBack reports that Platform.Prove returns a bootstrap.Claim: kops-controller calls the machine
	// before it believes the claim, and the machine listens for that.
	CalledBack bool
	// RoutedPods reports that a kops-controller pod sets up the pod network, which containerd does
	// elsewhere, because the platform has no routes of its own.
	RoutedPods bool
	// BalancerUnnamed reports that no one publishes names of load balancers: where one serves the
	// machines of the cluster, its name still resolves to the API servers.
	BalancerUnnamed bool
	// Prompt reports that a user waits for the machine: events are noticed within seconds, at the
	// cost of more requests during that time.
	Prompt bool
}

// CredentialProvider is a program from which the kubelet gets image credentials (Kubernetes,
// CredentialProviderConfig v1).
type CredentialProvider struct {
	Name   string
	Images []string // patterns of the images for which it is called
	Cache  string   // how long a response is valid, unless it says so itself
}
