package awssts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/bootstrap"
)

// Credentials are those of a machine's role; the instance metadata service has them.
type Credentials struct{ ID, Secret, Token string }

// Prover signs with the credentials of the machine's role.
type Prover struct {
	// Endpoint and Region are those of the token service that the controller asks.
	Endpoint, Region string
	Credentials      func(ctx context.Context) (Credentials, error)
	Now              func() time.Time
}

var _ bootstrap.Prover = Prover{}

// Prove signs a request to the token service that holds the body's hash.
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
	sign(h, endpoint.Host, p.Region, c, p.Now().UTC())
	text, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("prove the identity of this machine: %w", err)
	}
	return Scheme + base64.StdEncoding.EncodeToString(text), nil
}

// sign adds the signature of a POST of question to /, by AWS' Signature Version
// 4, over all headers and the host.
func sign(h http.Header, host, region string, c Credentials, now time.Time) {
	h.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	if c.Token != "" {
		h.Set("X-Amz-Security-Token", c.Token)
	}
	values := map[string]string{"host": host}
	names := []string{"host"}
	for k := range h {
		name := strings.ToLower(k)
		names, values[name] = append(names, name), h.Get(k)
	}
	slices.Sort(names)
	canonical := "POST\n/\n\n"
	for _, n := range names {
		canonical += n + ":" + strings.TrimSpace(values[n]) + "\n"
	}
	signed := strings.Join(names, ";")
	canonical += "\n" + signed + "\n" + hexSum(question)
	scope := now.Format("20060102") + "/" + region + "/sts/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + h.Get("X-Amz-Date") + "\n" + scope + "\n" + hexSum(canonical)
	key := []byte("AWS4" + c.Secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	h.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.ID+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac(key, text)))
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = m.Write([]byte(text)) // a hash never fails
	return m.Sum(nil)
}
