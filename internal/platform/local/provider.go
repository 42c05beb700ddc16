// Package local is the local cloud: machines that are containers on this host, each
// with its own init, address and disk. It is a platform like any other.
//
// It must not know how plans are created or carried out, nor read the environment.
package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/platform/local/stage"
	"kops.local/kops/internal/platform/rehearsal"
)

// DefaultRoot is the folder of all clusters of a host. It is removed with the last
// cluster, so its parent must exist on every host.
const DefaultRoot = "/var/lib/kops-local"

// runFolder is where the host's settings from before its first cluster are recorded.
const runFolder = "/run/kops-local"

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
		Stage:    o.openStage,
	}
}

// DefaultStage is the folder of a rehearsal.
const DefaultStage = "/var/lib/kops-rehearsal"

// openStage opens a stage on which another platform can be rehearsed.
func (o Options) openStage(ctx context.Context, h rehearsal.StageOptions) (rehearsal.OpenStage, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return stage.Open(ctx, stage.Options{Root: cmp.Or(h.Root, DefaultStage), Cache: filepath.Join(o.Cache, "local"), Run: runFolder, Bundle: o.Bundle, Log: h.Log, Output: o.Log, Now: time.Now})
}

// check reports why machines cannot be created here.
func (o Options) check() error {
	if o.Cache == "" {
		return fault.Wrap(fault.Permanent, errors.New("clusters on this host need a cache folder for images, but neither HOME nor XDG_CACHE_HOME is set"),
			"set HOME to the user's home folder, as sudo --set-home does")
	}
	return ground.Check(ground.LocalHost())
}

func (o Options) connect(context.Context, platform.Config) (*platform.Session, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &platform.Session{Client: &kinds.Client{Root: o.Root, Cache: filepath.Join(o.Cache, "local"), Run: runFolder, Keeper: o.Keeper, Log: o.Log, Now: time.Now}}, nil
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
