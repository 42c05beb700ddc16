package stage

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// lifetime is the validity of the authority's certificates; no rehearsal lasts that long.
const lifetime = 30 * 24 * time.Hour

// authority issues certificates for every name, to clients that trust it.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // for all names

	mu    sync.Mutex
	known map[string]*tls.Certificate // by name
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{known: map[string]*tls.Certificate{}}
	for _, k := range []**ecdsa.PrivateKey{&a.key, &a.leaf} {
		var err error
		if *k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "kops rehearsal"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := a.sign(template, template, a.key)
	if err != nil {
		return nil, fmt.Errorf("create the rehearsal's authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

func (a *authority) sign(template, parent *x509.Certificate, owner *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, owner.Public(), a.key)
}

// withAuthority returns a file of trusted authorities with this one added.
func (a *authority) withAuthority(trusted []byte) []byte {
	out := bytes.TrimRight(trusted, "\n")
	if len(out) > 0 {
		out = append(bytes.Clone(out), '\n')
	}
	return append(out, a.pem...)
}

// listener returns a TLS listener with a certificate for each name that a client requests.
func (a *authority) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: a.certificate})
}

// certificate returns the certificate for the name that a client requests, or for the address to
// which it connected.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	template := &x509.Certificate{Subject: pkix.Name{Organization: []string{"kops rehearsal"}}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{name}}
	if name == "" {
		host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		name, template.DNSNames, template.IPAddresses = host, nil, []net.IP{net.ParseIP(host)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.known[name]; c != nil {
		return c, nil
	}
	der, err := a.sign(template, a.cert, a.leaf)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", name, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leaf}
	a.known[name] = c
	return c, nil
}
