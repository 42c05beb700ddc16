package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}
	cert, key := sign(t, template, nil)
	return authority{cert, key}
}

// issue returns the PEM of a certificate and of its key.
func (a authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage, addresses ...net.IP) (cert, key []byte) {
	t.Helper()
	c, k := sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: addresses, ExtKeyUsage: []x509.ExtKeyUsage{usage}}, &a)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return certPEM(c), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func certPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// sign creates a certificate, self-signed if by is nil.
func sign(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = &authority{template, key}
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// apiServer is a TLS server that requires a client certificate of its authority and
// returns the request and the name of its client.
func apiServer(t *testing.T, a authority, addresses ...net.IP) (s *httptest.Server, handshakes *atomic.Int32) {
	t.Helper()
	certText, keyText := a.issue(t, "kube-apiserver", x509.ExtKeyUsageServerAuth, addresses...)
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	handshakes = &atomic.Int32{}
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.TLS.PeerCertificates) == 0:
			w.WriteHeader(http.StatusUnauthorized)
			return
		case r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Query().Get("exclude") == "redirect":
			http.Redirect(w, r, "https://127.0.0.1/elsewhere", http.StatusFound)
		}
		_, _ = fmt.Fprintf(w, "%s %s by %s", r.Method, r.URL, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		VerifyConnection: func(tls.ConnectionState) error { handshakes.Add(1); return nil }}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, handshakes
}

// files are the credentials in a folder.
func files(dir string) credentials {
	return credentials{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")}
}

// write replaces files, by name and text.
func write(t *testing.T, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := os.WriteFile(pairs[i].(string), pairs[i+1].([]byte), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// start builds and runs the program, and returns its URL once it responds.
func start(t *testing.T, c credentials, server *httptest.Server) (url string, process *exec.Cmd) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "healthcheck")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkStatic(t, program)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	var output bytes.Buffer
	process = exec.CommandContext(t.Context(), program, "--ca-cert="+c.ca, "--client-cert="+c.cert, "--client-key="+c.key,
		"--listen="+address, fmt.Sprintf("--secure-port=%d", port))
	process.Stdout, process.Stderr = &output, &output
	process.Env = append(os.Environ(), "HTTPS_PROXY=http://127.0.0.1:1") // which must not be used
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	url = "http://" + address
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get(url + "/.kube-apiserver-healthcheck/healthz")
		if err == nil {
			r.Body.Close()
			return url, process
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not answer: %v\n%s", err, &output)
		}
	}
}

func checkStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it is linked dynamically")
		}
	}
}

// ask returns the status and the body of a response.
func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestHealthcheck(t *testing.T) {
	a := newAuthority(t)
	server, handshakes := apiServer(t, a, net.IPv4(127, 0, 0, 1))
	c := files(t.TempDir())
	url, process := start(t, c, server)
	check := func(t *testing.T, method, path string, status int, want string) {
		t.Helper()
		if got, text := ask(t, method, url+path); got != status || !strings.Contains(text, want) {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, got, text, status, want)
		}
	}
	check(t, "GET", "/livez", 503, c.ca) // which has not been written yet
	check(t, "GET", "/.kube-apiserver-healthcheck/healthz", 200, "ok")

	first, firstKey := a.issue(t, "first", x509.ExtKeyUsageClientAuth)
	write(t, c.ca, certPEM(a.cert), c.cert, first, c.key, firstKey)
	for _, q := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/livez", 200, "GET /livez by first"},
		{"GET", "/healthz", 200, "GET /healthz by first"},
		{"GET", "/readyz?verbose", 500, "GET /readyz?verbose= by first"},
		{"GET", "/livez?exclude=etcd&exclude=ping", 200, "GET /livez?exclude=etcd&exclude=ping by first"},
		{"GET", "/livez?verbose&limit=0&exclude=etcd", 200, "GET /livez?exclude=etcd&verbose= by first"}, // other parameters are not passed on
		{"GET", "/livez?exclude=redirect", 302, ""},                                                      // reported, not followed
		{"POST", "/livez", 405, ""},
		{"GET", "/livez/etcd", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/api/v1/secrets", 404, ""},
		{"GET", "/healthz/../api/v1/secrets", 307, ""}, // to a path that is not passed on
	} {
		check(t, q.method, q.path, q.status, q.want)
	}
	if n := handshakes.Load(); n != 1 {
		t.Errorf("%d handshakes, want 1 for all", n)
	}

	t.Run("new credentials", func(t *testing.T) {
		second, secondKey := a.issue(t, "second", x509.ExtKeyUsageClientAuth)
		write(t, c.cert, second)
		check(t, "GET", "/livez", 200, "by first") // the key is still the old one
		write(t, c.key, secondKey)
		check(t, "GET", "/livez", 200, "by second")
		write(t, c.ca, certPEM(newAuthority(t).cert))
		check(t, "GET", "/livez", 502, "certificate")
		write(t, c.ca, certPEM(a.cert))
		check(t, "GET", "/livez", 200, "by second")
	})

	server.Close()
	check(t, "GET", "/livez", 502, "did not respond")
	check(t, "GET", "/.kube-apiserver-healthcheck/healthz", 200, "ok")
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// TestOtherServer: the server at the port has a certificate of the authority,
// but not one for 127.0.0.1.
func TestOtherServer(t *testing.T) {
	a := newAuthority(t)
	server, _ := apiServer(t, a, net.IPv4(10, 0, 0, 1))
	c := files(t.TempDir())
	cert, key := a.issue(t, "client", x509.ExtKeyUsageClientAuth)
	write(t, c.ca, certPEM(a.cert), c.cert, cert, c.key, key)
	front := httptest.NewServer(handler(server.Listener.Addr().String(), &apiClient{files: c}))
	defer front.Close()
	if status, text := ask(t, "GET", front.URL+"/livez"); status != 502 || !strings.Contains(text, "127.0.0.1") {
		t.Errorf("%d %q, want 502 and which name did not fit", status, text)
	}
}

func TestWaitingRequestsAreBounded(t *testing.T) {
	a := newAuthority(t)
	c := files(t.TempDir())
	cert, key := a.issue(t, "client", x509.ExtKeyUsageClientAuth)
	write(t, c.ca, certPEM(a.cert), c.cert, cert, c.key, key)
	busy := &apiClient{files: c}
	busy.request.Store(maxRequests)
	server, handshakes := apiServer(t, a, net.IPv4(127, 0, 0, 1))
	front := httptest.NewServer(handler(server.Listener.Addr().String(), busy))
	defer front.Close()
	if status, text := ask(t, "GET", front.URL+"/livez"); status != 429 || handshakes.Load() != 0 {
		t.Errorf("%d %q, with %d handshakes", status, text, handshakes.Load())
	}
	busy.request.Add(-1)
	if status, text := ask(t, "GET", front.URL+"/livez"); status != 200 {
		t.Errorf("%d %q when one has its answer", status, text)
	}
	if n := busy.request.Load(); n != maxRequests-1 {
		t.Errorf("%d wait, want those that did before", n)
	}
	client, err := c.client()
	if err != nil || client.Timeout != answerTime {
		t.Errorf("a question waits for %v (%v)", client.Timeout, err)
	}
}

func TestOnlyBalancersAreAnswered(t *testing.T) {
	allowed, err := addresses("10.77.0.1,fd00::1")
	if err != nil {
		t.Fatal(err)
	}
	for from, status := range map[string]int{"10.77.0.1:4000": 200, "[fd00::1]:4000": 200, "[::ffff:10.77.0.1]:4000": 200, "127.0.0.1:9": 200, "[::1]:9": 200,
		"10.77.0.2:4000": 403, "100.96.1.7:4000": 403, "": 403} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/.kube-apiserver-healthcheck/healthz", nil)
		r.RemoteAddr = from
		allowOnly(allowed, handler("127.0.0.1:1", &apiClient{})).ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("asked from %s: %d, want %d", from, w.Code, status)
		}
	}
	if _, err := addresses("10.77.0.0/24"); err == nil || !strings.Contains(err.Error(), `got "10.77.0.0/24"`) {
		t.Error(err)
	}
}
