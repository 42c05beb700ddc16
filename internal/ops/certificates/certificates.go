// Package certificates lists the certificates of a cluster: who signed each, and when it expires.
// What nodes report about their machines is only for people to read and for a rotation to wait for;
// nothing is trusted because of it.
//
// It must not know any platform, the store or the terminal.
package certificates

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
)

// Certificate is one of a cluster's certificates.
type Certificate = status.ClusterCertificate

// Holders that are not nodes.
const (
	Store      = "store"
	APIServer  = "api server"
	Kubeconfig = "kubeconfig"
)

// Soon is how long before expiry a certificate is reported.
const Soon = 30 * 24 * time.Hour

// Stock collects the certificates of a cluster.
type Stock struct {
	Keysets map[string]*pki.Keyset
	All     []Certificate
	// Silent lists nodes that report no certificates.
	Silent []string
}

// New returns a Stock with the authorities of a store.
func New(keysets map[string]*pki.Keyset) *Stock {
	s := &Stock{Keysets: keysets}
	for _, name := range slices.Sorted(maps.Keys(keysets)) {
		for _, i := range keysets[name].Items {
			if i.Certificate != nil {
				s.All = append(s.All, Certificate{Holder: Store, File: name, Subject: pki.Subject(i.Certificate), Ends: i.Certificate.NotAfter.UTC(),
					Keyset: name, Signer: i.ID, Former: i.ID != keysets[name].Primary, Distrusted: !i.Trusted()})
			}
		}
	}
	return s
}

// Nodes adds the certificates that nodes report.
func (s *Stock) Nodes(nodes []corev1.Node) {
	for _, n := range nodes {
		held, there, err := labels.Read[[]status.Certificate](n.Annotations, labels.Certificates)
		if !there || err != nil {
			s.Silent = append(s.Silent, n.Name)
			continue
		}
		for _, c := range held {
			s.add(Certificate{Holder: "node " + n.Name, File: c.File, Subject: c.Subject, Ends: c.Ends}, c.Authority)
		}
	}
	slices.Sort(s.Silent)
}

// Add adds an observed certificate.
func (s *Stock) Add(holder, file string, c *x509.Certificate) {
	s.add(Certificate{Holder: holder, File: file, Subject: c.Subject.CommonName, Ends: c.NotAfter.UTC()}, pki.SignedBy(c))
}

// add adds a certificate, and finds the keyset item that signed it.
func (s *Stock) add(c Certificate, authority string) {
	for name, k := range s.Keysets {
		for _, i := range k.Items {
			if i.Certificate != nil && pki.SignsAs(i.Certificate) == authority {
				c.Keyset, c.Signer, c.Former, c.Distrusted = name, i.ID, i.ID != k.Primary, !i.Trusted()
			}
		}
	}
	s.All = append(s.All, c)
}

// Sorted returns all certificates, by holder and file; authorities come first.
func (s *Stock) Sorted() []Certificate {
	out := slices.Clone(s.All)
	slices.SortStableFunc(out, func(a, b Certificate) int {
		return cmp.Or(compareBool(b.Holder == Store, a.Holder == Store), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.File, b.File), a.Ends.Compare(b.Ends))
	})
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// SignedByOthers lists the holders of certificates that were signed by another item of one of the
// keysets than its primary one, and those that report no certificates.
func (s *Stock) SignedByOthers(keysets []string) []string {
	var out []string
	for _, c := range s.All {
		if c.Holder != Store && c.Holder != Kubeconfig && (c.Former || c.Distrusted) && slices.Contains(keysets, c.Keyset) {
			out = append(out, fmt.Sprintf("%s: %s of %s, signed by %s %s", c.Holder, cmp.Or(c.File, "the certificate"), c.Subject, c.Keyset, c.Signer))
		}
	}
	for _, n := range s.Silent {
		out = append(out, "node "+n+": it does not report its certificates")
	}
	slices.Sort(out)
	return out
}

// Expiring returns the certificates that have expired, and those that will soon. Certificates that
// are no longer trusted are left out.
func Expiring(all []Certificate, now time.Time) (ended, soon []Certificate) {
	for _, c := range all {
		switch left := c.Ends.Sub(now); {
		case c.Distrusted || c.Holder == Store && c.Former:
		case left <= 0:
			ended = append(ended, c)
		case left < Soon && !shortLived(c, left):
			soon = append(soon, c)
		}
	}
	return ended, soon
}

// shortLived reports whether a certificate is meant to be short-lived: certificates of machines
// without keys of their own are valid for 24 to 30 days and renewed in the last third, and an
// administrator's are valid for hours.
func shortLived(c Certificate, left time.Duration) bool {
	return c.Holder == Kubeconfig || c.Holder != Store && c.Holder != APIServer && left > 3*24*time.Hour
}

// ServerCertificate returns the certificate that the server at a URL presents for a server name. It
// is not verified, because the caller wants to inspect it.
func ServerCertificate(ctx context.Context, server, name string) (*x509.Certificate, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its certificate: %w", server, err)
	}
	d := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // it is shown, and nothing is sent
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if err != nil {
		return nil, fmt.Errorf("ask %s for its certificate: %w", server, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	t, ok := conn.(*tls.Conn)
	if !ok || len(t.ConnectionState().PeerCertificates) == 0 {
		return nil, errors.New("ask " + server + " for its certificate: it presents no certificate")
	}
	return t.ConnectionState().PeerCertificates[0], nil
}
