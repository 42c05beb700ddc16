// Package local is the local cloud: machines that are containers on this host, each
// with its own init, address and disk. It is a platform like any other.
//
// It must not know how plans are created or carried out, nor read the environment.
package local

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/local/spec"
)

// DefaultRoot is the folder of all clusters of a host. It is removed with the last
// cluster, so its parent must exist on every host.
const DefaultRoot = "/var/lib/kops-local"

// Options specify where on this host the clusters are.
type Options struct {
	// Root is the folder of all clusters; empty means DefaultRoot.
	Root string
	// Cache is the user's cache folder for kops; images are kept in it.
	Cache string
	// Bundle is the folder of files and images that machines fetch.
	Bundle string
	// Keeper is the command that calls Keep, to which --root=DIR and
	// --cluster=NAME are added.
	Keeper []string
	// Log receives the progress of long operations, such as building an image; may be nil.
	Log io.Writer
}

// In returns the platform that a program's environment configures.
func In(w platform.World) platform.Provider {
	return Provider(Options{Root: platform.Absolute(w.Getenv("KOPS_LOCAL_ROOT")), Cache: w.Cache, Bundle: w.Bundle, Keeper: KeepCommand(w.Program), Log: w.Log})
}

// Provider returns the platform.
func Provider(o Options) platform.Provider {
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	return platform.Provider{
		Platform: spec.Platform(),
		Kinds:    kinds.All(),
		Limits:   map[string]int{"local": 8},
		Connect:  o.connect,
		Lookup:   platform.Lookup{Facts: o.lookUp, NewClusterFacts: o.newClusterFacts, Endpoint: apiEndpoint},
		Declare:  platform.Declare{Model: buildModel, Shared: func(*api.Cluster) ([]resource.Node, error) { return nil, nil }},
		Fleet:    platform.Fleet{Machines: listMachines, Roll: roll(), Room: room, BootRecord: bootRecord},
	}
}

func (o Options) connect(context.Context, platform.Config) (*platform.Session, error) {
	if err := ground.CheckWithCache(o.Cache); err != nil {
		return nil, err
	}
	return &platform.Session{Client: &kinds.Client{Root: o.Root, Cache: filepath.Join(o.Cache, "local"), Run: ground.RunFolder, Keeper: o.Keeper, Log: o.Log, Now: time.Now}}, nil
}

// Keep runs the process that keeps one cluster, or its standby: it creates and
// replaces machines and balances the load, until the cluster is deleted, ctx is done
// or it receives SIGTERM. It logs its actions to out. command is Options.Keeper, with
// which it starts another process as its standby.
func Keep(ctx context.Context, root, cluster string, command []string, out io.Writer) error {
	return keeper.Run(ctx, site.Site{Root: root, Cluster: cluster}, command, out)
}

// KeepCommand returns the command that makes the program kops call Keep.
func KeepCommand(program string) []string { return []string{program, "local", "keep"} }
