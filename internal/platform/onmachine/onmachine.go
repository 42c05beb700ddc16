// Package onmachine says what a platform is to the programs on its machines, nodeup
// and etcd-manager: a struct of capabilities, of which a nil one means "not
// supported". What implements them links no SDK: every machine fetches these programs.
//
// It must not know any platform; package nodes lists them.
package onmachine

import (
	"context"
	"io"
	"net/http"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/etcd/volume"
)

// Platform is one platform.
type Platform struct {
	// Name is the platform's name in the boot configuration: aws, local …
	Name string
	// Traits are what differs on its machines.
	Traits Traits
	// Environment lists the variables that the functions read.
	Environment []string
	// Detect asks the platform about the machine; nil: the machine itself knows all.
	Detect func(context.Context, World, *nodeconfig.Boot, *nodeconfig.Config) (Facts, error)
	// Prove returns what proves to kops-controller who the machine is.
	Prove func(World) (bootstrap.Prover, error)
	// Launched tells the group that Facts.Waiting names that the machine has started.
	Launched func(context.Context, World, Facts) error
	// Credentials returns the credentials of the machine's own account, for buckets.
	Credentials func(context.Context, World) (Credentials, error)
	// Keys reads the keys of another's server of S3 in a place of the platform's, as
	// traits.Store.Keys names it; nil: the platform has no such place.
	Keys func(ctx context.Context, w World, place string) (Credentials, error)
	// Volumes finds the disks of the members of an etcd cluster.
	Volumes func(World, volume.Request) volume.Source
}

// World is what a platform needs of the process that asks it.
type World struct {
	// Root is where the machine's file system begins.
	Root string
	Env  func(string) string
	// HTTP asks through the proxy that the environment names; Direct asks the
	// machine's own metadata service, which a proxy would ask for itself.
	HTTP, Direct *http.Client
	Hostname     func() (string, error)
	Now          func() time.Time
	Rand         io.Reader
}

// Facts are what a platform tells a machine about itself. The zero value tells nothing.
type Facts struct {
	// NodeName is what the machine's Node is called, and Names are all names and
	// addresses for its certificates; empty: those that the machine itself knows.
	NodeName string   `json:"nodeName,omitempty"`
	Names    []string `json:"names,omitempty"`
	// Address is the machine's own in the platform's network.
	Address string `json:"address,omitempty"`
	// ProviderID is what the platform calls the machine; empty: its controller in the cluster finds it.
	ProviderID string `json:"providerID,omitempty"`
	// MaxPods is how many pods have an address where each gets one of the platform's; 0: not limited by it.
	MaxPods int `json:"maxPods,omitempty"`
	// Warming says that the machine is only prepared, for a pool that it leaves later.
	Warming bool `json:"warming,omitempty"`
	// Waiting is the platform's group that waits for a report that the machine has started; empty:
	// none does.
	Waiting string `json:"waiting,omitempty"`
	// Warnings are what was not found out, and what follows.
	Warnings []string `json:"warnings,omitempty"`
}

// Credentials sign requests to S3.
type Credentials struct{ ID, Secret, Token string }

// Find returns the platform of a name; ok is false if there is none.
func Find(all []Platform, name string) (p Platform, ok bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Platform{}, false
}
