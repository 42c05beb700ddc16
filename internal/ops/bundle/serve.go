package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/store/confined"
)

// Handler serves the bundle to machines: each file by the path of its public
// URL, with its digest at that path and .sha256, and under /v2/ a registry of
// the images that can only be read, as the OCI distribution specification
// describes it. It takes what containerd asks a mirror of all registries for:
// the name without its registry, which the query ns tells. Contents are sent
// from disk, in parts where a client asks for them. When bundle.json changes,
// the handler serves what it says from then on. With keys, one of them must have
// signed each bundle.json that is served.
func (b *Bundle) Handler(keys ...string) (http.Handler, error) {
	info, err := confined.Stat(b.dir, indexName)
	if err != nil {
		return nil, fmt.Errorf("serve the bundle: %w", err)
	}
	s := &server{read: info, keys: keys}
	if s.bundle, err = s.open(b.dir); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, struct{}{}) })
	mux.HandleFunc("/v2/", s.registry)
	mux.HandleFunc("/", s.file)
	return readOnly(mux), nil
}

// readOnly refuses what would change something.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "a bundle is read-only")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// server serves the bundle that its folder holds at the time.
type server struct {
	mu     sync.Mutex
	bundle *Bundle
	read   fs.FileInfo // bundle.json when it was read
	keys   []string
}

// open opens a bundle that may be served.
func (s *server) open(dir string) (*Bundle, error) {
	b, err := Open(dir)
	if err == nil && len(s.keys) > 0 {
		err = b.VerifySignature(s.keys...)
	}
	return b, err
}

// current returns the bundle as its folder says now. One that cannot be read
// leaves the last in place.
func (s *server) current() *Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := confined.Stat(s.bundle.dir, indexName)
	if err != nil || os.SameFile(info, s.read) && info.ModTime().Equal(s.read.ModTime()) {
		return s.bundle
	}
	if b, err := s.open(s.bundle.dir); err == nil {
		s.bundle, s.read = b, info
	}
	return s.bundle
}

// file serves a file by the path of its public URL.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	b := s.current()
	p := strings.TrimPrefix(r.URL.Path, "/")
	if p == indexName || p == signatureName {
		b.sendText(w, r, p)
		return
	}
	url, ok := b.paths[p]
	if !ok {
		if url, ok = b.paths[strings.TrimSuffix(p, ".sha256")]; ok {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(b.contents.Files[url].SHA256+"\n"))
			return
		}
		http.Error(w, b.lacks("a file of the path "+r.URL.Path), http.StatusNotFound)
		return
	}
	f, err := b.open(url)
	if err != nil {
		http.Error(w, b.lost(url, err), http.StatusInternalServerError)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	if err := sized(f, b.contents.Files[url].Size); err != nil {
		http.Error(w, b.lost(url, err), http.StatusInternalServerError)
		return
	}
	send(w, r, f, "application/octet-stream", b.contents.Files[url].SHA256)
}

// sized fails unless a file has the size that the index says.
func sized(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("it has %d bytes, and had %d", info.Size(), size)
	}
	return err
}

// sendText sends the index, or its signature. They are read at once: the file may be replaced.
func (b *Bundle) sendText(w http.ResponseWriter, r *http.Request, name string) {
	text, err := confined.Read(b.dir, name, indexSize)
	if err != nil {
		http.Error(w, b.lacks("a signature: it has changed since it was signed, or was never signed"), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// lacks is the answer to a machine that asks for something that is not in the bundle.
func (b *Bundle) lacks(what string) string {
	return fmt.Sprintf("the bundle %s does not hold %s; to add it, %s with the --kubernetes-version of the cluster, or with --add", b.dir, what, Remedy)
}

// lost is the answer to a machine that asks for something that should be there.
func (b *Bundle) lost(what string, err error) string {
	return fmt.Sprintf("the bundle %s has lost %s: %v; %s", b.dir, what, err, Remedy)
}

// send sends a file that is known by its digest.
func send(w http.ResponseWriter, r *http.Request, f *os.File, kind, sum string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", strconv.Quote(sum))
	http.ServeContent(w, r, "", time.Time{}, f)
}

var (
	registryPath = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// registry serves manifests by tag or digest, and blobs by digest. All images
// share one store of contents, so the name says nothing about those.
func (s *server) registry(w http.ResponseWriter, r *http.Request) {
	b := s.current()
	m := registryPath.FindStringSubmatch(r.URL.Path)
	if m == nil {
		refuse(w, http.StatusNotFound, "UNSUPPORTED", "a bundle serves manifests and blobs")
		return
	}
	name, manifest, reference := m[1], m[2] == "manifests", m[3]
	digest, code := reference, "BLOB_UNKNOWN"
	if manifest {
		code = "MANIFEST_UNKNOWN"
		if !digestForm.MatchString(reference) {
			digest = b.tagged(r.URL.Query().Get("ns"), name, reference)
		}
	}
	var f *os.File
	err := fs.ErrNotExist
	if digestForm.MatchString(digest) {
		f, err = confined.Open(b.dir, blobPlace(digest))
	}
	if err != nil {
		separator := ":"
		if digest == reference {
			separator = "@"
		}
		refuse(w, http.StatusNotFound, code, b.lacks("the image "+name+separator+reference))
		return
	}
	defer f.Close() //nolint:errcheck // only read
	kind := "application/octet-stream"
	if manifest {
		d, err := describe(b.dir, digest)
		if err != nil || d.MediaType == "" {
			refuse(w, http.StatusNotFound, code, digest+" is not a manifest")
			return
		}
		kind = string(d.MediaType)
	}
	w.Header().Set("Docker-Content-Digest", digest)
	send(w, r, f, kind, digest)
}

// tagged finds the digest of a tag, or "". The registry is the one that ns names,
// or the first part of the name; without either, the only one that has the name.
func (b *Bundle) tagged(ns, name, tag string) string {
	image := name + ":" + tag
	if ns != "" {
		image = ns + "/" + image
	}
	if digest, ok := b.ImageDigest(image); ok || ns != "" {
		return digest
	}
	found := ""
	for full, own := range b.names {
		if _, path, _ := strings.Cut(full, "/"); path != image {
			continue
		}
		if found != "" {
			return ""
		}
		found = b.contents.Images[own].Digest
	}
	return found
}

// refuse answers as the distribution specification says.
func refuse(w http.ResponseWriter, status int, code, message string) {
	type problem struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	writeJSON(w, status, map[string][]problem{"errors": {{code, message}}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client has gone
}
