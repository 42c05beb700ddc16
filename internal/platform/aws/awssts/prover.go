package awssts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// Prover signs with the credentials of the machine's role.
type Prover struct {
	// Endpoint and Region identify the token service that the controller calls: the signature
	// covers its host name.
	Endpoint, Region string
	Credentials      func(ctx context.Context) (awsquery.Credentials, error)
	Now              func() time.Time
}

var _ bootstrap.Prover = Prover{}

// Prove signs a request to the token service that contains the body's hash.
func (p Prover) Prove(ctx context.Context, body []byte) (string, error) {
	c, err := p.Credentials(ctx)
	if err != nil {
		return "", fmt.Errorf("prove the identity of this machine: %w", err)
	}
	endpoint, err := url.Parse(p.Endpoint)
	if err != nil {
		return "", fmt.Errorf("prove the identity of this machine: %w", err)
	}
	h := http.Header{}
	h.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	h.Set(hashHeader, bodyHash(body))
	awsquery.Sign(h, endpoint, question, awsquery.Scope{Region: p.Region, Service: "sts"}, c, p.Now())
	text, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("prove the identity of this machine: %w", err)
	}
	return Scheme + base64.StdEncoding.EncodeToString(text), nil
}
