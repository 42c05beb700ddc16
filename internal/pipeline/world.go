package pipeline

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
	"kops.local/kops/internal/store/web"
)

// World is the environment of the stages: what they access, and how this program is configured. It
// is not changed once a stage has it.
type World struct {
	Store    *clusterstore.Store
	Backends store.Backends
	// Buckets are the bucket stores among Backends.
	Buckets managedfile.Buckets
	Clouds  []platform.Provider
	Limits  *exec.Limits
	// Cache is a folder for what can be fetched again; if empty, there is no cache.
	Cache   string
	Offline bool
	// Version is this program's version.
	Version                string
	RunObsolete, RunTooNew bool
	Features               complete.Features
	// KeySize is the size of new RSA keys, in bits; 0 is the default.
	KeySize int
	// User is the name to which certificates are issued.
	User string
	// Environment are variables that machines of the control plane need to reach the store.
	Environment map[string]string
	// StoreKeys are the keys of the S3 server that the environment names; zero for Amazon's.
	StoreKeys storekeys.Pair
	// Programs are the places of kops' own programs for machines, and OwnImages the replacements
	// for their images.
	Programs  delivery.Places
	OwnImages map[string]string
	// Arch is the only architecture of machines; empty means any.
	Arch download.Arch
	// PluginsURL is an archive of CNI plugins that replaces the published one; may be "".
	PluginsURL string
	// FileHashes are digests of files by public URL, which take precedence over their publishers'.
	FileHashes map[string]string
	// FilesRegion is the region of the state store's bucket, if it has one.
	FilesRegion string
	Now         func() time.Time
	Sleep       func(context.Context, time.Duration) error
	Random      io.Reader
	// NewKey creates a private key; nil means RSA with KeySize bits.
	NewKey func() (crypto.Signer, error)
	HTTP   *http.Client
	Log    *slog.Logger
}

// Provider returns the platform with the name.
func (w *World) Provider(name string) (platform.Provider, error) {
	for _, p := range w.Clouds {
		if string(p.Name) == name && p.Connect != nil {
			return p, nil
		}
	}
	return platform.Provider{}, fmt.Errorf("cloud provider %q is not supported; use %s", name, diag.Or(w.Platforms()))
}

// Platforms returns the names of the platforms on which clusters are created.
func (w *World) Platforms() []string {
	var known []string
	for _, p := range w.Clouds {
		if p.Connect != nil {
			known = append(known, string(p.Name))
		}
	}
	return known
}

// PlatformOf returns a cluster's platform, as far as specs need it; if it is not known, only with
// its name.
func (w *World) PlatformOf(cl *api.Cluster) *platform.Platform {
	id := cl.CloudProviderID()
	for i := range w.Clouds {
		if p := &w.Clouds[i].Platform; p.Name == id {
			return p
		}
	}
	return &platform.Platform{Traits: traits.Traits{Name: id, Title: string(id)}}
}

// ConfigBase returns the folder of a cluster's files unless its spec sets another.
func (w *World) ConfigBase(cluster string) string { return w.Store.URL() + "/" + cluster }

// endpoint returns the server of S3 buckets, if it is not Amazon's.
func (w *World) endpoint() string { return w.Environment[storekeys.Endpoint] }

// Completion returns the input for completing a cluster.
func (w *World) Completion(cl *clusterstore.Contents, f *facts.Facts, ch *versions.Channel) complete.Input {
	return complete.Input{Platform: w.PlatformOf(cl.Spec).ForComplete(), Cluster: cl.Spec, Groups: cl.Groups, Facts: f, Channel: ch, KopsVersion: w.Version,
		ConfigBase: w.ConfigBase(cl.Spec.Name), Endpoint: w.endpoint(), Features: w.Features}
}

// Issuer returns an issuer of certificates, which generates keys until ctx ends.
func (w *World) Issuer(ctx context.Context) pki.Issuer {
	return pki.Issuer{Rand: w.Random, Now: w.Now, KeySize: w.KeySize, Generate: w.NewKey}.Until(ctx)
}

// Channel reads a channel: the embedded copy, or a file or object.
func (w *World) Channel(ctx context.Context, name string) (*versions.Channel, error) {
	if name == "" {
		name = versions.Stable
	}
	if ch, ok := versions.Embedded(name); ok {
		return ch, nil
	}
	data, err := w.read(ctx, versions.Location(name))
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w; use stable, alpha or the URL of a channel file", name, err)
	}
	ch, err := versions.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", name, err)
	}
	return ch, nil
}

// readTime limits how long a web server may take to send a file.
const readTime = 15 * time.Second

// read returns the file at a URL of a web server, or of any store.
func (w *World) read(ctx context.Context, url string) ([]byte, error) {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		i := strings.LastIndex(url, "/")
		s, err := w.Backends.Open(ctx, url[:i+1])
		if err != nil {
			return nil, err
		}
		data, _, err := s.Get(ctx, url[i+1:])
		return data, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return web.Get(ctx, w.HTTP, url, 4<<20)
}

// CacheFolder returns a folder of the cache, or "" without a cache.
func (w *World) CacheFolder(name string) string {
	if w.Cache == "" {
		return ""
	}
	return filepath.Join(w.Cache, name)
}

// cache returns a part of the cache folder, or nil without one.
func (w *World) cache(name string) store.Store {
	if w.Cache == "" {
		return nil
	}
	return store.NewFolder(w.CacheFolder(name))
}

// jitter returns a number in [0,1) from the world's source of randomness.
func (w *World) jitter() float64 {
	var b [2]byte
	if _, err := io.ReadFull(w.Random, b[:]); err != nil {
		return 0.5
	}
	return float64(int(b[0])<<8|int(b[1])) / (1 << 16)
}
