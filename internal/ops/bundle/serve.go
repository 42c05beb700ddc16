package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/store/confined"
)

// Handler serves the bundle to machines: each file by the path of its public URL, its digest at
// that path plus .sha256, and under /v2/ a read-only registry of the images, as the OCI
// distribution specification describes it. It accepts the requests that containerd sends to a
// mirror of all registries: the name comes without its registry, which the query parameter ns
// holds. Contents are streamed from disk; range requests are supported. When bundle.json changes,
// the handler serves the new contents from then on, after it has compared what differs from b with
// its digests. With keys, one of them must have signed each bundle.json that is served.
func (b *Bundle) Handler(keys ...string) (http.Handler, error) {
	s := &server{bundle: b, keys: keys}
	if err := s.refresh(); err != nil {
		return nil, fmt.Errorf("serve the bundle: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, struct{}{}) })
	mux.HandleFunc("/v2/", s.registry)
	mux.HandleFunc("/", s.file)
	return readOnly(mux), nil
}

// readOnly rejects requests that would change something.
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

// server serves the bundle that its folder currently holds.
type server struct {
	mu     sync.Mutex
	bundle *Bundle
	read   fs.FileInfo // the state of bundle.json when it was read
	keys   []string
}

// current returns the bundle in the folder. If it may not be served, the previous one stays in effect.
func (s *server) current() *Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.refresh() // see above
	return s.bundle
}

// refresh reads the bundle in the folder if bundle.json has changed. It fails if the bundle may not
// be served.
func (s *server) refresh() error {
	info, err := confined.Stat(s.bundle.dir, indexName)
	if err != nil || s.read != nil && os.SameFile(info, s.read) && info.ModTime().Equal(s.read.ModTime()) {
		return err
	}
	b, err := Open(s.bundle.dir)
	if err == nil && len(s.keys) > 0 {
		err = b.VerifySignature(s.keys...)
	}
	if err == nil {
		err = b.since(s.bundle).Verify(context.Background(), nil) // for later requests, too
	}
	if err == nil {
		s.bundle, s.read = b, info
	}
	return err
}

// since returns the files and images of b that an earlier state of the bundle does not have.
func (b *Bundle) since(before *Bundle) *Bundle {
	out := &Bundle{dir: b.dir, contents: contents{Files: b.Files(), Images: b.Images()}}
	maps.DeleteFunc(out.contents.Files, func(u string, f File) bool { return before.contents.Files[u] == f })
	maps.DeleteFunc(out.contents.Images, func(n string, i Image) bool { return reflect.DeepEqual(before.contents.Images[n], i) })
	return out
}

// file serves a file by the path of its public URL.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	b := s.current()
	p := strings.TrimPrefix(r.URL.Path, "/")
	if p == indexName {
		sendText(w, r, b.text)
		return
	}
	if p == signatureName {
		b.sendSignature(w, r)
		return
	}
	url, ok := b.paths[p]
	if !ok {
		if url, ok = b.paths[strings.TrimSuffix(p, ".sha256")]; ok {
			sendText(w, r, []byte(b.contents.Files[url].SHA256+"\n"))
			return
		}
		http.Error(w, b.missingMessage("a file at the path "+r.URL.Path), http.StatusNotFound)
		return
	}
	f, err := b.open(url)
	if err != nil {
		http.Error(w, b.unreadableMessage(url, err), http.StatusInternalServerError)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	if err := checkSize(f, b.contents.Files[url].Size); err != nil {
		http.Error(w, b.unreadableMessage(url, err), http.StatusInternalServerError)
		return
	}
	send(w, r, f, "application/octet-stream", b.contents.Files[url].SHA256)
}

// checkSize fails unless a file has the size that the index states.
func checkSize(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("it has %d bytes instead of %d", info.Size(), size)
	}
	return err
}

// sendSignature sends the signature of the index. It is read whole: the file may be replaced.
func (b *Bundle) sendSignature(w http.ResponseWriter, r *http.Request) {
	text, err := confined.Read(b.dir, signatureName, indexSize)
	if err != nil {
		http.Error(w, b.missingMessage("a signature: it has changed since it was signed, or was never signed"), http.StatusNotFound)
		return
	}
	sendText(w, r, text)
}

func sendText(w http.ResponseWriter, r *http.Request, text []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// missingMessage returns the response for a file or image that is not in the bundle.
func (b *Bundle) missingMessage(what string) string {
	return fmt.Sprintf("the bundle %s does not hold %s; to add it, %s with the --kubernetes-version of the cluster, or with --add", b.dir, what, Remedy)
}

// unreadableMessage returns the response for something that should be there but cannot be read.
func (b *Bundle) unreadableMessage(what string, err error) string {
	return fmt.Sprintf("%[2]s is missing from the bundle %[1]s or damaged: %[3]v; %[4]s", b.dir, what, err, Remedy)
}

// send sends a file whose digest is known.
func send(w http.ResponseWriter, r *http.Request, f *os.File, kind, sum string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", strconv.Quote(sum))
	http.ServeContent(w, r, "", time.Time{}, f)
}

var (
	registryPath = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// registry serves manifests by tag or digest, and blobs by digest. All images share one blob store,
// so the name is irrelevant for blobs.
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
			digest = b.digestOfTag(r.URL.Query().Get("ns"), name, reference)
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
		refuse(w, http.StatusNotFound, code, b.missingMessage("the image "+name+separator+reference))
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

// digestOfTag returns the digest of a tag, or "". The registry is the one given by ns, or the first
// part of the name; without either, the name must be unique.
func (b *Bundle) digestOfTag(ns, name, tag string) string {
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

// refuse responds with an error as the distribution specification requires.
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
