// Package assets says which files and container images machines fetch, from
// where, and what their digests are; it also says how a user's own mirrors
// stand in for the public places.
//
// It must not fetch anything: digests that it does not know are found by a
// caller, who puts them into the facts.
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

// Mirrors are a cluster's own places of files and images. The zero value is the public ones.
type Mirrors struct{ spec api.AssetsSpec }

// MirrorsOf returns the mirrors that a cluster's spec names; spec may be nil.
func MirrorsOf(spec *api.AssetsSpec) Mirrors {
	if spec == nil {
		return Mirrors{}
	}
	return Mirrors{*spec}
}

// Files reports whether files come from a repository of the user's.
func (m Mirrors) Files() bool { return text(m.spec.FileRepository) != "" }

// Images reports whether images come from a registry of the user's.
func (m Mirrors) Images() bool {
	return text(m.spec.ContainerProxy) != "" || text(m.spec.ContainerRegistry) != ""
}

// Repository is the URL of the user's copies of files, or "". A repository that fetches
// files by itself does not count.
func (m Mirrors) Repository() string { return strings.TrimSuffix(text(m.spec.FileRepository), "/") }

// Registry is the user's registry with copies of images, or "".
func (m Mirrors) Registry() string {
	return strings.TrimSuffix(text(m.spec.ContainerRegistry), "/")
}

// Keys are those that must have signed the index of the files; none: it need not be signed.
func (m Mirrors) Keys() []string {
	if !m.Files() {
		return nil
	}
	return m.spec.TrustedKeys
}

// URL returns where the file at a public URL is fetched from: the repository
// of the user's with the URL's own path.
func (m Mirrors) URL(public string) string {
	repository := text(m.spec.FileRepository)
	u, err := url.Parse(public)
	if repository == "" || err != nil {
		return public
	}
	// commas separate the places of one file
	return strings.ReplaceAll(strings.TrimSuffix(repository, "/")+u.EscapedPath(), ",", "%2C")
}

// Image returns what an image of a public registry is called for the cluster.
// An image that is already called so keeps its name.
func (m Mirrors) Image(public string) string {
	if proxy := strings.TrimSuffix(text(m.spec.ContainerProxy), "/"); proxy != "" {
		if strings.HasPrefix(public, proxy+"/") {
			return public
		}
		host, rest, ok := strings.Cut(public, "/")
		if ok && strings.ContainsAny(host, ".:") {
			return proxy + "/" + rest
		}
		return proxy + "/" + public // a name of Docker's own registry
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

// published are the digests of released files that kops knows, by URL: what
// their publishers state.
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

// orPublished returns hashes that ask h first and then the table of released files;
// h may be nil. What h says is a digest, or is not taken.
func (h Hashes) orPublished() Hashes {
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

// Digests returns where the digest of the file at a public URL is published: by its
// publisher, and in a mirror either in the same way or beside the file. Most publishers
// have FILE.sha256; the container runtime's publishers have names of their own
// (the assets of their releases on GitHub).
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
	if programs.IsOwn(public) { // which is no place
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

// ParseSHA256 reads the hexadecimal SHA-256 of a file as publishers state it: alone,
// before the file's name, or so in a list of several files.
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

// baseName returns the name that a machine keeps a file under.
func baseName(u string) string { return path.Base(u) }
