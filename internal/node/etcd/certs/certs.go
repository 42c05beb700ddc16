// Package certs reads a machine's certificate authorities for an etcd cluster, and
// issues the certificates of its manager, its etcd and its clients.
//
// It must not know how etcd is run or where connections go.
package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// DefaultValidity is the validity of an issued certificate: two years, as with kOps' manager.
// All are reissued when the manager starts, and halfway through.
const DefaultValidity = 2 * 365 * 24 * time.Hour

// Authorities are the three authorities of an etcd cluster.
type Authorities struct {
	// Manager signs the certificates that managers use among each other, Peers those
	// of etcd's members among each other, and Clients those between etcd and its
	// clients.
	Manager, Peers, Clients *pki.Keyset
	// Validity is the validity of issued certificates; 0 means DefaultValidity.
	Validity time.Duration
	Now      func() time.Time
}

// Load reads etcd-manager-ca, etcd-peers-ca and etcd-clients-ca from a folder: for each
// a .crt with one or more certificates, and the .key that signs for one of them.
func Load(dir string, now func() time.Time) (*Authorities, error) {
	a := &Authorities{Now: now}
	for _, x := range []struct {
		name string
		to   **pki.Keyset
	}{{"etcd-manager-ca", &a.Manager}, {"etcd-peers-ca", &a.Peers}, {"etcd-clients-ca", &a.Clients}} {
		k, err := loadKeyset(filepath.Join(dir, x.name), x.name)
		if err != nil {
			return nil, fmt.Errorf("load the authority %s: %w", x.name, err)
		}
		*x.to = k
	}
	return a, nil
}

// loadKeyset reads PATH.crt and PATH.key. Every certificate is trusted; the one that matches
// the key signs.
func loadKeyset(path, name string) (*pki.Keyset, error) {
	text, err := os.ReadFile(path + ".key")
	if err != nil {
		return nil, err
	}
	key, err := pki.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(path + ".crt"); err != nil {
		return nil, err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, errors.New("only RSA and ECDSA keys are supported")
	}
	var items []pki.Item
	primary := ""
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		i := pki.Item{ID: c.SerialNumber.String(), Certificate: c}
		if public.Equal(c.PublicKey) {
			i.Key, primary = key, i.ID
		}
		items = append(items, i)
	}
	if primary == "" {
		return nil, errors.New("no certificate of the .crt file belongs to the .key file")
	}
	return pki.NewKeyset(name, primary, items...)
}

// Issue issues a certificate for a new key (ECDSA P-256, which small machines generate quickly).
func (a *Authorities) Issue(by *pki.Keyset, u pki.Usage, name string, alternate ...string) (pki.Pair, error) {
	i := pki.Issuer{Rand: rand.Reader, Now: a.Now, Generate: func() (crypto.Signer, error) {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}}
	return i.Issue(pki.Request{Usage: u, CommonName: name, Names: alternate, Validity: a.validity()}, by)
}

func (a *Authorities) validity() time.Duration { return cmp.Or(a.Validity, DefaultValidity) }

// isFresh reports whether a certificate is valid, and less than half of its validity is over. The
// wall clock decides, as it does for the certificate's verifiers: it may have been set, or the
// machine suspended, since the certificate was issued.
func (a *Authorities) isFresh(c *x509.Certificate) bool {
	now := a.Now()
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter.Add(-a.validity()/2))
}

// Presented is a certificate in memory that is reissued halfway through its validity.
type Presented struct {
	issue   func() (tls.Certificate, error)
	isFresh func(*x509.Certificate) bool

	mu   sync.Mutex
	cert *tls.Certificate
}

// Present returns the certificate for one side of connections.
func (a *Authorities) Present(by *pki.Keyset, u pki.Usage, name string, alternate ...string) *Presented {
	return &Presented{isFresh: a.isFresh, issue: func() (tls.Certificate, error) {
		p, err := a.Issue(by, u, name, alternate...)
		if err != nil {
			return tls.Certificate{}, err
		}
		key, err := p.Key.PEM()
		if err != nil {
			return tls.Certificate{}, err
		}
		c, err := tls.X509KeyPair(pki.EncodeCertificate(p.Certificate), key)
		c.Leaf = p.Certificate
		return c, err
	}}
}

// Get returns the current certificate.
func (p *Presented) Get() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cert != nil && p.isFresh(p.cert.Leaf) {
		return p.cert, nil
	}
	c, err := p.issue()
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	p.cert = &c
	return p.cert, nil
}

// ToClients is for tls.Config.GetCertificate.
func (p *Presented) ToClients(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.Get() }

// ToServers is for tls.Config.GetClientCertificate.
func (p *Presented) ToServers(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.Get() }

// Pool returns the trusted certificates of a keyset.
func Pool(k *pki.Keyset) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, i := range k.Items {
		if i.Trusted() && i.Certificate != nil {
			pool.AddCert(i.Certificate)
		}
	}
	return pool
}

// WritePair issues a certificate into DIR/NAME.crt (0644) and DIR/NAME.key (0600),
// and writes its authority to DIR/ca.crt.
func (a *Authorities) WritePair(dir, file string, by *pki.Keyset, u pki.Usage, name string, alternate ...string) error {
	p, err := a.Issue(by, u, name, alternate...)
	if err != nil {
		return err
	}
	key, err := p.Key.PEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
		mode os.FileMode
	}{{"ca.crt", []byte(by.Bundle()), 0o644}, {file + ".key", key, 0o600}, {file + ".crt", pki.EncodeCertificate(p.Certificate), 0o644}} {
		if err := replaceFile(filepath.Join(dir, f.name), f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// Due reports whether WritePair must write the files again: they are missing, or half of the
// certificate's validity is over.
func (a *Authorities) Due(dir, file string) bool {
	text, err := os.ReadFile(filepath.Join(dir, file+".crt"))
	if err != nil {
		return true
	}
	c, err := pki.ParseCertificate(text)
	return err != nil || !a.isFresh(c)
}

// replaceFile replaces a file's content atomically, so that a reader never sees half of it.
func replaceFile(path string, text []byte, mode os.FileMode) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, text, mode); err != nil {
		return err
	}
	if err := os.Chmod(temp, mode); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
