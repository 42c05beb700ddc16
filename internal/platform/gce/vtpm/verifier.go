package vtpm

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
)

// Instance is what Compute tells of an instance.
type Instance struct {
	// ID is never given again, as the name is. Maker is the path of the managed instance
	// group that made it, below Compute's API; empty: it says of none.
	ID, Maker string
	// Running says that its status is RUNNING.
	Running bool
	// Cluster and Group are those of its metadata: the cluster's name, with dots, and the
	// instance group.
	Cluster, Group string
	// Names are its addresses within the network.
	Names []string
	// Key is its attestation key, as PublicKey writes it.
	Key string
}

// Instances looks up instances of the project.
type Instances interface {
	// Instance returns an instance of a zone, or an error of class fault.Gone.
	Instance(ctx context.Context, zone, name string) (Instance, error)
	// Member returns the instance group of the template by which a managed instance group
	// made the instance that it still has, or an error of class fault.Gone where none did.
	Member(ctx context.Context, i Instance) (group string, err error)
}

// Verifier checks the proofs that Prover makes. A proof that was accepted once is not
// accepted again by the same verifier.
type Verifier struct {
	// Project, Region and Cluster are the controller's own.
	Project, Region, Cluster string
	// Skew is how far a machine's clock may be from the controller's, either way; 0: bootstrap.ClockSkew.
	Skew      time.Duration
	Instances Instances
	Now       func() time.Time

	seen     bootstrap.Seen
	unproven bootstrap.Bucket
	answers  answers
}

var _ bootstrap.Verifier = (*Verifier)(nil)

// Verify checks who signed, for what and when, whether that is a machine of the cluster, and that
// the proof was not shown before.
func (v *Verifier) Verify(ctx context.Context, p bootstrap.Proof) (bootstrap.Identity, error) {
	var none bootstrap.Identity
	t, c, err := parse(p.Token)
	if err != nil {
		return none, err
	}
	if err := v.check(c, p.Body); err != nil {
		return none, err
	}
	i, err := v.instance(ctx, c, t)
	switch {
	case errors.Is(err, bootstrap.ErrBusy):
		return none, err
	case fault.Is(err, fault.Gone):
		return none, denied("the project has no instance %s in the zone %s", c.Instance, c.Zone)
	case err != nil: // whatever its class, it is not one of the proof
		return none, fault.New(fault.NotYet, "look up the instance %s: %w", c.Instance, err)
	case i.Cluster != v.Cluster:
		return none, denied("the instance %s is not of this cluster", c.Instance)
	case i.Group == "":
		return none, denied("the instance %s belongs to no instance group", c.Instance)
	case !i.Running:
		return none, denied("the instance %s does not run", c.Instance)
	}
	if err := checkSignature(t, i.Key); err != nil {
		return none, err
	}
	group, err := v.Instances.Member(ctx, i)
	switch {
	case fault.Is(err, fault.Gone):
		return none, denied("the instance %s is of no managed instance group of the cluster: %w", c.Instance, err)
	case err != nil:
		return none, fault.New(fault.NotYet, "look up the managed instance group of %s: %w", c.Instance, err)
	case group != i.Group:
		return none, denied("the instance %s says that it is of the instance group %s, and is of %s", c.Instance, i.Group, group)
	}
	if !v.seen.First(sha256.Sum256(t.Data), time.Unix(c.Timestamp, 0).Add(v.skew()), v.Now()) {
		return none, denied("the proof was used before")
	}
	return bootstrap.Identity{NodeName: c.Instance, InstanceGroup: i.Group, Names: i.Names}, nil
}

func (v *Verifier) skew() time.Duration { return cmp.Or(v.Skew, bootstrap.ClockSkew) }

// resource is what Compute calls instances and zones (RFC 1035, as its API reference has
// it): nothing else becomes a part of a path.
var resource = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`) })

// check checks what a machine says without asking anybody.
func (v *Verifier) check(c claim, body []byte) error {
	off := v.Now().Sub(time.Unix(c.Timestamp, 0))
	hash := sha256.Sum256(body)
	switch {
	case c.Audience != bootstrap.Audience:
		return denied("the token is for %q", c.Audience)
	case off.Abs() > v.skew():
		return denied("the token was made at another time than now: the clocks differ by %s", off.Round(time.Second))
	case subtle.ConstantTimeCompare(c.RequestHash, hash[:]) != 1:
		return denied("the signature is for another request")
	case c.Project != v.Project:
		return denied("the project %q is not the cluster's project", c.Project)
	case !resource().MatchString(c.Zone) || !strings.HasPrefix(c.Zone, v.Region+"-"):
		return denied("%q is not a zone of the region %s", c.Zone, v.Region)
	case !resource().MatchString(c.Instance):
		return denied("%q is not the name of an instance", c.Instance)
	}
	return nil
}

// checkSignature checks that the key signed the token's data.
func checkSignature(t token, text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return fault.Wrap(fault.Permanent, errors.New("read the attestation key: Compute tells none"), enable)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the attestation key: %w", err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("read the attestation key: it is of type %T, and has to be RSA", key)
	}
	digest := sha256.Sum256(t.Data)
	if rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], t.Signature) != nil {
		return denied("the signature is not by the instance's attestation key")
	}
	return nil
}
