package kops

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store/clusterstore"
)

// Config is the world of a Client. State, Backends, Clouds, Now and Random are needed.
type Config struct {
	// State is the URL of the state store.
	State string
	// Backends open stores by the scheme of their URL.
	Backends Backends
	// Clouds are the platforms.
	Clouds []Provider
	// Cache is a folder for what can be fetched again; empty: no cache.
	Cache string
	// Offline says that only the state store and folders can be reached.
	Offline bool
	// Version is that of this program, without a leading v.
	Version string
	// RunObsolete and RunTooNew let versions pass that the channel, or this program, does not allow.
	RunObsolete, RunTooNew bool
	// Features are the switches that are on.
	Features Features
	// KeySize is that of new RSA keys, in bits; 0 means 2048, and less is refused.
	KeySize int
	// Environment are variables that machines of the control plane need to reach the store.
	Environment map[string]string
	// IsSet reports whether a variable is set, for guessing the cloud.
	IsSet func(variable string) bool
	// FilesRegion is the region of the bucket of the state store, where it has one.
	FilesRegion string
	// Now, Sleep and Random are the world's. A nil Sleep waits for real.
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Random io.Reader
	// HTTP fetches digests of files from their publishers; nil: http.DefaultClient.
	HTTP *http.Client
	// Holder says who this is in leases and revisions.
	Holder Holder
	// Gone reports that a process of this machine, as a Holder names it, has ended; may be nil.
	Gone func(process string) bool
	// Log gets what is worth keeping of a run; nil: nothing is kept.
	Log *slog.Logger
	// Phase is called as a command passes from one phase to the next; Report for
	// each event of a plan that is carried out. Both may be nil.
	Phase  func(name string)
	Report func(Event)
	// Leased is called when a command has taken the lease of a cluster, and what it
	// returns when it has given it back. Nil: nobody is told.
	Leased func(cluster string) (over func())
	// Watched is called when a command that needs a lease watches for so long whether
	// its last holder, told in a sentence, still lives, and what it returns when that
	// is over. Nil: nobody is told.
	Watched func(cluster, holder string, d time.Duration) (over func())
}

// Holder is who changes a cluster.
type Holder clusterstore.Holder

// Client works on the clusters of one state store. It is safe for concurrent use.
type Client struct {
	cfg    Config
	store  *clusterstore.Store
	limits *exec.Limits
}

// New opens the state store. It makes no request beyond what opening needs.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Sleep == nil {
		cfg.Sleep = clock.Sleep
	}
	if cfg.HTTP == nil {
		cfg.HTTP = http.DefaultClient
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Phase == nil {
		cfg.Phase = func(string) {}
	}
	if cfg.Leased == nil {
		cfg.Leased = func(string) func() { return func() {} }
	}
	if cfg.Watched == nil {
		cfg.Watched = func(string, string, time.Duration) func() { return func() {} }
	}
	s, err := cfg.Backends.Open(ctx, cfg.State)
	if err != nil {
		return nil, err
	}
	most := map[string]int{}
	for _, p := range cfg.Clouds {
		for api, n := range p.Limits {
			most[api] = n
		}
	}
	c := &Client{cfg: cfg, limits: exec.NewLimits(most, 16)}
	c.store, err = clusterstore.Open(clusterstore.Config{
		State: s, Backends: cfg.Backends, Offline: cfg.Offline, Cache: c.cacheFolder("state"), Version: cfg.Version,
		Now: cfg.Now, Sleep: cfg.Sleep, Random: cfg.Random, Gone: cfg.Gone,
		Watched: func(h *clusterstore.Held, d time.Duration) func() { return cfg.Watched(h.Cluster, h.Describe(), d) },
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// WithReport returns a client that reports the events of its plans.
func (c *Client) WithReport(report func(Event)) *Client {
	out := *c
	out.cfg.Report = report
	return &out
}

// splitURL divides a URL into its folder and its last part.
func splitURL(url string) (folder, file string) {
	i := strings.LastIndex(url, "/")
	return url[:i+1], url[i+1:]
}

func (c *Client) cacheFolder(name string) string {
	if c.cfg.Cache == "" {
		return ""
	}
	return filepath.Join(c.cfg.Cache, name)
}

// provider returns the platform of the name.
func (c *Client) provider(name string) (platform.Provider, error) {
	for _, p := range c.cfg.Clouds {
		if p.Name == name {
			return p, nil
		}
	}
	return platform.Provider{}, fmt.Errorf("cloud provider %q is not supported; use %s", name, strings.Join(c.platforms(), " or "))
}

// platforms are the names of the platforms.
func (c *Client) platforms() []string {
	var known []string
	for _, p := range c.cfg.Clouds {
		known = append(known, p.Name)
	}
	return known
}
