package bootstrap

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/fault"
)

// maxCA is the maximum size of the certificate in a challenge, in bytes.
const maxCA = 8 << 10

// platformID matches the IDs of machines, which become parts of requests to the platform, except for
// their length.
var platformID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// maxID is the maximum length of an ID, in bytes.
const maxID = 128

// Called is what a platform says about a machine.
type Called struct {
	// NodeName, InstanceGroup and Cluster are the names of its node, its instance group and its
	// cluster.
	NodeName, InstanceGroup, Cluster string
	// IsRunning reports that it runs or starts.
	IsRunning bool
	// Addresses are its addresses in the cluster's private network; the first one is called. Names are
	// other names that its certificates may contain.
	Addresses, Names []string
}

// Callback verifies Claims: it calls the machine that a sender names. It accepts each challenge only
// once.
type Callback struct {
	// Scheme is the first word of tokens, such as x-cloud-id.
	Scheme string
	// Cluster is this cluster: a platform's account may have several.
	Cluster string
	// Find asks the platform for a machine by its ID; the class of the error is fault.Gone if there is
	// none.
	Find func(ctx context.Context, id string) (Called, error)
	// PerSecond and AtOnce limit calls of Find, which happen before anything is proven: see Bucket.
	PerSecond, AtOnce float64
	// Certificate returns a certificate from CallerCertificate.
	Certificate func() (*tls.Certificate, error)
	Now         func() time.Time
	// Port is where machines listen; 0: ports.Callback.
	Port int

	proofs   ProofCache
	unproven Bucket
}

var _ Verifier = (*Callback)(nil)

// Verify implements Verifier. The machine's address is what the platform says, whatever the
// challenge's Endpoint and the sender's address are.
func (v *Callback) Verify(ctx context.Context, p Proof) (Identity, error) {
	id, ok := strings.CutPrefix(p.Token, v.Scheme+" ")
	if !ok {
		return Identity{}, deniedError("the token is not of type %q", v.Scheme)
	}
	if len(id) > maxID || !platformID.MatchString(id) {
		return Identity{}, deniedError("%q is not an ID of a machine", id)
	}
	c, cert, err := readChallenge(p.Body)
	if err != nil {
		return Identity{}, err
	}
	if !v.unproven.Take(v.Now(), p.Sender, v.PerSecond, v.AtOnce) {
		return Identity{}, ErrBusy
	}
	m, err := v.find(ctx, id)
	if err != nil {
		return Identity{}, err
	}
	if err := v.call(ctx, m.Addresses[0], c, cert); err != nil {
		return Identity{}, err
	}
	if !v.proofs.IsFirst(sha256.Sum256(c.ChallengeSecret), v.Now().Add(callValidity), v.Now()) {
		return Identity{}, deniedError("the challenge was already used")
	}
	return Identity{NodeName: m.NodeName, InstanceGroup: m.InstanceGroup, Names: slices.Concat(m.Addresses, m.Names)}, nil
}

// readChallenge returns the challenge of a request, and the certificate with which the machine will
// answer.
func readChallenge(body []byte) (*Challenge, *x509.Certificate, error) {
	r, err := DecodeRequest(body)
	c := r.Challenge
	switch {
	case err != nil:
		return nil, nil, deniedError("%w", err)
	case c == nil:
		return nil, nil, deniedError("the request has no challenge, so the machine cannot be called back")
	case len(c.ChallengeID) != callField || len(c.ChallengeSecret) != callField || len(c.CA) > maxCA:
		return nil, nil, deniedError("the challenge has an ID, a secret or a certificate of the wrong length")
	}
	cert, err := pki.ParseCertificate(c.CA)
	if err != nil {
		return nil, nil, deniedError("the certificate of the challenge: %w", err)
	}
	return c, cert, nil
}

// find asks the platform for a machine, which must run in this cluster.
func (v *Callback) find(ctx context.Context, id string) (Called, error) {
	m, err := v.Find(ctx, id)
	switch {
	case fault.Is(err, fault.Gone):
		return m, deniedError("no machine %s is known", id)
	case err != nil:
		return m, fault.New(fault.NotYet, "look up the machine %s: %w", id, err) // a refusal by the platform does not mean that the proof is bad
	case m.Cluster != v.Cluster:
		return m, deniedError("the machine %s does not belong to the cluster %s", id, v.Cluster)
	case m.InstanceGroup == "" || m.NodeName == "":
		return m, deniedError("the machine %s belongs to no instance group", id)
	case !m.IsRunning:
		return m, deniedError("the machine %s is not running", id)
	case len(m.Addresses) == 0:
		return m, fault.New(fault.NotYet, "the machine %s has no address in the cluster's network yet", id)
	}
	return m, nil
}

// call calls the machine at an address. The error is a refusal if another machine answers; a machine
// that cannot be reached may be reachable later.
func (v *Callback) call(ctx context.Context, address string, c *Challenge, cert *x509.Certificate) error {
	own, err := v.Certificate()
	if err != nil {
		return fmt.Errorf("call the machine at %s: %w", address, err)
	}
	nonce := make([]byte, callField)
	if _, err := rand.Read(nonce); err != nil {
		return fmt.Errorf("call the machine at %s: %w", address, err)
	}
	answer, err := v.ask(ctx, address, &tls.Config{Certificates: []tls.Certificate{*own}, RootCAs: poolOf(cert), ServerName: calledName(v.Cluster), MinVersion: tls.VersionTLS13,
		Time: func() time.Time { return cert.NotBefore }, // the machine's clock may be wrong
	}, slices.Concat([]byte(c.ChallengeID), nonce))
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return deniedError("the machine at %s did not send this request: %w", address, err)
	case err != nil:
		return fault.New(fault.NotYet, "call the machine at %s: %w", address, err)
	case subtle.ConstantTimeCompare(answer, callAnswer(c.ChallengeSecret, nonce)) != 1:
		return deniedError("the machine at %s did not send this request: it does not know the secret", address)
	}
	return nil
}

func poolOf(cert *x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}

// ask sends a question to a machine, and returns its answer.
func (v *Callback) ask(ctx context.Context, address string, config *tls.Config, question []byte) ([]byte, error) {
	port := v.Port
	if port == 0 {
		port = ports.Callback
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the answer was read, or there is none
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, sha256.Size)
	_, err = io.ReadFull(conn, answer)
	return answer, err
}
