// Package gstest starts a server that stands in for Google Cloud Storage in tests:
// fake-gcs-server, behind a handler for what it does not support.
//
// Its version 1.56.1 ignores the conditions of removals, and has neither authentication nor
// public access. The handler implements these as in the reference of the JSON API.
//
// It is for tests only, and must not know what the objects mean.
package gstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"kops.local/kops/internal/test/servers"
)

// Server is a running server that belongs to one test.
type Server struct {
	// URL is the endpoint, for STORAGE_EMULATOR_HOST.
	URL string

	handler http.Handler
	mu      sync.RWMutex // write-locked by removals, and read-locked by other writes
	open    map[string]bool
	uniform map[string]bool
	public  map[string]bool // objects with an ACL for everybody, as paths
	tokens  map[string]bool // valid tokens; nil: every caller is valid
}

// Start starts a server for the test and its subtests. With tokens, only requests
// with one of them are authenticated; others may do what anonymous users may.
func Start(t testing.TB, tokens ...string) *Server {
	t.Helper()
	program := servers.Tool(t, "fakegcs", "github.com/fsouza/fake-gcs-server")
	behind, err := url.Parse(servers.RunAt(t, func(address string) *exec.Cmd {
		host, port, _ := strings.Cut(address, ":")
		return exec.Command(program, "-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-log-level", "error")
	}, "/storage/v1/b"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{open: map[string]bool{}, uniform: map[string]bool{}, public: map[string]bool{}}
	for _, token := range tokens {
		if s.tokens == nil {
			s.tokens = map[string]bool{}
		}
		s.tokens["Bearer "+token] = true
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	s.handler = proxy
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	s.URL = front.URL
	return s
}

// Bucket creates a bucket.
func (s *Server) Bucket(t testing.TB, name string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/storage/v1/b", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
	if w := s.forward(r); w.Code != http.StatusOK {
		t.Fatalf("make the bucket %s: %d %s", name, w.Code, w.Body)
	}
}

// Uniform sets a bucket to uniform access, without ACLs of objects; Open makes all its
// objects public.
func (s *Server) Uniform(bucket string) { s.setFlag(s.uniform, bucket) }
func (s *Server) Open(bucket string)    { s.setFlag(s.open, bucket) }

func (s *Server) setFlag(in map[string]bool, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[what] = true
}

// forward passes a request to the server behind.
func (s *Server) forward(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// writeError answers with an error in Google's format.
func writeError(w http.ResponseWriter, status int, reason, text string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"message":%[2]q,"domain":"global","reason":%[3]q}]}}`, status, text, reason) // a client that is gone needs no answer
}

// ServeHTTP handles what the server behind does not support, and passes on everything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/upload"), "/storage/v1/b/")
	bucket, rest, _ := strings.Cut(path, "/")
	known := s.tokens == nil || s.tokens[r.Header.Get("Authorization")]
	if rest == "iam/testPermissions" {
		s.permissions(w, r, bucket, known && r.Header.Get("Authorization") != "")
		return
	}
	if s.tokens != nil && !known && !s.allowsAnonymous(r, bucket, path) {
		writeError(w, http.StatusUnauthorized, "required", "Anonymous caller does not have access to the Google Cloud Storage object.")
		return
	}
	if r.Method == http.MethodDelete {
		s.delete(w, r)
		return
	}
	if r.URL.Query().Get("predefinedAcl") == "publicRead" {
		s.publish(w, r, bucket)
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.handler.ServeHTTP(w, r)
}

// allowsAnonymous reports whether an anonymous user may make a request.
func (s *Server) allowsAnonymous(r *http.Request, bucket, path string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return r.Method == http.MethodGet && (s.open[bucket] || s.public[path])
}

// permissions answers which permissions the caller has.
func (s *Server) permissions(w http.ResponseWriter, r *http.Request, bucket string, somebody bool) {
	if s.forward(httptest.NewRequest(http.MethodGet, "/storage/v1/b/"+bucket, nil)).Code == http.StatusNotFound {
		writeError(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
		return
	}
	may := struct {
		Permissions []string `json:"permissions,omitempty"`
	}{}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if somebody || s.open[bucket] {
		may.Permissions = r.URL.Query()["permissions"]
	}
	_ = json.NewEncoder(w).Encode(may) // a client that is gone needs no answer
}

// delete enforces the condition of a removal; no writes happen meanwhile.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := r.URL.Query().Get("ifGenerationMatch"); want != "" {
		var o struct {
			Generation string `json:"generation"`
		}
		there := s.forward(httptest.NewRequest(http.MethodGet, r.URL.EscapedPath(), nil))
		if err := json.Unmarshal(there.Body.Bytes(), &o); err == nil && there.Code == http.StatusOK && o.Generation != want {
			writeError(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
			return
		}
	}
	s.handler.ServeHTTP(w, r)
}

// publish writes a public object.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uniform[bucket] {
		writeError(w, http.StatusBadRequest, "invalid", "Cannot insert legacy ACL for an object when uniform bucket-level access is enabled.")
		return
	}
	r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "fields=", "unused=") // its name is needed
	got := s.forward(r)
	var o struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &o); err == nil && got.Code == http.StatusOK {
		s.public[bucket+"/o/"+url.PathEscape(o.Name)] = true
	}
	w.WriteHeader(got.Code)
	_, _ = w.Write(got.Body.Bytes()) // a client that is gone needs no answer
}
