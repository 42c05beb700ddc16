package pki

import (
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
	// DefaultKeySize is the length of generated RSA keys, in bits. Shorter ones are
	// refused: they sign for ten years, and others break them sooner (NIST SP 800-57).
	DefaultKeySize = 2048
	// DefaultValidity is how long a certificate lives when nothing else is said: ten years of 365 days.
	DefaultValidity = 10 * 365 * 24 * time.Hour
	// AdminValidity is how long an administrator's certificate lives when nothing else is said.
	AdminValidity = 18 * time.Hour

	// backdate is how far in the past certificates start, against clocks that run late.
	backdate = 48 * time.Hour
)

// Usage is what a certificate is for.
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
	// Validity counts from now; 0 means DefaultValidity.
	Validity time.Duration
	// Serial is the serial number; nil means a random one of 128 bits.
	Serial *big.Int
	// Numbered puts the serial number into the subject, too.
	Numbered bool
	// PublicKey is the key to certify; nil means that a new key is generated.
	PublicKey crypto.PublicKey
	// Key is certified when PublicKey is nil; zero means that a new one is generated.
	Key PrivateKey
}

// Pair is a certificate and the key it certifies; Key is zero when the request
// brought only a public key.
type Pair struct {
	Certificate *x509.Certificate
	Key         PrivateKey
}

// Issuer makes keys and certificates.
type Issuer struct {
	// Rand gives the random part of serial numbers.
	Rand io.Reader
	Now  func() time.Time
	// KeySize is the length of generated RSA keys, in bits; 0 means DefaultKeySize,
	// and less than that is an error.
	KeySize int
	// Generate makes a key; nil means RSA of KeySize bits. It may be called from several goroutines.
	Generate func() (crypto.Signer, error)
}

// SelfSigned makes a certificate that its own key signs.
func (i Issuer) SelfSigned(r Request) (Pair, error) {
	key, err := i.keyFor(r)
	if err != nil {
		return Pair{}, err
	}
	return i.issue(r, key.Public(), key, nil, key)
}

// Issue makes a certificate that the primary item of the signer signs.
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

// Admin makes a client certificate for an administrator of the cluster whose
// authority is ca. user names the person; it may be empty.
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
	generate := i.Generate
	if generate == nil {
		generate = func() (crypto.Signer, error) {
			size := i.KeySize
			if size == 0 {
				size = DefaultKeySize
			}
			if size < DefaultKeySize {
				return nil, fmt.Errorf("got a key size of %d bits, which is too short; use %d or more (KOPS_RSA_PRIVATE_KEY_SIZE)", size, DefaultKeySize)
			}
			return rsa.GenerateKey(cryptorand.Reader, size) // the library takes its own randomness
		}
	}
	s, err := generate()
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generate the key of %s: %w", r.CommonName, err)
	}
	return PrivateKey{s}, nil
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

// template is the certificate before it is signed.
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
		t.MaxPathLenZero = true // it signs no other authority
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
