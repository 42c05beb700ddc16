// Package gstest starts a server that stands in for Google Cloud Storage in tests:
// fake-gcs-server, with a handler before it for what it lacks.
//
// Version 1.56.1 of it passes over the condition of a removal, and knows neither who asks nor
// what everybody may do. The handler holds these as the reference of the JSON API says them.
//
// It is for tests alone, and must not know what the objects mean.
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
	mu      sync.RWMutex // held by removals, and read by whatever writes
	open    map[string]bool
	uniform map[string]bool
	public  map[string]bool // objects with an ACL for everybody, as paths
	tokens  map[string]bool // who is somebody; nil: everybody is
}

// Start starts a server for the test and everything below it. With tokens, only
// requests that bear one of them are of somebody; others may do what anybody may.
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

// Bucket makes a bucket.
func (s *Server) Bucket(t testing.TB, name string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/storage/v1/b", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
	if w := s.pass(r); w.Code != http.StatusOK {
		t.Fatalf("make the bucket %s: %d %s", name, w.Code, w.Body)
	}
}

// Uniform lets a bucket have no ACLs of objects; Open lets everybody read all that it has.
func (s *Server) Uniform(bucket string) { s.note(s.uniform, bucket) }
func (s *Server) Open(bucket string)    { s.note(s.open, bucket) }

func (s *Server) note(in map[string]bool, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[what] = true
}

// pass asks the server behind.
func (s *Server) pass(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// refuse answers as Google does.
func refuse(w http.ResponseWriter, status int, reason, text string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"message":%[2]q,"domain":"global","reason":%[3]q}]}}`, status, text, reason) // a client that is gone needs no answer
}

// ServeHTTP answers what the server behind cannot, and passes on the rest.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/upload"), "/storage/v1/b/")
	bucket, rest, _ := strings.Cut(path, "/")
	known := s.tokens == nil || s.tokens[r.Header.Get("Authorization")]
	if rest == "iam/testPermissions" {
		s.permissions(w, r, bucket, known && r.Header.Get("Authorization") != "")
		return
	}
	if s.tokens != nil && !known && !s.everybody(r, bucket, path) {
		refuse(w, http.StatusUnauthorized, "required", "Anonymous caller does not have access to the Google Cloud Storage object.")
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

// everybody reports whether anybody may do what is asked.
func (s *Server) everybody(r *http.Request, bucket, path string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return r.Method == http.MethodGet && (s.open[bucket] || s.public[path])
}

// permissions answers who may read.
func (s *Server) permissions(w http.ResponseWriter, r *http.Request, bucket string, somebody bool) {
	if s.pass(httptest.NewRequest(http.MethodGet, "/storage/v1/b/"+bucket, nil)).Code == http.StatusNotFound {
		refuse(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
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

// delete holds the condition of a removal, and nothing is written meanwhile.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := r.URL.Query().Get("ifGenerationMatch"); want != "" {
		var o struct {
			Generation string `json:"generation"`
		}
		there := s.pass(httptest.NewRequest(http.MethodGet, r.URL.EscapedPath(), nil))
		if err := json.Unmarshal(there.Body.Bytes(), &o); err == nil && there.Code == http.StatusOK && o.Generation != want {
			refuse(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
			return
		}
	}
	s.handler.ServeHTTP(w, r)
}

// publish writes an object that everybody may read.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uniform[bucket] {
		refuse(w, http.StatusBadRequest, "invalid", "Cannot insert legacy ACL for an object when uniform bucket-level access is enabled.")
		return
	}
	r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "fields=", "unused=") // its name is needed
	got := s.pass(r)
	var o struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &o); err == nil && got.Code == http.StatusOK {
		s.public[bucket+"/o/"+url.PathEscape(o.Name)] = true
	}
	w.WriteHeader(got.Code)
	_, _ = w.Write(got.Body.Bytes()) // a client that is gone needs no answer
}
