// Package channels applies add-ons: the sets of Kubernetes objects that a
// channel lists. Each is applied as a whole when its version differs from the
// one recorded in the cluster, what it no longer holds is removed, and the new
// version is recorded once everything runs. An add-on that its channel no longer
// lists is removed, as far as this program applied it.
//
// It must not know any single add-on, nor how a channel is made, nor flags and
// environment. It changes nothing of an add-on whose version is recorded already.
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
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Fetch reads what stands at a URL.
type Fetch func(ctx context.Context, url string) ([]byte, error)

// maxFile is the longest channel or manifest, in bytes.
const maxFile = 16 << 20

// NewFetch reads http:// and https:// with the client, and everything else,
// such as s3:// and file://, with the back ends of stores.
func NewFetch(backends store.Backends, client *http.Client) Fetch {
	return func(ctx context.Context, url string) ([]byte, error) {
		if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
			return get(ctx, client, url)
		}
		body, err := backends.Read(ctx, url)
		if err != nil {
			return nil, err
		}
		defer body.Close() //nolint:errcheck // it was only read
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
	// Channel is the URL of the list that names the add-on, without its digest.
	Channel string
	// manifest is the absolute URL of the objects.
	manifest string
	// plain says that the channel is itself the manifest, and text what it says.
	plain bool
	text  []byte
}

// namespace holds the record of the applied version.
func (a Addon) namespace() string {
	if a.Namespace == "" {
		return defaultNamespace
	}
	return a.Namespace
}

// Load reads a channel: a list of add-ons, or a plain manifest, which is one
// add-on that is named after its URL. The manifests of a list are not read yet.
// The URL may end with the digest of the text, #sha256=<64 digits>; one without TLS must.
func Load(ctx context.Context, fetch Fetch, url string) ([]Addon, error) {
	if !strings.Contains(url, "://") && !strings.HasPrefix(url, "/") {
		return nil, fault.New(fault.Permanent, "load the channel %s: the name is relative; give a URL or an absolute path", url)
	}
	url, want, pinned := strings.Cut(url, api.ManifestDigest)
	if err := secured(url, pinned); err != nil {
		return nil, fmt.Errorf("load the channel %s: %w", url, err)
	}
	text, err := fetch(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("load the channel %s: %w", url, err)
	}
	if sum := sha256.Sum256(text); pinned && hex.EncodeToString(sum[:]) != strings.ToLower(want) {
		return nil, fault.New(fault.Permanent, "load the channel %s: its SHA-256 is %s, and the cluster's spec wants %q", url, hex.EncodeToString(sum[:]), want)
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, fault.New(fault.NotYet, "load the channel %s: it is empty", url)
	}
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &kind); err != nil || kind.Kind != api.KindAddons { // several documents need not parse as one
		sum := sha256.Sum256([]byte(url))
		a := Addon{Channel: url, manifest: url, plain: true, text: text}
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

// resolve is the URL of a manifest that a channel names.
func resolve(channel, manifest string) string {
	if strings.Contains(manifest, "://") || strings.HasPrefix(manifest, "/") {
		return manifest
	}
	folder, _ := path.Split(channel)
	return folder + manifest
}

// manifestText reads the manifest, and refuses one that the channel does not mean.
func (a Addon) manifestText(ctx context.Context, fetch Fetch) ([]byte, error) {
	if a.plain {
		return a.text, nil
	}
	if err := secured(a.manifest, a.ManifestHash != ""); err != nil {
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

// secured refuses what anybody on the way could replace: it is applied with every right.
func secured(url string, pinned bool) error {
	if strings.HasPrefix(strings.ToLower(url), "http://") && !pinned {
		return fault.New(fault.Permanent, "it comes without TLS and without a digest; use https://, or state its SHA-256: manifestHash in a list of add-ons, %s<64 digits> after a URL", api.ManifestDigest)
	}
	return nil
}

// digest is the hexadecimal SHA-256 of a manifest without the space around it.
func digest(manifest []byte) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(manifest))))
	return hex.EncodeToString(sum[:])
}

// checkEntry refuses entries that cannot be applied safely.
func checkEntry(a api.Addon) error {
	if a.Name == "" || a.Manifest == "" {
		return errors.New("an add-on has no name or no manifest")
	}
	switch a.NeedsRollingUpdate {
	case "", rollControlPlane, rollWorkers, rollAll:
	default:
		return fmt.Errorf("add-on %s: needsRollingUpdate: got %q; use control-plane, workers or all", a.Name, a.NeedsRollingUpdate)
	}
	if a.Prune == nil {
		return nil
	}
	for _, k := range a.Prune.Kinds {
		if k.Kind == "" || k.LabelSelector == "" {
			return fmt.Errorf("add-on %s: prune: an entry without kind or label selector would remove what belongs to others", a.Name)
		}
	}
	return nil
}
