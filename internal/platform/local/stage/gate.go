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

// gate answers requests by the name of the host that was asked: the play's services, and
// publishers.
type gate struct {
	play       func() *rehearsal.Play // nil: there is none yet
	publishers *publishers            // nil: there are none
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
	g.log.Debug("a host that is not played was asked", "host", host)
	http.Error(w, "the rehearsal plays no host of the name "+host, http.StatusMisdirectedRequest)
}

// hostname is the name that a request is for, without a port, in small letters.
func hostname(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// publishers serve the files and images of a bundle, each under its own name.
type publishers struct {
	bundle *bundle.Bundle
	hosts  map[string]bool // all of them
	files  map[string]bool // HOST/PATH
	store  http.Handler    // the bundle, whichever host is asked
	images *images
}

// Docker's registry is asked under other names than its images bear.
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

// hashes are the digests of files that were built and are not their publishers': SHA256@URL, sorted.
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

// manifestPath is where a registry has an image of a name and a tag.
var manifestPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v2/(.+)/manifests/([A-Za-z0-9_][A-Za-z0-9._-]{0,127})$`)
})

// serve answers as the publisher of that name.
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
				p.images.tagged(w, r, digest)
				return
			}
		} else if p.images.own(w, r) {
			return
		}
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("ns", host)
	r.URL.RawQuery = query.Encode()
	p.store.ServeHTTP(w, r)
}
