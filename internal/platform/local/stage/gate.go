package stage

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/rehearsal"
)

// gate dispatches requests by the requested host name: to the play's services or to
// publishers.
type gate struct {
	play       func() *rehearsal.Play // nil: not set yet
	publishers *publishers            // nil: no bundle
	log        *slog.Logger
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := hostname(r)
	if p := g.play(); p != nil && p.Serves != nil && p.Serves(host) {
		p.Handler.ServeHTTP(w, r)
		return
	}
	if g.publishers != nil && g.publishers.hosts[host] {
		g.publishers.serve(w, r, host)
		return
	}
	g.log.Debug("request for a host outside the rehearsal", "host", host)
	http.Error(w, "the rehearsal has no host named "+host, http.StatusMisdirectedRequest)
}

// hostname returns the name that a request is for, without a port, in lower case.
func hostname(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// publishers serve the files and images of a bundle, each under its own host name.
type publishers struct {
	bundle *bundle.Bundle
	hosts  map[string]bool // all of them
	files  map[string]bool // HOST/PATH
	store  http.Handler    // the bundle, for any host
	images *images
}

// Docker's registry has other host names than its images' names contain.
const (
	dockerName = "docker.io"
	dockerHost = "registry-1.docker.io"
)

func newPublishers(dir string, a *authority, trusted []byte, log *slog.Logger) (*publishers, error) {
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	store, err := b.Handler()
	if err != nil {
		return nil, err
	}
	p := &publishers{bundle: b, store: store, hosts: map[string]bool{}, files: map[string]bool{}, images: newImages(dir, a, trusted, log)}
	for text := range b.Files() {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("read the URL of a file of the bundle: %w", err)
		}
		p.hosts[u.Hostname()], p.files[u.Hostname()+u.Path] = true, true
	}
	for image := range b.Images() {
		tag, err := name.NewTag(image)
		if err != nil {
			return nil, fmt.Errorf("read the name of an image of the bundle: %w", err)
		}
		p.hosts[tag.RegistryStr()] = true
		if tag.RegistryStr() == name.DefaultRegistry {
			p.hosts[dockerHost], p.hosts[dockerName] = true, true
		}
	}
	return p, nil
}

// hashes returns the digests of files that were built and differ from their publishers': SHA256@URL,
// sorted.
func (p *publishers) hashes() []string {
	var out []string
	for url, f := range p.bundle.Files() {
		if f.Source == bundle.Built {
			out = append(out, f.SHA256+"@"+url)
		}
	}
	slices.Sort(out)
	return out
}

// manifestPath matches a registry's path of an image's manifest, by name and tag.
var manifestPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v2/(.+)/manifests/([A-Za-z0-9_][A-Za-z0-9._-]{0,127})$`)
})

// serve answers as the publisher of host.
func (p *publishers) serve(w http.ResponseWriter, r *http.Request, host string) {
	if !strings.HasPrefix(r.URL.Path, "/v2/") {
		if !p.files[host+r.URL.Path] && !p.files[host+strings.TrimSuffix(r.URL.Path, ".sha256")] {
			http.Error(w, "the rehearsal has no https://"+host+r.URL.Path+": the bundle "+p.bundle.Dir()+" does not hold it", http.StatusNotFound)
			return
		}
		p.store.ServeHTTP(w, r)
		return
	}
	if host == dockerHost || host == name.DefaultRegistry {
		host = dockerName
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if m := manifestPath().FindStringSubmatch(r.URL.Path); m != nil {
			if digest, ok := p.bundle.ImageDigest(host + "/" + m[1] + ":" + m[2]); ok {
				p.images.serveByTag(w, r, digest)
				return
			}
		} else if p.images.serveOwn(w, r) {
			return
		}
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("ns", host)
	r.URL.RawQuery = query.Encode()
	p.store.ServeHTTP(w, r)
}
