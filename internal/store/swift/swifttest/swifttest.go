// Package swifttest starts OpenStack's own object storage in tests: its four servers with
// one copy of everything, and its own users instead of an identity service.
//
// It is for tests only, and must not know what the objects mean.
package swifttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/test/servers"
)

// Server is a running object storage that belongs to one test.
type Server struct {
	// URL is the server's URL.
	URL string
}

// Start starts the servers for the test and its subtests.
func Start(t testing.TB) *Server {
	t.Helper()
	for _, program := range []string{"swift-proxy-server", "swift-account-server", "swift-container-server", "swift-object-server", "swift-ring-builder", "memcached"} {
		if _, err := exec.LookPath(program); err != nil {
			servers.SkipMissing(t, program+" is not installed (apt-get install swift-proxy swift-account swift-container swift-object memcached)")
		}
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "devices", "d1"), 0o700); err != nil {
		t.Fatal(err)
	}
	cache := servers.RunTCP(t, func(address string) *exec.Cmd {
		host, port := split(t, address)
		return exec.Command("memcached", "-u", "root", "-l", host, "-p", port)
	})
	for _, kind := range []string{"account", "container", "object"} {
		servers.RunAt(t, func(address string) *exec.Cmd {
			ring(t, dir, kind, address)
			return server(t, dir, kind, address, "workers = 0\nmount_check = false\ndisable_fallocate = true\ndevices = "+dir+"/devices\n[pipeline:main]\npipeline = "+kind+"-server\n[app:"+kind+"-server]\nuse = egg:swift#"+kind+"\n")
		}, "/healthcheck")
	}
	return &Server{URL: servers.RunAt(t, func(address string) *exec.Cmd {
		return server(t, dir, "proxy", address, "workers = 0\n[pipeline:main]\npipeline = catch_errors cache tempauth proxy-server\n[filter:catch_errors]\nuse = egg:swift#catch_errors\n"+
			"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = "+cache+"\n[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_owner = secret .admin\nuser_test_guest = secret\n"+
			"[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n")
	}, "/info")}
}

func split(t testing.TB, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// ring writes a ring that maps all objects of a kind to an address.
func ring(t testing.TB, dir, kind, address string) {
	t.Helper()
	builder := filepath.Join(dir, kind+".builder")
	for _, args := range [][]string{{"create", "2", "1", "1"}, {"add", "r1z1-" + address + "/d1", "1"}, {"rebalance"}} {
		if out, err := exec.Command("swift-ring-builder", append([]string{builder}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("swift-ring-builder %v: %v\n%s", args, err, out)
		}
	}
}

func server(t testing.TB, dir, kind, address, text string) *exec.Cmd {
	t.Helper()
	host, port := split(t, address)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, kind+".conf")
	text = fmt.Sprintf("[DEFAULT]\nbind_ip = %s\nbind_port = %s\nuser = %s\nswift_dir = %s\n%s", host, port, me.Username, dir, text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("swift-"+kind+"-server", path)
}

// Login logs in as a user of the account test: owner, or guest, who has no permissions yet.
func (s *Server) Login(name string) func(context.Context) (swift.Session, error) {
	return func(ctx context.Context) (swift.Session, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/auth/v1.0", nil)
		if err != nil {
			return swift.Session{}, err
		}
		req.Header.Set("X-Auth-User", "test:"+name)
		req.Header.Set("X-Auth-Key", "secret")
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return swift.Session{}, err
		}
		defer answer.Body.Close() // it has no content
		return swift.Session{Endpoint: answer.Header.Get("X-Storage-Url"), Token: answer.Header.Get("X-Auth-Token")}, nil
	}
}

// Region is the region in the catalog of Identity.
const Region = "one"

// Identity starts an identity service for the server's users, and returns its URL: each user's
// application credential has the user's name as its ID. OpenStack's own
// identity service is not run, because the servers have users of their own.
func (s *Server) Identity(t testing.TB) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Auth struct {
				Identity struct {
					Methods    []string          `json:"methods"`
					Credential map[string]string `json:"application_credential"`
				} `json:"identity"`
			} `json:"auth"`
		}
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v3/auth/tokens" || asked.Auth.Identity.Credential["secret"] != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		session, err := s.Login(asked.Auth.Identity.Credential["id"])(r.Context())
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Subject-Token", session.Token)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token": {"methods": ["application_credential"], "catalog": [
			{"endpoints": [{"id": "1", "interface": "public", "region_id": %[1]q, "url": "http://127.0.0.1:1/v2.1", "region": %[1]q}], "id": "2", "type": "compute", "name": "nova"},
			{"endpoints": [{"id": "3", "interface": "admin", "region_id": %[1]q, "url": "http://127.0.0.1:1/v1/AUTH_test", "region": %[1]q},
				{"id": "4", "interface": "public", "region_id": "two", "url": "http://127.0.0.1:1/v1/AUTH_test", "region": "two"},
				{"id": "5", "interface": "public", "region_id": %[1]q, "url": %[2]q, "region": %[1]q}], "id": "6", "type": "object-store", "name": "swift"}]}}`, Region, session.Endpoint) // the test would fail
	}))
	t.Cleanup(service.Close)
	return service.URL + "/v3"
}

// Container creates a container; readers is its X-Container-Read.
func (s *Server) Container(t testing.TB, name, readers string) {
	t.Helper()
	session, err := s.Login("owner")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, session.Endpoint+"/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", session.Token)
	req.Header.Set("X-Container-Read", readers)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		t.Fatalf("make the container %s: %s", name, answer.Status)
	}
}
