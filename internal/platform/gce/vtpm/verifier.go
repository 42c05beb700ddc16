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

// Instance holds what Compute Engine returns about an instance.
type Instance struct {
	// ID is never reused, unlike the name. Manager is the path, in Compute Engine's API, of the
	// managed instance group that created it; empty: it names none.
	ID, Manager string
	// Running reports whether its status is RUNNING.
	Running bool
	// Cluster and Group are from its metadata: the cluster's name, with dots, and the instance
	// group.
	Cluster, Group string
	// Names are its addresses in the network.
	Names []string
	// Key is its attestation key, in PublicKey's format.
	Key string
}

// Instances looks up instances of the project.
type Instances interface {
	// Instance returns an instance in a zone, or an error of class fault.Gone.
	Instance(ctx context.Context, zone, name string) (Instance, error)
	// Member returns the instance group according to the template from which a managed instance
	// group created the instance. The error has class fault.Gone if no managed instance group
	// contains it.
	Member(ctx context.Context, i Instance) (group string, err error)
}

// Verifier verifies proofs that a Prover created. It accepts each proof only once.
type Verifier struct {
	// Project, Region and Cluster are the controller's.
	Project, Region, Cluster string
	// Skew is the maximum difference between a machine's clock and the controller's; 0:
	// bootstrap.ClockSkew.
	Skew      time.Duration
	Instances Instances
	Now       func() time.Time

	tokens  bootstrap.ProofCache
	lookups bootstrap.Bucket
	cache   answerCache
}

var _ bootstrap.Verifier = (*Verifier)(nil)

// Verify checks the signature and the claim, that the machine belongs to the cluster, and that the
// proof was not used before.
func (v *Verifier) Verify(ctx context.Context, p bootstrap.Proof) (bootstrap.Identity, error) {
	var none bootstrap.Identity
	t, c, err := parse(p.Token)
	if err != nil {
		return none, err
	}
	if err := v.check(c, p.Body); err != nil {
		return none, err
	}
	i, err := v.instance(ctx, p.Sender, c, t)
	switch {
	case errors.Is(err, bootstrap.ErrBusy):
		return none, err
	case fault.Is(err, fault.Gone):
		return none, deniedError("the project has no instance %s in the zone %s", c.Instance, c.Zone)
	case err != nil: // whatever its class, it is not an error of the proof
		return none, fault.New(fault.NotYet, "look up the instance %s: %w", c.Instance, err)
	case i.Cluster != v.Cluster:
		return none, deniedError("the instance %s does not belong to this cluster", c.Instance)
	case i.Group == "":
		return none, deniedError("the instance %s belongs to no instance group", c.Instance)
	case !i.Running:
		return none, deniedError("the instance %s is not running", c.Instance)
	}
	if err := checkSignature(t, i.Key); err != nil {
		return none, err
	}
	group, err := v.Instances.Member(ctx, i)
	switch {
	case fault.Is(err, fault.Gone):
		return none, deniedError("the instance %s is in no managed instance group of the cluster: %w", c.Instance, err)
	case err != nil:
		return none, fault.New(fault.NotYet, "look up the managed instance group of %s: %w", c.Instance, err)
	case group != i.Group:
		return none, deniedError("the instance %s claims to be in the instance group %s, but is in %s", c.Instance, i.Group, group)
	}
	if !v.tokens.IsFirst(sha256.Sum256(t.Data), time.Unix(c.Timestamp, 0).Add(v.skew()), v.Now()) {
		return none, deniedError("the proof was already used")
	}
	return bootstrap.Identity{NodeName: c.Instance, InstanceGroup: i.Group, Names: i.Names}, nil
}

func (v *Verifier) skew() time.Duration { return cmp.Or(v.Skew, bootstrap.ClockSkew) }

// resource matches the names of instances and zones (RFC 1035, according to Compute Engine's API
// reference): nothing else may become part of a path.
var resource = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`) })

// check checks a claim without sending requests.
func (v *Verifier) check(c claim, body []byte) error {
	off := v.Now().Sub(time.Unix(c.Timestamp, 0))
	hash := sha256.Sum256(body)
	switch {
	case c.Audience != bootstrap.Audience:
		return deniedError("the token is for %q", c.Audience)
	case off.Abs() > v.skew():
		return deniedError("the token has the wrong time: the clocks differ by %s", off.Round(time.Second))
	case subtle.ConstantTimeCompare(c.RequestHash, hash[:]) != 1:
		return deniedError("the signature is for another request")
	case c.Project != v.Project:
		return deniedError("the project %q is not the cluster's project", c.Project)
	case !resource().MatchString(c.Zone) || !strings.HasPrefix(c.Zone, v.Region+"-"):
		return deniedError("%q is not a zone of the region %s", c.Zone, v.Region)
	case !resource().MatchString(c.Instance):
		return deniedError("%q is not the name of an instance", c.Instance)
	}
	return nil
}

// checkSignature checks that the key signed the token's data.
func checkSignature(t token, text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return fault.Wrap(fault.Permanent, errors.New("read the attestation key: Compute Engine returned none"), enable)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the attestation key: %w", err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return errors.New("read the attestation key: it must be an RSA key")
	}
	digest := sha256.Sum256(t.Data)
	if rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], t.Signature) != nil {
		return deniedError("the signature was not made by the instance's attestation key")
	}
	return nil
}
