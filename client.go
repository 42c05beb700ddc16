package kops

import (
	"context"
	"crypto"
	"io"
	"log/slog"
	"net/http"
	"time"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store/clusterstore"
	"kops.local/kops/internal/store/onstore"
)

// Config is what a Client works on, and how. Store, Clouds and World are needed.
type Config struct {
	// Store is where clusters are kept.
	Store Store
	// Clouds are the platforms.
	Clouds []Provider
	// World is what else there is.
	World World
	// Identity is who works on the clusters.
	Identity Identity
	// Cache is a folder for what can be fetched again; empty: no cache.
	Cache string
	// Offline says that only the state store and folders can be reached.
	Offline bool
	// Version is the version of this program, without a leading v.
	Version string
	// RunObsolete and RunTooNew let versions pass that the channel, or this program, does not allow.
	RunObsolete, RunTooNew bool
	// Features are the switches that are on.
	Features Features
	// KeySize is the size of new RSA keys in bits; 0 means 2048, and less is refused.
	KeySize int
	// Programs are kops' own for machines.
	Programs Programs
	// Arch is the only architecture of machines, amd64 or arm64; empty: both.
	Arch string
	// FileHashes are the hexadecimal SHA-256 of files that machines fetch, by public URL,
	// where the files that machines will find are not their publishers'.
	FileHashes map[string]string
	// IsSet reports whether a variable is set, for guessing the cloud; nil means that no variable is set.
	IsSet func(variable string) bool
	// Log gets what is worth keeping of a run; nil: nothing is kept.
	Log *slog.Logger
}

// Store is a state store. URL and Backends are needed.
type Store struct {
	URL string
	// Backends open stores by the scheme of their URL.
	Backends []Backend
	// Environment are variables that machines of the control plane need to reach the store.
	Environment map[string]string
	// Region is the region of its bucket, if it is in a bucket.
	Region string
	// Keys are those of the server of its bucket, where that is not the platform's own. Control
	// planes get them in a place of the platform's that only they read.
	Keys StoreKeys
}

// StoreKeys are an access key of a server of S3.
type StoreKeys struct{ ID, Secret string }

// Programs says where kops' own programs for machines are: one archive of all, which
// an update brings into the store of each cluster.
type Programs struct {
	// Archives are files that may be the archive of this version; the first that exists is taken.
	Archives []string
	// Releases is the URL of a folder with the archive of each version, which is fetched into
	// the last of Archives when none exists; "" disables this.
	Releases string
	// Digest is the hexadecimal SHA-256 of the archive's index; "" takes any of this version.
	Digest string
	// Base is the URL of a copy of an archive's contents, which machines read instead of the cluster's store; "" disables this.
	Base string
	// Images stand for those of the programs, by the program's name.
	Images map[string]string
}

// World is time, chance and the network. Now and Random are needed.
type World struct {
	Now func() time.Time
	// Sleep waits, as long as the context lives; nil: for real.
	Sleep  func(context.Context, time.Duration) error
	Random io.Reader
	// NewKey makes a private key; nil: RSA of Config.KeySize bits.
	NewKey func() (crypto.Signer, error)
	// HTTP fetches digests of files from their publishers; nil: http.DefaultClient.
	HTTP *http.Client
}

// Identity is who works on clusters.
type Identity struct {
	// Holder says who this is in leases and revisions.
	Holder Holder
	// Gone reports that a process of this machine, as a Holder names it, has ended; may be nil.
	Gone func(process string) bool
}

// Holder is who changes a cluster.
type Holder struct {
	User    string
	Host    string
	PID     int
	Command string // the command line
	// Process identifies the process to others on its machine; see Config.Gone. May be empty.
	Process string
}

// Client works on the clusters of one state store. It is safe for concurrent use.
type Client struct {
	cfg   Config
	store *clusterstore.Store
	world *pipeline.World
}

// New opens the state store. It makes no request beyond what opening needs.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.World.Sleep == nil {
		cfg.World.Sleep = clock.Sleep
	}
	if cfg.World.HTTP == nil {
		cfg.World.HTTP = http.DefaultClient
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	stores, err := backends(cfg.Store.Backends)
	if err != nil {
		return nil, err
	}
	clouds, err := providers(cfg.Clouds)
	if err != nil {
		return nil, err
	}
	s, err := stores.Open(ctx, cfg.Store.URL)
	if err != nil {
		return nil, err
	}
	most := map[string]int{}
	for _, p := range clouds {
		for api, n := range p.Limits {
			most[api] = n
		}
	}
	w := &pipeline.World{
		Backends: stores, Buckets: onstore.Buckets(stores), Clouds: clouds, Limits: exec.NewLimits(most, 16), Cache: cfg.Cache, Offline: cfg.Offline,
		Version: cfg.Version, RunObsolete: cfg.RunObsolete, RunTooNew: cfg.RunTooNew, Features: complete.Features(cfg.Features), KeySize: cfg.KeySize,
		User: cfg.Identity.Holder.User, Environment: cfg.Store.Environment, StoreKeys: storekeys.Pair(cfg.Store.Keys), FilesRegion: cfg.Store.Region,
		Programs: delivery.Places{Version: cfg.Version, Files: cfg.Programs.Archives, Releases: cfg.Programs.Releases, Digest: cfg.Programs.Digest,
			Base: cfg.Programs.Base, HTTP: cfg.World.HTTP}, OwnImages: cfg.Programs.Images, Arch: download.Arch(cfg.Arch), FileHashes: cfg.FileHashes,
		Now: cfg.World.Now, Sleep: cfg.World.Sleep, Random: cfg.World.Random, NewKey: cfg.World.NewKey, HTTP: cfg.World.HTTP, Log: cfg.Log,
	}
	w.Store, err = clusterstore.Open(clusterstore.Config{
		State: s, Backends: stores, Offline: cfg.Offline, Cache: w.CacheFolder("state"), Version: cfg.Version,
		Now: cfg.World.Now, Sleep: cfg.World.Sleep, Random: cfg.World.Random, Gone: cfg.Identity.Gone,
	})
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, store: w.Store, world: w}, nil
}

// holder is who this client is in leases and revisions.
func (c *Client) holder() clusterstore.Holder { return clusterstore.Holder(c.cfg.Identity.Holder) }
