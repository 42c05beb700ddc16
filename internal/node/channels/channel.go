// Package channels applies add-ons: the sets of Kubernetes objects that a channel
// lists. It applies an add-on as a whole if its version differs from the one
// recorded in the cluster, removes the objects that the add-on no longer contains,
// and records the new version once everything runs. It removes an add-on that its
// channel no longer lists, as far as this program applied it.
//
// It must not know any particular add-on, how a channel is made, or flags and
// environment. It changes nothing in an add-on whose version is already recorded.
package channels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Fetch reads the content at a URL.
type Fetch func(ctx context.Context, url string) ([]byte, error)

// maxFile is the maximum size of a channel or manifest, in bytes.
const maxFile = 16 << 20

// NewFetch returns a Fetch that reads http:// and https:// URLs with the client,
// and all others, such as s3:// and file://, with the store back ends.
func NewFetch(backends store.Backends, client *http.Client) Fetch {
	return func(ctx context.Context, url string) ([]byte, error) {
		if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
			return get(ctx, client, url)
		}
		body, err := backends.Read(ctx, url)
		if err != nil {
			return nil, err
		}
		defer body.Close() //nolint:errcheck // only read
		data, err := web.Read(body, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", url, err)
		}
		return data, nil
	}
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	data, err := web.Get(ctx, client, url, maxFile)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	return data, nil
}

// Addon is an entry of a channel.
type Addon struct {
	api.Addon
	// Channel is the URL of the channel that lists the add-on, without its digest.
	Channel string
	// manifest is the absolute URL of the manifest.
	manifest string
	// isManifest is set if the channel is itself the manifest; text is then its content.
	isManifest bool
	text       []byte
}

// namespace returns the namespace that holds the record of the applied version.
func (a Addon) namespace() string {
	if a.Namespace == "" {
		return defaultNamespace
	}
	return a.Namespace
}

// Load reads a channel: a list of add-ons, or a plain manifest, which is a single add-on
// named after its URL. It does not read the manifests of a list. The URL may end with the
// digest of the content, #sha256=<64 digits>; a URL without TLS must.
func Load(ctx context.Context, fetch Fetch, url string) ([]Addon, error) {
	if !strings.Contains(url, "://") && !strings.HasPrefix(url, "/") {
		return nil, fault.New(fault.Permanent, "load the channel %s: the name is relative; give a URL or an absolute path", url)
	}
	url, want, pinned := strings.Cut(url, api.ManifestDigest)
	if err := checkSecure(url, pinned); err != nil {
		return nil, fmt.Errorf("load the channel %s: %w", url, err)
	}
	text, err := fetch(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("load the channel %s: %w", url, err)
	}
	if sum := sha256.Sum256(text); pinned && hex.EncodeToString(sum[:]) != strings.ToLower(want) {
		return nil, fault.New(fault.Permanent, "load the channel %s: its SHA-256 is %s, but the cluster's spec wants %q", url, hex.EncodeToString(sum[:]), want)
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, fault.New(fault.NotYet, "load the channel %s: it is empty", url)
	}
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &kind); err != nil || kind.Kind != api.KindAddons { // several documents need not parse as one
		sum := sha256.Sum256([]byte(url))
		a := Addon{Channel: url, manifest: url, isManifest: true, text: text}
		a.Name, a.ManifestHash = "manifest-"+hex.EncodeToString(sum[:])[:12], digest(text)
		return []Addon{a}, nil
	}
	list := &api.Addons{}
	if err := yaml.UnmarshalStrict(text, list); err != nil {
		return nil, fmt.Errorf("load the channel %s: %w", url, err)
	}
	out := make([]Addon, len(list.Spec.Addons))
	for i, a := range list.Spec.Addons {
		out[i] = Addon{Addon: a, Channel: url, manifest: resolve(url, a.Manifest)}
		if err := checkEntry(a); err != nil {
			return nil, fmt.Errorf("load the channel %s: %w", url, err)
		}
	}
	return out, nil
}

// resolve returns the URL of a manifest that a channel refers to.
func resolve(channel, manifest string) string {
	if strings.Contains(manifest, "://") || strings.HasPrefix(manifest, "/") {
		return manifest
	}
	folder, _ := path.Split(channel)
	return folder + manifest
}

// manifestText reads the manifest, and rejects one whose digest is not the channel's.
func (a Addon) manifestText(ctx context.Context, fetch Fetch) ([]byte, error) {
	if a.isManifest {
		return a.text, nil
	}
	if err := checkSecure(a.manifest, a.ManifestHash != ""); err != nil {
		return nil, fmt.Errorf("read the manifest %s: %w", a.manifest, err)
	}
	text, err := fetch(ctx, a.manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if got := digest(text); a.ManifestHash != "" && got != a.ManifestHash {
		return nil, fault.New(fault.NotYet, "the manifest %s has the hash %s, but the channel names %s: it is being changed, or was edited", a.manifest, got, a.ManifestHash)
	}
	return text, nil
}

// checkSecure rejects a URL whose content an attacker on the network could replace: it is applied
// with full permissions.
func checkSecure(url string, pinned bool) error {
	if strings.HasPrefix(strings.ToLower(url), "http://") && !pinned {
		return fault.New(fault.Permanent, "it is fetched without TLS and without a digest; use https://, or set its SHA-256: manifestHash in a list of add-ons, %s<64 digits> after a URL", api.ManifestDigest)
	}
	return nil
}

// digest returns the hexadecimal SHA-256 of a manifest without surrounding white space.
func digest(manifest []byte) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(manifest))))
	return hex.EncodeToString(sum[:])
}

// checkEntry rejects entries that cannot be applied safely.
func checkEntry(a api.Addon) error {
	if a.Name == "" || a.Manifest == "" {
		return errors.New("an add-on has no name or no manifest")
	}
	switch a.NeedsRollingUpdate {
	case "", labels.RollControlPlane, labels.RollWorkers, labels.RollAll:
	default:
		return fmt.Errorf("add-on %s: needsRollingUpdate: got %q; use control-plane, workers or all", a.Name, a.NeedsRollingUpdate)
	}
	if a.Prune == nil {
		return nil
	}
	for _, k := range a.Prune.Kinds {
		if k.Kind == "" || k.LabelSelector == "" {
			return fmt.Errorf("add-on %s: prune: an entry without kind or label selector would remove objects that belong to others", a.Name)
		}
	}
	return nil
}
