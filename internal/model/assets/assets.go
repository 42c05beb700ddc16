// Package assets determines which files and container images machines fetch, from where, and their
// digests, and how a user's mirrors replace the public places.
//
// It must not fetch anything: callers look up digests that it does not know, and put them into the
// facts.
package assets

import (
	_ "embed"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
)

// Mirrors are a cluster's own places for files and images. The zero value means the public ones.
type Mirrors struct{ spec api.AssetsSpec }

// MirrorsOf returns the mirrors that a cluster's spec names; spec may be nil.
func MirrorsOf(spec *api.AssetsSpec) Mirrors {
	if spec == nil {
		return Mirrors{}
	}
	return Mirrors{*spec}
}

// Files reports whether files come from a user's repository.
func (m Mirrors) Files() bool { return text(m.spec.FileRepository) != "" }

// Images reports whether images come from a user's registry.
func (m Mirrors) Images() bool {
	return text(m.spec.ContainerProxy) != "" || text(m.spec.ContainerRegistry) != ""
}

// Repository returns the URL of the user's copies of files, or "". A repository that fetches files
// on demand does not count.
func (m Mirrors) Repository() string { return strings.TrimSuffix(text(m.spec.FileRepository), "/") }

// Registry returns the user's registry with copies of images, or "".
func (m Mirrors) Registry() string {
	return strings.TrimSuffix(text(m.spec.ContainerRegistry), "/")
}

// Keys returns the public keys, one of which must have signed the index of the files; if there are
// none, it need not be signed.
func (m Mirrors) Keys() []string {
	if !m.Files() {
		return nil
	}
	return m.spec.TrustedKeys
}

// URL returns where the file at a public URL is fetched from: the user's repository, with the URL's
// own path.
func (m Mirrors) URL(public string) string {
	repository := text(m.spec.FileRepository)
	u, err := url.Parse(public)
	if repository == "" || err != nil {
		return public
	}
	// commas separate the places of a file
	return strings.ReplaceAll(strings.TrimSuffix(repository, "/")+u.EscapedPath(), ",", "%2C")
}

// Image returns the name under which the cluster pulls a public image. An image that already has
// such a name keeps it.
func (m Mirrors) Image(public string) string {
	if proxy := strings.TrimSuffix(text(m.spec.ContainerProxy), "/"); proxy != "" {
		if strings.HasPrefix(public, proxy+"/") {
			return public
		}
		host, rest, ok := strings.Cut(public, "/")
		if ok && strings.ContainsAny(host, ".:") {
			return proxy + "/" + rest
		}
		return proxy + "/" + public // a name on Docker's own registry
	}
	registry := strings.TrimSuffix(text(m.spec.ContainerRegistry), "/")
	if registry == "" || strings.HasPrefix(public, registry+"/") {
		return public
	}
	return registry + "/" + strings.ReplaceAll(strings.TrimPrefix(public, "registry.k8s.io/"), "/", "-")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

//go:embed hashes.txt
var hashes string

// published returns the digests of released files that kops knows, by URL, as their publishers
// state them.
var published = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(hashes) {
		if sum, u, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			out[u] = sum
		}
	}
	return out
})

// Hashes finds the SHA-256 digest of the file at a public URL.
type Hashes func(url string) (sum string, known bool)

// withPublished returns hashes that query h first and then the table of released files; h may be nil.
// Values of h that are not digests are ignored.
func (h Hashes) withPublished() Hashes {
	return func(u string) (string, bool) {
		if h != nil {
			if sum, ok := h(u); ok {
				if !download.IsSHA256(sum) {
					return "", false
				}
				return sum, true
			}
		}
		sum, ok := published()[u]
		return sum, ok
	}
}

// Digests returns where the digest of the file at a public URL is published: by its publisher, and
// in a mirror either in the same way or next to the file. Most publishers have FILE.sha256; the
// container runtime's publishers use other names (the assets of their releases on GitHub).
func (m Mirrors) Digests(public string) []string {
	folder := strings.TrimSuffix(public, baseName(public))
	own := public + ".sha256"
	switch {
	case strings.HasPrefix(public, "https://github.com/containerd/containerd/"):
		own = public + ".sha256sum"
	case strings.HasPrefix(public, "https://github.com/containerd/nerdctl/"):
		own = folder + "SHA256SUMS"
	case strings.HasPrefix(public, "https://github.com/opencontainers/runc/"):
		own = folder + "runc.sha256sum"
	}
	out := []string{own}
	if programs.IsOwn(public) { // it has no public place
		out = nil
	}
	if m.Files() {
		out = append(out, m.URL(public+".sha256"))
		if own != public+".sha256" {
			out = append(out, m.URL(own))
		}
	}
	return out
}

// ParseSHA256 reads the hexadecimal SHA-256 of a file as publishers state it: alone, before the
// file's name, or in such a line of a list.
func ParseSHA256(text []byte, file string) (string, error) {
	var first string
	lines := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if lines++; !download.IsSHA256(fields[0]) {
			continue
		}
		sum := strings.ToLower(fields[0])
		if len(fields) > 1 && path.Base(strings.TrimPrefix(fields[len(fields)-1], "*")) == file { // a star marks binary files
			return sum, nil
		}
		if lines == 1 {
			first = sum
		}
	}
	if lines != 1 || first == "" {
		return "", fmt.Errorf("there is no SHA-256 of %s in it", file)
	}
	return first, nil
}

// baseName returns the name under which a machine keeps a file.
func baseName(u string) string { return path.Base(u) }
