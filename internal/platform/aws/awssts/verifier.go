// Package awssts proves who a machine on AWS is by its role: the machine signs,
// but does not send, a request to AWS' token service, and the controller sends
// it and hears for whom it was signed. The signature covers a hash of what the
// machine asks of the controller.
//
// It must not link the SDK of AWS: what it needs of it is one request. It must not
// know where a machine has its credentials from.
package awssts

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
)

const (
	// Scheme starts a token.
	Scheme = "x-aws-sts "
	// hashHeader is a signed header with the hash of what is asked of the controller.
	hashHeader = "X-Kops-Request-Sha"
	// question is the body of the signed request (AWS STS API, GetCallerIdentity).
	question = "Action=GetCallerIdentity&Version=2011-06-15"
	// validity is how long AWS accepts a signature (AWS, "Signature Version 4").
	validity = 15 * time.Minute
)

// bodyHash is the text of hashHeader.
func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// Instance is AWS' description of a machine.
type Instance struct {
	// NodeName is the instance's identifier, or its private DNS name where nodes are named so.
	NodeName string
	// Group is the tag kops.k8s.io/instancegroup.
	Group string
	// Profile is the name of its instance profile; empty: it has none.
	Profile string
	// Names are its private addresses and DNS names.
	Names []string
}

// Instances looks up machines.
type Instances interface {
	// Instance returns a machine of the cluster by its identifier, or an error
	// of class fault.Gone when the cluster has no such machine.
	Instance(ctx context.Context, id string) (Instance, error)
}

// askedPerSecond and askedAtOnce bound the questions to AWS, which come before anything is
// proven: AWS answers some 600 a second for the whole account and region.
const askedPerSecond, askedAtOnce = 25, 500

// Verifier asks AWS who signed.
type Verifier struct {
	// Endpoint is the token service of the region, such as https://sts.us-east-1.amazonaws.com/.
	Endpoint string
	// HTTP sends the signed request; it must not follow redirections.
	HTTP *http.Client
	// Account and Partition are the controller's own.
	Account, Partition string
	// Roles are the names of the roles that machines of the cluster have.
	Roles []string
	// Profiles are the roles that the instance profiles of the cluster's machines give, by the
	// name of the profile; nil: they are not known, and not compared. A role may trust principals
	// other than instances, which may choose any instance's name for the session.
	Profiles  map[string]string
	Instances Instances
	Now       func() time.Time

	unproven bootstrap.Bucket

	mu   sync.Mutex
	seen map[string]time.Time // signatures, until AWS refuses them anyway
}

var _ bootstrap.Verifier = (*Verifier)(nil)

func denied(format string, args ...any) error {
	return fault.New(fault.Denied, "the identity is not proven: "+format, args...)
}

// Verify asks AWS for whom a token is signed, and looks up that machine.
func (v *Verifier) Verify(ctx context.Context, p bootstrap.Proof) (bootstrap.Identity, error) {
	var none bootstrap.Identity
	header, signature, err := parseToken(p.Token)
	if err != nil {
		return none, err
	}
	if subtle.ConstantTimeCompare([]byte(header.Get(hashHeader)), []byte(bodyHash(p.Body))) != 1 {
		return none, denied("the signature is for another request")
	}
	if !v.unproven.Take(v.Now(), askedPerSecond, askedAtOnce) {
		return none, bootstrap.ErrBusy
	}
	arn, err := v.caller(ctx, header)
	if err != nil {
		return none, err
	}
	role, id, err := v.machine(arn)
	if err != nil {
		return none, err
	}
	if !v.first(signature) {
		return none, denied("the proof was used before")
	}
	i, err := v.Instances.Instance(ctx, id)
	switch {
	case fault.Is(err, fault.Gone):
		return none, denied("the cluster has no machine %s", id)
	case err != nil:
		return none, fmt.Errorf("look up the machine %s: %w", id, err)
	case i.Group == "":
		return none, denied("the machine %s belongs to no instance group", id)
	case v.Profiles != nil && v.Profiles[i.Profile] != role:
		return none, denied("the instance profile of the machine %s is %q, which does not give the role %s", id, i.Profile, role)
	}
	return bootstrap.Identity{NodeName: i.NodeName, InstanceGroup: i.Group, Names: i.Names}, nil
}

// passed are the headers that are sent on; a token can bring no other.
func passed() []string {
	return []string{"Authorization", "Content-Type", "User-Agent", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256", hashHeader,
		"Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"}
}

// authorization is the header of that name. AWS takes it with other spaces, too,
// so that only the signature itself tells two of them apart.
var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 +Credential=[^,\s]+, *SignedHeaders=([^,\s]+), *Signature=([0-9a-f]{64})$`)

// parseToken reads the headers of a signed request, and the signature among them.
func parseToken(token string) (header http.Header, signature string, err error) {
	encoded, ok := strings.CutPrefix(token, Scheme)
	if !ok {
		return nil, "", denied("the token is not of the kind %q", strings.TrimSpace(Scheme))
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	given := http.Header{}
	if err == nil {
		err = json.Unmarshal(raw, &given)
	}
	if err != nil {
		return nil, "", denied("the token cannot be read: %w", err)
	}
	out := http.Header{}
	for k, values := range given {
		name := http.CanonicalHeaderKey(k)
		if slices.Contains(passed(), name) {
			if len(values) != 1 || out[name] != nil {
				return nil, "", denied("the header %s occurs more than once", name)
			}
			out[name] = values
		}
	}
	parts := authorization.FindStringSubmatch(out.Get("Authorization"))
	if parts == nil {
		return nil, "", denied("the token holds no signature")
	}
	all := strings.Split(strings.ToLower(parts[1]), ";")
	for _, need := range []string{"host", strings.ToLower(hashHeader)} {
		if !slices.Contains(all, need) {
			return nil, "", denied("the header %s is not signed", need)
		}
	}
	return out, parts[2], nil
}

// caller asks AWS for whom a request is signed.
func (v *Verifier) caller(ctx context.Context, header http.Header) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Endpoint, strings.NewReader(question))
	if err != nil {
		return "", fmt.Errorf("ask AWS who signed: %w", err)
	}
	req.Header = header
	resp, err := v.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask AWS who signed: %w", err)
	}
	var answer struct {
		XMLName xml.Name `xml:"GetCallerIdentityResponse"`
		ARN     string   `xml:"GetCallerIdentityResult>Arn"`
	}
	err = awsquery.Read(resp, &answer)
	var said *awsquery.Error
	switch {
	case errors.As(err, &said) && said.Status/100 == 4 && !fault.Is(err, fault.Throttled):
		return "", denied("AWS does not accept the signature: %w", err)
	case err != nil:
		return "", fmt.Errorf("ask AWS who signed: %w", err)
	}
	if answer.ARN == "" {
		return "", errors.New("ask AWS who signed: the answer names no identity")
	}
	return answer.ARN, nil
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// machine is the instance that has assumed a role of the cluster's machines: the
// name of the session is its identifier.
func (v *Verifier) machine(arn string) (role, id string, err error) {
	parts := strings.SplitN(arn, ":", 6) // arn:PARTITION:sts::ACCOUNT:assumed-role/ROLE/SESSION
	if len(parts) != 6 || parts[2] != "sts" {
		return "", "", denied("%s is not an assumed role", arn)
	}
	if parts[1] != v.Partition || parts[4] != v.Account {
		return "", "", denied("%s is of another account", arn)
	}
	name := strings.Split(parts[5], "/")
	switch {
	case len(name) != 3 || name[0] != "assumed-role":
		return "", "", denied("%s is not an assumed role", arn)
	case !slices.Contains(v.Roles, name[1]):
		return "", "", denied("the role %s is not used by this cluster's machines", name[1])
	case !instanceID.MatchString(name[2]):
		return "", "", denied("%s is not a machine", arn)
	}
	return name[1], name[2], nil
}

// first reports whether a signature is new.
func (v *Verifier) first(signature string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.Now()
	for s, t := range v.seen {
		if t.Before(now) {
			delete(v.seen, s)
		}
	}
	if _, ok := v.seen[signature]; ok {
		return false
	}
	if v.seen == nil {
		v.seen = map[string]time.Time{}
	}
	v.seen[signature] = now.Add(2 * validity) // a clock may run ahead as far as behind
	return true
}
