package onmachine

import (
	"kops.local/kops/internal/contract/nodeconfig"
)

// Traits are what differs on machines of a platform. The zero value is a machine of which
// no platform is known.
type Traits struct {
	// TimeServers is a pool of servers of NTP; empty: the distribution's own.
	TimeServers string
	// KernelParameters are set in addition to every machine's, as NAME=VALUE.
	KernelParameters []string
	// Registry logs in to the platform's own registries of images; zero: there are none.
	Registry CredentialProvider
	// CloudConfig is the file that tells components about the platform; nil: it has none.
	CloudConfig func(*nodeconfig.Config) string
	// VerifiedKubelets says that the certificates of all kubelets hold the addresses at
	// which the API server reaches them.
	VerifiedKubelets bool
	// RoutedPods says that a pod of kops-controller's makes the pod network that containerd
	// makes elsewhere, as the platform has no routes of its own.
	RoutedPods bool
	// BalancerUnnamed says that nobody publishes names of load balancers: where one serves
	// the machines of the cluster, its name leads to the API servers nevertheless.
	BalancerUnnamed bool
	// Prompt says that a user waits for the machine: events are noticed within seconds, at the
	// price of more requests in this time.
	Prompt bool
}

// CredentialProvider is a program that the kubelet asks for the credentials of images
// (Kubernetes, CredentialProviderConfig v1).
type CredentialProvider struct {
	Name   string
	Images []string // patterns of the images it is asked for
	Cache  string   // for how long an answer is good, unless it says so itself
}
