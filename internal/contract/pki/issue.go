package pki

import (
	"context"
	"crypto"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	// DefaultKeySize is the length of generated RSA keys, in bits. Shorter ones are rejected: keys
	// sign for ten years, and shorter ones are considered broken sooner (NIST SP 800-57).
	DefaultKeySize = 2048
	// DefaultValidity is the default validity period of a certificate: ten years of 365 days.
	DefaultValidity = 10 * 365 * 24 * time.Hour
	// AdminValidity is the default validity period of an administrator's certificate.
	AdminValidity = 18 * time.Hour

	// backdate is how far in the past certificates start, to allow for slow clocks.
	backdate = 48 * time.Hour
)

// Usage is the purpose of a certificate.
type Usage string

const (
	Authority    Usage = "ca"
	Client       Usage = "client"
	Server       Usage = "server"
	ClientServer Usage = "clientServer"
)

// Request describes a certificate.
type Request struct {
	Usage        Usage
	CommonName   string
	Organization []string
	// Names are alternate names: addresses, and DNS names. Empty ones are dropped.
	Names []string
	// Validity is the validity period, starting now; 0 means DefaultValidity.
	Validity time.Duration
	// Serial is the serial number; nil means a random one of 128 bits.
	Serial *big.Int
	// Numbered adds the serial number to the subject.
	Numbered bool
	// PublicKey is the key to certify; nil means that a new key is generated.
	PublicKey crypto.PublicKey
	// Key is certified if PublicKey is nil; zero means that a new one is generated.
	Key PrivateKey
}

// Pair is a certificate and the key it certifies; Key is zero if the request only had a public key.
type Pair struct {
	Certificate *x509.Certificate
	Key         PrivateKey
}

// Issuer creates keys and certificates.
type Issuer struct {
	// Rand is the source of the random part of serial numbers.
	Rand io.Reader
	Now  func() time.Time
	// KeySize is the length of generated RSA keys, in bits; 0 means DefaultKeySize,
	// and less than that is an error.
	KeySize int
	// Generate creates a key; nil means RSA of KeySize bits. It may be called from several
	// goroutines.
	Generate func() (crypto.Signer, error)
}

// SelfSigned creates a certificate that is signed by its own key.
func (i Issuer) SelfSigned(r Request) (Pair, error) {
	key, err := i.keyFor(r)
	if err != nil {
		return Pair{}, err
	}
	return i.issue(r, key.Public(), key, nil, key)
}

// Issue creates a certificate that is signed by the primary item of the signer.
func (i Issuer) Issue(r Request, signer *Keyset) (Pair, error) {
	s := signer.Signer()
	if r.PublicKey != nil {
		return i.issue(r, r.PublicKey, PrivateKey{}, s.Certificate, s.Key)
	}
	key, err := i.keyFor(r)
	if err != nil {
		return Pair{}, err
	}
	return i.issue(r, key.Public(), key, s.Certificate, s.Key)
}

// Admin creates a client certificate for an administrator of the cluster whose authority is ca.
// user names the person; it may be empty.
func (i Issuer) Admin(ca *Keyset, user string, validity time.Duration) (Pair, error) {
	cn := "kubecfg"
	if user != "" {
		cn += "-" + user
	}
	return i.Issue(Request{Usage: Client, CommonName: cn, Organization: []string{"system:masters"}, Validity: validity}, ca)
}

func (i Issuer) keyFor(r Request) (PrivateKey, error) {
	if !r.Key.IsZero() {
		return r.Key, nil
	}
	s, err := i.newKey()
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generate the key of %s: %w", r.CommonName, err)
	}
	return PrivateKey{s}, nil
}

func (i Issuer) newKey() (crypto.Signer, error) {
	if i.Generate != nil {
		return i.Generate()
	}
	size := i.KeySize
	if size == 0 {
		size = DefaultKeySize
	}
	if size < DefaultKeySize {
		return nil, fmt.Errorf("got a key size of %d bits, which is too short; use %d or more (KOPS_RSA_PRIVATE_KEY_SIZE)", size, DefaultKeySize)
	}
	return rsa.GenerateKey(cryptorand.Reader, size) // the library uses its own randomness
}

// Until returns an issuer that waits for a new key only until ctx ends. A long RSA key takes seconds
// to generate, which cannot be stopped.
func (i Issuer) Until(ctx context.Context) Issuer {
	generate := i.newKey
	i.Generate = func() (crypto.Signer, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var key crypto.Signer
		var err error
		done := make(chan struct{})
		go func() {
			key, err = generate()
			close(done)
		}()
		select {
		case <-done:
			return key, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return i
}

func (i Issuer) issue(r Request, pub crypto.PublicKey, key PrivateKey, parent *x509.Certificate, signer PrivateKey) (Pair, error) {
	template, err := i.template(r)
	if err != nil {
		return Pair{}, err
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, parent, pub, signer.signer)
	if err != nil {
		return Pair{}, fmt.Errorf("issue the certificate of %s: %w", r.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, fmt.Errorf("issue the certificate of %s: %w", r.CommonName, err)
	}
	return Pair{cert, key}, nil
}

// template returns the certificate before it is signed.
func (i Issuer) template(r Request) (*x509.Certificate, error) {
	serial := r.Serial
	if serial == nil {
		raw := make([]byte, 16)
		if _, err := io.ReadFull(i.Rand, raw); err != nil {
			return nil, fmt.Errorf("read a random serial number: %w", err)
		}
		serial = new(big.Int).SetBytes(raw)
	}
	validity := r.Validity
	if validity == 0 {
		validity = DefaultValidity
	}
	now := i.Now().UTC()
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: r.CommonName, Organization: r.Organization},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}
	if r.Numbered {
		t.Subject.SerialNumber = serial.String()
	}
	switch r.Usage {
	case Authority:
		t.IsCA, t.KeyUsage = true, x509.KeyUsageCRLSign|x509.KeyUsageCertSign
		t.MaxPathLenZero = true // it may not sign other authorities
	case Client:
		t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case Server:
		t.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case ClientServer:
		t.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	default:
		return nil, fmt.Errorf("certificate of %s: unknown usage %q", r.CommonName, r.Usage)
	}
	for _, n := range r.Names {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
			continue
		}
		t.DNSNames = append(t.DNSNames, n)
	}
	return t, nil
}

// TimedSerial returns a serial number that sorts by its time: the nanoseconds
// since 1970, shifted left by 32 bits, and 32 random bits.
func (i Issuer) TimedSerial() (*big.Int, error) {
	raw := make([]byte, 4)
	if _, err := io.ReadFull(i.Rand, raw); err != nil {
		return nil, fmt.Errorf("read a random serial number: %w", err)
	}
	serial := big.NewInt(i.Now().UnixNano())
	serial.Lsh(serial, 32)
	return serial.Or(serial, new(big.Int).SetUint64(uint64(binary.BigEndian.Uint32(raw)))), nil
}
