// Package azuretest starts Azurite, Microsoft's own emulator of Azure Storage, in tests.
//
// It is for tests only, and must not know what the blobs mean.
package azuretest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/test/servers"
)

// Account is the name of the server's account.
const Account = "kopstests"

// Server is a running server that belongs to one test.
type Server struct {
	// URL is the endpoint of the account's blobs, and Key the account's shared key.
	URL, Key string
	// HTTP trusts the server.
	HTTP *http.Client
}

// Config returns the configuration for stores in the server's containers.
func (s *Server) Config() azureblob.Config {
	return azureblob.Config{HTTP: s.HTTP, Endpoint: s.URL, Key: s.Key}
}

// Start starts a server for the test and its subtests.
func Start(t testing.TB) *Server {
	t.Helper()
	s := newServer(http.DefaultClient)
	s.URL = servers.RunAt(t, func(address string) *exec.Cmd { return s.command(t, address) }, "/"+Account) + "/" + Account
	return s
}

// StartTLS is Start for a server that uses TLS, and also takes tokens for Azure's storage, of which it
// does not check the signature.
func StartTLS(t testing.TB) *Server {
	t.Helper()
	own, key := selfSigned(t)
	cert, secret := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw}), 0o600),
		os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600)); err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(own)
	s := newServer(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}})
	s.URL = "https://" + servers.RunTCP(t, func(address string) *exec.Cmd {
		return s.command(t, address, "--oauth", "basic", "--cert", cert, "--key", secret)
	}) + "/" + Account
	return s
}

// selfSigned returns a certificate of this host, and its key.
func selfSigned(t testing.TB) (own *x509.Certificate, key []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, secret.Public(), secret)
	if err == nil {
		own, err = x509.ParseCertificate(der)
	}
	if err == nil {
		key, err = x509.MarshalPKCS8PrivateKey(secret)
	}
	if err != nil {
		t.Fatal(err)
	}
	return own, key
}

// AccessToken returns an access token for a resource that a server with TLS takes: it has the claims that
// such a server checks, and no signature.
func AccessToken(resource string) string {
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"iss": "https://sts.windows.net/00000000-0000-0000-0000-000000000000/", "aud": %q, "iat": %d, "nbf": %d, "exp": %d}`, resource, now, now-60, now+3600)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg": "RS256", "typ": "JWT"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("none"))
}

func newServer(client *http.Client) *Server {
	return &Server{Key: base64.StdEncoding.EncodeToString([]byte("the key of an account for tests")), HTTP: client}
}

// command returns the command that serves at an address.
func (s *Server) command(t testing.TB, address string, options ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("azurite-blob")
	if err != nil {
		servers.SkipMissing(t, "azurite-blob is not installed (npm install -g azurite)")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"--blobHost", host, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry"}, options...)...)
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+Account+":"+s.Key)
	return cmd
}

// Container creates a container; access is its public access level: "", blob or container.
func (s *Server) Container(t testing.TB, name, access string) {
	t.Helper()
	header := http.Header{}
	if access != "" {
		header.Set("X-Ms-Blob-Public-Access", access)
	}
	if err := azureblob.Create(t.Context(), s.Config(), Account, name, header); err != nil {
		t.Fatal(err)
	}
}
