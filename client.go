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

// Config configures a Client. Store, Clouds and World are required.
type Config struct {
	// Store is the state store with the clusters.
	Store Store
	// Clouds are the platforms.
	Clouds []Provider
	// World is the environment: time, randomness and the network.
	World World
	// Identity identifies the user of the client.
	Identity Identity
	// Cache is a folder for data that can be downloaded again; empty means no cache.
	Cache string
	// Offline means that only stores can be reached, and only local ones if the state store is local.
	Offline bool
	// Version is the version of this program, without a leading v.
	Version string
	// RunObsolete and RunTooNew allow versions that the channel, or this program, does not allow.
	RunObsolete, RunTooNew bool
	// Features are the enabled feature flags.
	Features Features
	// KeySize is the size of new RSA keys in bits; 0 means 2048, and less is refused.
	KeySize int
	// Programs is the location of kops' own programs for machines.
	Programs Programs
	// Arch is the only architecture of machines, amd64 or arm64; empty means both.
	Arch string
	// PluginsURL is the URL of an archive of CNI plugins for machines; empty means the published one.
	PluginsURL string
	// FileHashes are the hexadecimal SHA-256 digests of files that machines download, by public URL,
	// if the files that machines will find differ from the published ones.
	FileHashes map[string]string
	// IsSet reports whether a variable is set, for guessing the cloud; nil means that no variable is set.
	IsSet func(variable string) bool
	// Log receives the log records of a run; nil discards them.
	Log *slog.Logger
}

// Store is a state store. URL and Backends are required.
type Store struct {
	URL string
	// Backends open stores by the scheme of their URL.
	Backends []Backend
	// Environment are the environment variables that control plane machines need to access the store.
	Environment map[string]string
	// Region is the region of its bucket, if it is in a bucket.
	Region string
	// Keys are the access keys of the bucket's server, if that is not the platform's own. Control
	// planes receive them from a place on the platform that only they can read.
	Keys StoreKeys
}

// StoreKeys are an access key of an S3 server.
type StoreKeys struct{ ID, Secret string }

// Programs is the location of kops' own programs for machines: one archive of all, which
// an update copies to the store of each cluster.
type Programs struct {
	// Archives are possible paths of this version's archive; the first existing file is used.
	Archives []string
	// Releases is the URL of a folder with the archive of each version, which is downloaded to
	// the last of Archives if no file exists; "" disables this.
	Releases string
	// Digest is the hexadecimal SHA-256 of the archive's index; "" accepts any archive of this version.
	Digest string
	// Base is the URL of a copy of an archive's contents, which machines read instead of the cluster's store; "" disables this.
	Base string
	// Images replace the images of the programs, by the program's name.
	Images map[string]string
}

// World is time, randomness and the network. Now and Random are required.
type World struct {
	Now func() time.Time
	// Sleep waits, or returns when the context is done; nil means a real timer.
	Sleep  func(context.Context, time.Duration) error
	Random io.Reader
	// NewKey generates a private key; nil generates an RSA key of Config.KeySize bits.
	NewKey func() (crypto.Signer, error)
	// HTTP downloads digests of files from their publishers; nil means http.DefaultClient.
	HTTP *http.Client
}

// Identity identifies the user of a client.
type Identity struct {
	// Holder is the client's identity in leases and revisions.
	Holder Holder
	// ProcessEnded reports whether a process of this machine, as identified in a Holder, has exited; may be nil.
	ProcessEnded func(process string) bool
}

// Holder identifies who changes a cluster.
type Holder struct {
	User    string
	Host    string
	PID     int
	Command string // the command line, without secrets: others see it
	// Process identifies the process to others on its machine; see Identity.ProcessEnded. May be empty.
	Process string
}

// Client operates on the clusters of one state store. It is safe for concurrent use.
type Client struct {
	cfg   Config
	store *clusterstore.Store
	world *pipeline.World
}

// New opens the state store. It makes only the requests that opening needs.
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
			Base: cfg.Programs.Base, HTTP: cfg.World.HTTP}, OwnImages: cfg.Programs.Images, Arch: download.Arch(cfg.Arch), PluginsURL: cfg.PluginsURL, FileHashes: cfg.FileHashes,
		Now: cfg.World.Now, Sleep: cfg.World.Sleep, Random: cfg.World.Random, NewKey: cfg.World.NewKey, HTTP: cfg.World.HTTP, Log: cfg.Log,
	}
	w.Store, err = clusterstore.Open(clusterstore.Config{
		State: s, Backends: stores, Offline: cfg.Offline, Cache: w.CacheFolder("state"), Version: cfg.Version,
		Now: cfg.World.Now, Sleep: cfg.World.Sleep, Random: cfg.World.Random, ProcessEnded: cfg.Identity.ProcessEnded,
	})
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, store: w.Store, world: w}, nil
}

// holder returns the client's identity in leases and revisions.
func (c *Client) holder() clusterstore.Holder { return clusterstore.Holder(c.cfg.Identity.Holder) }
