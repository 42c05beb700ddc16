package pages

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// internet is an HTTPS proxy, with all servers behind it: the API server of a cluster, at the
// address of any load balancer, and the publishers of files.
type internet struct {
	url, authority string // of the proxy, and the file of the authority of its servers
	cluster        string // the address of the cluster's API server
	publishers     string
}

// newInternet starts a proxy until the test ends. cluster may be empty.
func newInternet(t testing.TB, cluster string) *internet {
	t.Helper()
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, pki.Issuer{Rand: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ca := all[pki.KubernetesCA]
	i := &internet{cluster: cluster, authority: filepath.Join(t.TempDir(), "ca.crt")}
	if err := os.WriteFile(i.authority, []byte(ca.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(published())
	s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return serverConfig(ca, hello.ServerName) }}
	s.Config.ErrorLog = discardLogger()
	s.StartTLS()
	i.publishers = s.Listener.Addr().String()
	proxy := httptest.NewServer(i)
	i.url = proxy.URL
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close(); s.CloseClientConnections(); s.Close() })
	return i
}

// ServeHTTP connects a client to the stand-in for a host.
func (i *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only HTTPS is served", http.StatusForbidden)
		return
	}
	to := i.publishers
	if host, _, _ := net.SplitHostPort(r.Host); net.ParseIP(host) != nil || strings.Contains(host, ".elb.") {
		to = i.cluster
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close() //nolint:errcheck // its client has received everything
	client, rest, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()                                              //nolint:errcheck // as above
	fmt.Fprint(client, "HTTP/1.1 200 Connection established\r\n\r\n") //nolint:errcheck // it will notice
	go func() {
		_, _ = io.Copy(server, rest)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// published serves files and their digests.
func published() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		switch base := path.Base(name); {
		case base == "healthz":
		case base == "runc.sha256sum" || base == "SHA256SUMS":
			for _, arch := range []string{"amd64", "arm64"} {
				file := "runc." + arch
				fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(content(path.Join(path.Dir(name), file))), file) //nolint:errcheck // the client is kops
			}
		case strings.HasSuffix(name, ".sha256") || strings.HasSuffix(name, ".sha256sum"):
			fmt.Fprintf(w, "%x", sha256.Sum256(content(strings.TrimSuffix(strings.TrimSuffix(name, "sum"), ".sha256")))) //nolint:errcheck // as above
		default:
			w.Write(content(name)) //nolint:errcheck // as above
		}
	})
}

// content returns the file at a path.
func content(path string) []byte { return []byte("file " + path + "\n") }

// discardLogger returns a logger that discards: clients that disconnect are not errors.
func discardLogger() *log.Logger { return log.New(io.Discard, "", 0) }

// newCertPool holds the certificates of an authority.
func newCertPool(ca *pki.Keyset) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM([]byte(ca.Bundle()))
	return p
}
