// Package onmachine defines what a platform is to the programs on its machines, nodeup and
// etcd-manager: a struct of capabilities, where nil means "not supported". Implementations link no
// SDK, because every machine downloads these programs.
//
// It must not know any platform; package nodes lists them.
package onmachine

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/store"
)

// Platform is one platform.
type Platform struct {
	// Name is the platform's name in the boot configuration: aws, local …
	Name string
	// Traits are what is specific to its machines.
	Traits Traits
	// Environment lists the variables that the functions read.
	Environment []string
	// Detect queries the platform about the machine; nil: the machine knows everything itself.
	Detect func(context.Context, World, *nodeconfig.Boot, *nodeconfig.Config) (Facts, error)
	// Prove returns a prover of the machine's identity to kops-controller.
	Prove func(World) (bootstrap.Prover, error)
	// OnLaunched notifies the group in Facts.Waiting that the machine has started.
	OnLaunched func(context.Context, World, Facts) error
	// Backends returns the platform's own stores, as the machine opens them; nil: there are none, or
	// every program opens them. client sends the requests; nil: each store has a client of its own.
	Backends func(w World, client *http.Client) store.Backends
	// Credentials returns the credentials of the machine's own account, for buckets of S3.
	Credentials func(context.Context, World) (Credentials, error)
	// Keys reads the keys of an S3 server that is not the platform's from a place on the platform,
	// as traits.Store.Keys names it; nil: the platform has no such place.
	Keys func(ctx context.Context, w World, place string) (Credentials, error)
	// Secrets are the names of the secrets that World.Secret returns on control planes.
	Secrets []string
	// Volumes finds the disks of an etcd cluster's members.
	Volumes func(World, volume.Request) volume.Source
	// VolumeProvider is what the manifest of etcd-manager calls the platform; empty: Name.
	VolumeProvider string
}

// HasVolumesOf reports whether the platform finds the disks of a provider, as manifests of etcd-manager
// name it.
func (p Platform) HasVolumesOf(provider string) bool {
	return p.Volumes != nil && provider == cmp.Or(p.VolumeProvider, p.Name)
}

// World is what a platform needs from the process that calls it.
type World struct {
	// Root is the root of the machine's file system.
	Root string
	Env  func(string) string
	// HTTP uses the proxy that the environment names; Direct uses none, for the machine's metadata
	// service, where a proxy would query its own.
	HTTP, Direct *http.Client
	Hostname     func() (string, error)
	Now          func() time.Time
	Rand         io.Reader
}

// Secret returns one of the secrets of a platform, which nodeup keeps in a file of a control plane. The
// class of an error is fault.NotYet.
func (w World) Secret(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(w.Root, paths.PlatformSecrets, filepath.Base(name)))
	if err != nil {
		return "", fault.Wrap(fault.NotYet, err, "run kops update cluster --yes with "+name+" in the environment")
	}
	return strings.TrimSpace(string(text)), nil
}

// Facts are what a platform tells a machine about itself. The zero value holds nothing.
type Facts struct {
	// NodeName is the name of the machine's Node, and Names are all names and addresses for its
	// certificates; empty: those that the machine itself knows.
	NodeName string   `json:"nodeName,omitempty"`
	Names    []string `json:"names,omitempty"`
	// Address is the machine's address in the platform's network.
	Address string `json:"address,omitempty"`
	// ProviderID is the platform's ID of the machine; empty: the platform's controller in the
	// cluster finds it.
	ProviderID string `json:"providerID,omitempty"`
	// MaxPods is how many pods can have an address if each gets one of the platform's; 0: not
	// limited by addresses.
	MaxPods int `json:"maxPods,omitempty"`
	// Warming reports that the machine is only being prepared for a warm pool, and serves later.
	Warming bool `json:"warming,omitempty"`
	// Waiting is the platform's group that waits for the report that the machine has started;
	// empty: there is none.
	Waiting string `json:"waiting,omitempty"`
	// Warnings are what could not be determined, and the consequences.
	Warnings []string `json:"warnings,omitempty"`
}

// Credentials sign requests to S3.
type Credentials struct{ ID, Secret, Token string }

// Find returns the platform with that name; ok is false if there is none.
func Find(all []Platform, name string) (p Platform, ok bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Platform{}, false
}
