// Package vtpm proves an instance's identity by its virtual TPM: the attestation key, which never
// leaves the TPM, signs a hash of the machine's request to the controller, which gets the public
// key from Compute Engine. It is kOps' protocol for Google Cloud.
//
// It must not know where instances are looked up, nor link an SDK.
package vtpm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcerest"
)

// Scheme is the prefix of a token.
const Scheme = "x-gce-tpm "

// token is a claim and its signature: RSASSA PKCS #1 v1.5 over the SHA-256 of Data. Its text is the
// base64 of its JSON.
type token struct {
	Signature []byte `json:"signature"`
	Data      []byte `json:"data"`
}

// claim is what a machine signs, as JSON.
type claim struct {
	Project     string `json:"gcpProjectID"`
	Zone        string `json:"zone"`
	Instance    string `json:"instance"`
	RequestHash []byte `json:"requestHash"` // SHA-256 of the body
	Timestamp   int64  `json:"timestamp"`   // seconds since 1970
	Audience    string `json:"audience"`
}

// newClaim returns the claim for a request, as JSON.
func newClaim(m gcerest.Machine, body []byte, now time.Time) ([]byte, error) {
	hash := sha256.Sum256(body)
	return json.Marshal(claim{m.Project, m.Zone, m.Name, hash[:], now.Unix(), bootstrap.Audience})
}

// encode formats a token.
func (t token) encode() (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	return Scheme + base64.StdEncoding.EncodeToString(text), nil
}

// parse parses a token.
func parse(text string) (token, claim, error) {
	var t token
	var c claim
	encoded, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return t, c, deniedError("the token is not of type %q", strings.TrimSpace(Scheme))
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err == nil {
		err = json.Unmarshal(t.Data, &c)
	}
	if err != nil {
		return t, c, deniedError("cannot decode the token: %w", err)
	}
	return t, c, nil
}

func deniedError(format string, args ...any) error {
	return fault.Wrap(fault.Denied, fmt.Errorf("the identity is not proven: "+format, args...), "")
}
