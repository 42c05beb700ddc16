// Package awssts proves the identity of a machine on AWS by its role: the machine signs, but does
// not send, a request to AWS' token service, and the controller sends it and receives the identity
// of the signer. The signature covers a hash of the machine's request to the controller.
//
// It must not link the AWS SDK: it needs only one request. It must not know where a machine gets
// its credentials.
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
	// Scheme is the prefix of a token.
	Scheme = "x-aws-sts "
	// hashHeader is a signed header with the hash of the request to the controller.
	hashHeader = "X-Kops-Request-Sha"
	// question is the body of the signed request (AWS STS API, GetCallerIdentity).
	question = "Action=GetCallerIdentity&Version=2011-06-15"
	// validity is how long AWS accepts a signature (AWS, "Signature Version 4").
	validity = 15 * time.Minute
)

// bodyHash returns the value of hashHeader.
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
	// Profile is the name of its instance profile; "" if it has none.
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

// lookupsPerSecond and lookupBurst limit the requests to AWS that are sent before anything is proven:
// AWS allows about 600 a second for the whole account and region.
const lookupsPerSecond, lookupBurst = 25, 500

// Verifier asks AWS who signed a request.
type Verifier struct {
	// Endpoint is the token service of the region, such as https://sts.us-east-1.amazonaws.com/.
	Endpoint string
	// HTTP sends the signed request; it must not follow redirects.
	HTTP *http.Client
	// Account and Partition are the controller's own.
	Account, Partition string
	// Roles are the names of the IAM roles of the cluster's machines.
	Roles []string
	// Profiles maps the names of the instance profiles of the cluster's machines to the roles in
	// them; nil if they are not known, and not compared. A role may trust principals other than
	// instances, and these can choose any instance's name for their session.
	Profiles  map[string]string
	Instances Instances
	Now       func() time.Time

	lookups bootstrap.Bucket

	mu   sync.Mutex
	seen map[string]time.Time // signatures, until they have certainly expired
}

var _ bootstrap.Verifier = (*Verifier)(nil)

func deniedError(format string, args ...any) error {
	return fault.New(fault.Denied, "the identity is not proven: "+format, args...)
}

// Verify asks AWS who signed a token, and looks up that machine.
func (v *Verifier) Verify(ctx context.Context, p bootstrap.Proof) (bootstrap.Identity, error) {
	var none bootstrap.Identity
	header, signature, err := parseToken(p.Token)
	if err != nil {
		return none, err
	}
	if subtle.ConstantTimeCompare([]byte(header.Get(hashHeader)), []byte(bodyHash(p.Body))) != 1 {
		return none, deniedError("the signature is for another request")
	}
	if !v.lookups.Take(v.Now(), p.Sender, lookupsPerSecond, lookupBurst) {
		return none, bootstrap.ErrBusy
	}
	arn, err := v.callerARN(ctx, header)
	if err != nil {
		return none, err
	}
	role, id, err := v.parseARN(arn)
	if err != nil {
		return none, err
	}
	if !v.isNew(signature) {
		return none, deniedError("the proof was already used")
	}
	i, err := v.Instances.Instance(ctx, id)
	switch {
	case fault.Is(err, fault.Gone):
		return none, deniedError("the cluster has no machine %s", id)
	case err != nil:
		return none, fmt.Errorf("look up the machine %s: %w", id, err)
	case i.Group == "":
		return none, deniedError("the machine %s belongs to no instance group", id)
	case v.Profiles != nil && v.Profiles[i.Profile] != role:
		return none, deniedError("the instance profile of the machine %s is %q, which does not contain the role %s", id, i.Profile, role)
	}
	return bootstrap.Identity{NodeName: i.NodeName, InstanceGroup: i.Group, Names: i.Names}, nil
}

// forwardedHeaders lists the headers that are sent on; a token cannot add others.
func forwardedHeaders() []string {
	return []string{"Authorization", "Content-Type", "User-Agent", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256", hashHeader,
		"Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"}
}

// authorization matches the Authorization header. AWS also accepts it with different spaces, so
// replays are recognized by the signature only.
var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 +Credential=[^,\s]+, *SignedHeaders=([^,\s]+), *Signature=([0-9a-f]{64})$`)

// parseToken returns the headers of a signed request, and the signature among them.
func parseToken(token string) (header http.Header, signature string, err error) {
	encoded, ok := strings.CutPrefix(token, Scheme)
	if !ok {
		return nil, "", deniedError("the token is not of type %q", strings.TrimSpace(Scheme))
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	given := http.Header{}
	if err == nil {
		err = json.Unmarshal(raw, &given)
	}
	if err != nil {
		return nil, "", deniedError("cannot decode the token: %w", err)
	}
	out := http.Header{}
	for k, values := range given {
		name := http.CanonicalHeaderKey(k)
		if slices.Contains(forwardedHeaders(), name) {
			if len(values) != 1 || out[name] != nil {
				return nil, "", deniedError("the header %s occurs more than once", name)
			}
			out[name] = values
		}
	}
	parts := authorization.FindStringSubmatch(out.Get("Authorization"))
	if parts == nil {
		return nil, "", deniedError("the token contains no signature")
	}
	all := strings.Split(strings.ToLower(parts[1]), ";")
	for _, need := range []string{"host", strings.ToLower(hashHeader)} {
		if !slices.Contains(all, need) {
			return nil, "", deniedError("the header %s is not signed", need)
		}
	}
	return out, parts[2], nil
}

// callerARN requests the ARN of a request's signer from AWS.
func (v *Verifier) callerARN(ctx context.Context, header http.Header) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Endpoint, strings.NewReader(question))
	if err != nil {
		return "", fmt.Errorf("verify the signature with AWS: %w", err)
	}
	req.Header = header
	resp, err := v.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("verify the signature with AWS: %w", err)
	}
	var answer struct {
		XMLName xml.Name `xml:"GetCallerIdentityResponse"`
		ARN     string   `xml:"GetCallerIdentityResult>Arn"`
	}
	err = awsquery.Read(resp, &answer)
	var said *awsquery.Error
	switch {
	case errors.As(err, &said) && said.Status/100 == 4 && !fault.Is(err, fault.Throttled):
		return "", deniedError("AWS rejected the signature: %w", err)
	case err != nil:
		return "", fmt.Errorf("verify the signature with AWS: %w", err)
	}
	if answer.ARN == "" {
		return "", errors.New("verify the signature with AWS: the response contains no identity")
	}
	return answer.ARN, nil
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// parseARN returns the role and the instance in the ARN of an assumed role, which must be a role of
// the cluster's machines. The session's name is the instance's identifier.
func (v *Verifier) parseARN(arn string) (role, id string, err error) {
	parts := strings.SplitN(arn, ":", 6) // arn:PARTITION:sts::ACCOUNT:assumed-role/ROLE/SESSION
	if len(parts) != 6 || parts[2] != "sts" {
		return "", "", deniedError("%s is not an assumed role", arn)
	}
	if parts[1] != v.Partition || parts[4] != v.Account {
		return "", "", deniedError("%s belongs to another account", arn)
	}
	name := strings.Split(parts[5], "/")
	switch {
	case len(name) != 3 || name[0] != "assumed-role":
		return "", "", deniedError("%s is not an assumed role", arn)
	case !slices.Contains(v.Roles, name[1]):
		return "", "", deniedError("the role %s is not used by this cluster's machines", name[1])
	case !instanceID.MatchString(name[2]):
		return "", "", deniedError("%s is not a machine", arn)
	}
	return name[1], name[2], nil
}

// isNew reports whether a signature is new.
func (v *Verifier) isNew(signature string) bool {
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
	v.seen[signature] = now.Add(2 * validity) // clocks may be ahead as well as behind
	return true
}
