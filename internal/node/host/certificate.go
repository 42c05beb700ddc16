package host

import (
	"bytes"
	"context"
	"crypto/x509"
	"io/fs"
	"os"
	"slices"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
)

// Certificate is a certificate with its private key: in two files, or both in a
// kubeconfig. The key is generated on the machine.
type Certificate struct {
	// Path is the file of the certificate, or the kubeconfig that contains it.
	Path string `res:"forbid"`
	// KeyPath is the file of the key; empty for a kubeconfig.
	KeyPath string
	// Name is the authority's name for the certificate.
	Name         string `res:"writeonly"`
	CommonName   string
	Organization []string
	// Names are alternative names; if empty, the authority chooses them.
	Names []string `res:"default"`
	Usage string
	// Signer is the keyset whose current key signs.
	Signer string
	// Validity counts from the time of issue.
	Validity time.Duration `res:"writeonly"`
	// Valid is always wanted: the key matches, and the certificate is not about to expire.
	Valid bool
	// CA is the bundle that is appended to the certificate, or that the kubeconfig trusts.
	CA resource.Content
	// Server is the URL in the kubeconfig, and User the name of its user.
	Server string
	User   string
	// Mode and KeyMode are four octal digits.
	Mode    string
	KeyMode string
	Owner   int
	Group   int
	// Serial is the certificate's serial number. Programs that read the certificate only at
	// startup depend on it: another number means that it was reissued.
	Serial string `res:"out,volatile" out:"serial"`
}

// renewal is the longest time before its expiry at which a certificate is reissued. One that
// is valid for less than three times as long is reissued in the last third of its validity:
// that leaves days in which a failed renewal is retried, twice a day.
const renewal = 90 * 24 * time.Hour

// Need is how urgently a certificate must be reissued.
type Need int

// Needs of a certificate. A due certificate can wait for some days. An urgent one cannot: two
// thirds of the renewal period are over, or the certificate cannot be used as it is.
const (
	Lasting Need = iota
	Due
	Urgent
)

// needOf returns the need of an existing certificate, with its key in PEM.
func needOf(x *x509.Certificate, key []byte, now time.Time) Need {
	k, err := pki.ParsePrivateKey(key)
	if err != nil || !pki.SamePublic(k.Public(), x.PublicKey) || now.Before(x.NotBefore) {
		return Urgent
	}
	before := min(renewal, x.NotAfter.Sub(x.NotBefore)/3)
	switch left := x.NotAfter.Sub(now); {
	case left > before:
		return Lasting
	case left > before/3:
		return Due
	}
	return Urgent
}

// InspectCertificate returns a certificate as it is on the machine, and whether it must be
// reissued. It is nil if there is none, or if it cannot be read.
func (m *Machine) InspectCertificate(c Certificate) (*x509.Certificate, Need) {
	s, err := m.readCertificate(&c)
	if err != nil {
		return nil, Urgent
	}
	x, err := pki.ParseCertificate(s.certificate)
	if err != nil {
		return nil, Urgent
	}
	return x, needOf(x, s.key, m.Now())
}

// Certificates is the kind of Certificate. One that is as wanted is never reissued.
var Certificates = resource.Kind[Certificate, *Machine]{
	Name: "host_certificate", API: "certificates", Direct: true,
	Key: func(c *Certificate) string { return c.Path + "=" + c.KeyPath }, List: listCertificates, Create: issueCertificate,
	Update: []resource.Setter[Certificate, *Machine]{
		{Fields: []string{"KeyPath", "CommonName", "Organization", "Names", "Usage", "Signer", "Valid"},
			Set: func(ctx context.Context, m *Machine, have, want *Certificate) error {
				err := issueCertificate(ctx, m, want)
				have.Serial = want.Serial
				return err
			}},
		{Fields: []string{"CA", "Server", "User", "Mode", "KeyMode", "Owner", "Group"},
			Set: func(_ context.Context, m *Machine, _, want *Certificate) error { return m.rewrap(want) }},
	},
	Delete: func(_ context.Context, m *Machine, c *Certificate) error {
		if c.KeyPath != "" {
			if err := m.remove(c.KeyPath); err != nil {
				return err
			}
		}
		return m.remove(c.Path)
	},
}

// certificateFiles is the content of a certificate's files.
type certificateFiles struct {
	certificate, key, ca []byte // PEM
	server, user         string
}

func listCertificates(_ context.Context, m *Machine, s resource.Scope) ([]*Certificate, error) {
	var out []*Certificate
	for _, key := range s.Names {
		path, keyPath, _ := bytes.Cut([]byte(key), []byte("="))
		c := &Certificate{Path: string(path), KeyPath: string(keyPath)}
		found, err := m.readCertificate(c)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		m.describe(c, found)
		out = append(out, c)
	}
	return out, nil
}

// readCertificate reads the files of a certificate, and their modes and owners.
func (m *Machine) readCertificate(c *Certificate) (certificateFiles, error) {
	text, info, err := m.readWithInfo(c.Path)
	if err != nil {
		return certificateFiles{}, err
	}
	o := m.ownerOf(c.Path, info)
	c.Mode, c.Owner, c.Group = modeText(info.Mode()), o.user, o.group
	if c.KeyPath == "" {
		return readKubeconfig(text), nil
	}
	s := certificateFiles{}
	s.certificate, s.ca = firstBlock(text)
	if s.key, info, err = m.readWithInfo(c.KeyPath); err != nil {
		return certificateFiles{}, err
	}
	c.KeyMode = modeText(info.Mode())
	return s, nil
}

func (m *Machine) readWithInfo(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(m.path(path))
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(m.path(path))
	return text, info, err
}

// firstBlock splits a text after its first PEM block.
func firstBlock(text []byte) (first, rest []byte) {
	const end = "-----END CERTIFICATE-----\n"
	i := bytes.Index(text, []byte(end))
	if i < 0 {
		return text, nil
	}
	return text[:i+len(end)], text[i+len(end):]
}

// describe sets the fields that the certificate determines. A broken one sets none, and is
// reissued.
func (m *Machine) describe(c *Certificate, s certificateFiles) {
	c.Server, c.User, c.CA = s.server, s.user, resource.Text(resource.Lit(string(s.ca)))
	x, err := pki.ParseCertificate(s.certificate)
	if err != nil {
		return
	}
	c.CommonName, c.Organization, c.Usage, c.Serial = x.Subject.CommonName, x.Subject.Organization, usage(x), x.SerialNumber.String()
	c.Names = slices.Clone(x.DNSNames)
	for _, ip := range x.IPAddresses {
		c.Names = append(c.Names, ip.String())
	}
	if m.Authority != nil {
		c.Signer = m.Authority.Signer(x)
	}
	c.Valid = needOf(x, s.key, m.Now()) == Lasting
}

func usage(x *x509.Certificate) string {
	client, server := slices.Contains(x.ExtKeyUsage, x509.ExtKeyUsageClientAuth), slices.Contains(x.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	switch {
	case x.IsCA:
		return string(pki.Authority)
	case client && server:
		return string(pki.ClientServer)
	case client:
		return string(pki.Client)
	case server:
		return string(pki.Server)
	}
	return ""
}

func issueCertificate(ctx context.Context, m *Machine, c *Certificate) error {
	pair, err := m.Authority.Issue(ctx, c.Name, c.Signer, pki.Request{
		Usage: pki.Usage(c.Usage), CommonName: c.CommonName, Organization: c.Organization, Names: c.Names, Validity: c.Validity})
	if err != nil {
		return err
	}
	key, err := pair.Key.PEM()
	if err != nil {
		return err
	}
	c.Serial = pair.Certificate.SerialNumber.String()
	return m.storeCertificate(c, pki.EncodeCertificate(pair.Certificate), key)
}

// rewrap rewrites the files of the existing certificate, because its CA bundle, kubeconfig,
// mode or owner has changed.
func (m *Machine) rewrap(c *Certificate) error {
	have := *c
	s, err := m.readCertificate(&have)
	if err != nil {
		return classifyFileError(err)
	}
	return m.storeCertificate(c, s.certificate, s.key)
}

// storeCertificate writes the key before the certificate: a pair that does not match is noticed,
// and reissued.
func (m *Machine) storeCertificate(c *Certificate, certificate, key []byte) error {
	perm, err := parseMode(c.Mode)
	if err != nil {
		return err
	}
	ca, _ := c.CA.Value().Known() // the executor has resolved it
	o := owner{c.Owner, c.Group}
	if c.KeyPath == "" {
		text, err := writeKubeconfig(certificateFiles{certificate: certificate, key: key, ca: []byte(ca), server: c.Server, user: c.User})
		if err != nil {
			return err
		}
		return m.write(c.Path, perm, o, bytes.NewReader(text))
	}
	keyPerm, err := parseMode(c.KeyMode)
	if err != nil {
		return err
	}
	if err := m.write(c.KeyPath, keyPerm, o, bytes.NewReader(key)); err != nil {
		return err
	}
	return m.write(c.Path, perm, o, bytes.NewReader(append(certificate, ca...)))
}
