package sandbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// Authority issues certificates for servers.
type Authority struct {
	Keyset *pki.Keyset
	issuer pki.Issuer
}

// Issuer returns an issuer whose keys are made quickly.
func Issuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

// AuthorityOf returns the authority with a keyset.
func AuthorityOf(k *pki.Keyset) *Authority { return &Authority{k, Issuer()} }

// NewAuthority returns an authority that nobody trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	k, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, Issuer())
	if err != nil {
		t.Fatal(err)
	}
	return AuthorityOf(k[pki.KubernetesCA])
}

// authorities is the file with the authorities that machines trust.
const authorities = "/mnt/authorities.crt"

// trustedKeyset is the only authority that machines and this process trust; it reads the file once.
var trustedKeyset = sync.OnceValues(func() (*pki.Keyset, error) {
	k, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, Issuer())
	if err != nil {
		return nil, err
	}
	return k[pki.KubernetesCA], os.WriteFile(authorities, []byte(k[pki.KubernetesCA].Bundle()), 0o600)
})

// TrustedAuthority returns the authority that machines and this process trust.
func TrustedAuthority(t *testing.T) *Authority {
	t.Helper()
	k, err := trustedKeyset()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authorities)
	return AuthorityOf(k)
}

// Certificate returns a certificate of a server with names.
func (a *Authority) Certificate(names ...string) (*tls.Certificate, error) {
	pair, err := a.issuer.Issue(pki.Request{Usage: pki.Server, CommonName: names[0], Names: names}, a.Keyset)
	if err != nil {
		return nil, err
	}
	key, err := pair.Key.PEM()
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	return &c, err
}

// Serve serves at an address until the test ends, with TLS if certificates are given.
func Serve(t testing.TB, address string, h http.Handler, certificates func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *http.Server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	s.SetKeepAlivesEnabled(false)
	if certificates != nil {
		l = tls.NewListener(l, &tls.Config{GetCertificate: certificates, ClientAuth: tls.RequestClientCert})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // it is closed
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return s
}
