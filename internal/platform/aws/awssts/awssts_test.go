package awssts

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
)

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

var role = awsquery.Credentials{ID: "AKIDEXAMPLE", Secret: "secret", Token: "token"}

// sts emulates AWS: it computes the signature with the SDK's own signer,
// and answers with the given ARN.
func sts(t *testing.T, arn string) (*httptest.Server, *int) {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		body, _ := io.ReadAll(r.Body)
		given := r.Header.Get("Authorization")
		again, _ := http.NewRequest("POST", "http://"+r.Host+"/", strings.NewReader(string(body)))
		for _, n := range []string{"Content-Type", hashHeader} {
			again.Header.Set(n, r.Header.Get(n))
		}
		again.ContentLength = 0 // the signer includes a known length in the signature
		at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		sum := sha256.Sum256(body)
		err := v4.NewSigner().SignHTTP(r.Context(), aws.Credentials{AccessKeyID: role.ID, SecretAccessKey: role.Secret, SessionToken: role.Token}, again, hex.EncodeToString(sum[:]), "sts", "us-east-1", at)
		if err != nil || string(body) != question || strings.ReplaceAll(given, " ", "") != strings.ReplaceAll(again.Header.Get("Authorization"), " ", "") {
			w.WriteHeader(403)
			_, _ = fmt.Fprint(w, "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error></ErrorResponse>")
			return
		}
		_, _ = fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>%s</Arn><UserId>AROA:i</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`, arn)
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// fleet maps identifiers to instances.
type fleet map[string]Instance

func (f fleet) Instance(_ context.Context, id string) (Instance, error) {
	if i, ok := f[id]; ok {
		return i, nil
	}
	return Instance{}, fault.New(fault.Gone, "no instance %s", id)
}

const good = "arn:aws:sts::123456789012:assumed-role/nodes.c.example.com/i-0123456789abcdef0"

func newPair(t *testing.T, arn string) (*Verifier, Prover, *int) {
	t.Helper()
	s, asked := sts(t, arn)
	v := &Verifier{Endpoint: s.URL + "/", HTTP: s.Client(), Account: "123456789012", Partition: "aws", Roles: []string{"nodes.c.example.com"}, Now: noon,
		Instances: fleet{"i-0123456789abcdef0": {NodeName: "i-0123456789abcdef0", Group: "nodes", Names: []string{"10.0.0.4"}}, "i-00000000": {NodeName: "x"}}}
	return v, Prover{Endpoint: s.URL + "/", Region: "us-east-1", Now: noon, Credentials: func(context.Context) (awsquery.Credentials, error) { return role, nil }}, asked
}

func proveBody(t *testing.T, p Prover, body string) string {
	t.Helper()
	token, err := p.Prove(t.Context(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Requests to AWS before anything is proven are limited for all senders together, and one sender
// leaves half of them to the others.
func TestForgedTokensCostLittleOfTheQuota(t *testing.T) {
	v, p, asked := newPair(t, good)
	p.Credentials = func(context.Context) (awsquery.Credentials, error) {
		return awsquery.Credentials{ID: "AKIDOTHER", Secret: "x"}, nil
	}
	now, busy, all := noon(), 0, 0
	v.Now = func() time.Time { return now }
	token := proveBody(t, p, "body")
	for range 3 {
		for range lookupBurst {
			all++
			if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")}); errors.Is(err, bootstrap.ErrBusy) {
				busy++
			}
		}
		now = now.Add(time.Second)
	}
	if *asked != lookupBurst/2+2*lookupsPerSecond || busy != all-*asked {
		t.Errorf("%d questions for %d forged tokens, %d put off", *asked, all, busy)
	}
	other := bootstrap.Proof{Token: token, Body: []byte("body"), Sender: netip.MustParsePrefix("10.0.0.9/32")}
	if _, err := v.Verify(t.Context(), other); errors.Is(err, bootstrap.ErrBusy) {
		t.Error("another sender is put off")
	}
}

func TestAMachineProvesItsRole(t *testing.T) {
	v, p, _ := newPair(t, good)
	id, err := v.Verify(t.Context(), bootstrap.Proof{Token: proveBody(t, p, "body"), Body: []byte("body")})
	if err != nil || id.NodeName != "i-0123456789abcdef0" || id.InstanceGroup != "nodes" || len(id.Names) != 1 {
		t.Fatalf("got %+v, %v", id, err)
	}
	same := proveBody(t, p, "body")
	spaced := withHeaders(t, same, func(h http.Header) { h.Set("Authorization", strings.ReplaceAll(h.Get("Authorization"), ", ", ",")) })
	for name, token := range map[string]string{"the same": same, "the same, which AWS reads alike": spaced} {
		if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")}); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "already used") {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

func TestIdentitiesOutsideTheClusterAreRefused(t *testing.T) {
	for arn, says := range map[string]string{
		"arn:aws:sts::999999999999:assumed-role/nodes.c.example.com/i-0123456789abcdef0":    "another account",
		"arn:aws-cn:sts::123456789012:assumed-role/nodes.c.example.com/i-0123456789abcdef0": "another account",
		"arn:aws:sts::123456789012:assumed-role/nodes.other.com/i-0123456789abcdef0":        "is not used by this cluster's machines",
		"arn:aws:sts::123456789012:assumed-role/nodes.c.example.com/somebody":               "is not a machine",
		"arn:aws:sts::123456789012:federated-user/somebody":                                 "not an assumed role",
		"arn:aws:iam::123456789012:user/somebody":                                           "not an assumed role",
		"arn:aws:sts::123456789012:assumed-role/nodes.c.example.com/i-0f0f0f0f0f0f0f0f0":    "no machine i-0f0f0f0f0f0f0f0f0",
		"arn:aws:sts::123456789012:assumed-role/nodes.c.example.com/i-00000000":             "no instance group",
	} {
		v, p, _ := newPair(t, arn)
		_, err := v.Verify(t.Context(), bootstrap.Proof{Token: proveBody(t, p, "body"), Body: []byte("body")})
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", arn, err, says)
		}
	}
}

// A caller that may assume the role but is not an instance can name its
// session after another instance.
func TestTheInstanceHasTheProfileOfTheRole(t *testing.T) {
	const id = "i-0123456789abcdef0"
	for name, tt := range map[string]struct {
		profile  string
		profiles map[string]string
		denied   bool
	}{
		"its profile gives the role":         {"shared", map[string]string{"shared": "nodes.c.example.com"}, false},
		"its profile gives another role":     {"masters.c.example.com", map[string]string{"masters.c.example.com": "masters.c.example.com"}, true},
		"its profile is not of the cluster":  {"elsewhere", map[string]string{"shared": "nodes.c.example.com"}, true},
		"it has no profile":                  {"", map[string]string{"shared": "nodes.c.example.com"}, true},
		"the cluster's profiles are unknown": {"elsewhere", nil, false},
	} {
		v, p, _ := newPair(t, good)
		v.Profiles, v.Instances = tt.profiles, fleet{id: {NodeName: id, Group: "nodes", Profile: tt.profile}}
		_, err := v.Verify(t.Context(), bootstrap.Proof{Token: proveBody(t, p, "body"), Body: []byte("body")})
		if fault.Is(err, fault.Denied) != tt.denied || tt.denied && !strings.Contains(err.Error(), "does not contain the role nodes.c.example.com") || !tt.denied && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withHeaders returns a token with changed headers.
func withHeaders(t *testing.T, token string, change func(http.Header)) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, Scheme))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	change(h)
	raw, err = json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return Scheme + base64.StdEncoding.EncodeToString(raw)
}

func TestTokensThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(http.Header)
		body   string
		says   string
		asks   int
	}{
		"another body":   {func(http.Header) {}, "changed", "for another request", 0},
		"a changed hash": {func(h http.Header) { h.Set(hashHeader, bodyHash([]byte("changed"))) }, "changed", "SignatureDoesNotMatch", 1},
		"no signature":   {func(h http.Header) { h.Del("Authorization") }, "body", "no signature", 0},
		"a hash that is unsigned": {func(h http.Header) {
			h.Set("Authorization", strings.Replace(h.Get("Authorization"), ";x-kops-request-sha", "", 1))
		}, "body", "x-kops-request-sha is not signed", 0},
		"a header twice": {func(h http.Header) { h["x-kops-request-sha"] = []string{"x"} }, "body", "more than once", 0},
		"another key": {func(h http.Header) {
			h.Set("Authorization", strings.Replace(h.Get("Authorization"), "AKID", "AKIX", 1))
		}, "body", "SignatureDoesNotMatch", 1},
		"a second signature": {func(h http.Header) {
			h.Set("Authorization", h.Get("Authorization")+", Signature="+strings.Repeat("0", 64))
		}, "body", "no signature", 0},
	} {
		v, p, asked := newPair(t, good)
		_, err := v.Verify(t.Context(), bootstrap.Proof{Token: withHeaders(t, proveBody(t, p, "body"), tt.change), Body: []byte(tt.body)})
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tt.says) || *asked != tt.asks {
			t.Errorf("%s: got %v after %d questions to AWS, want %q", name, err, *asked, tt.says)
		}
	}
	v, _, _ := newPair(t, good)
	for _, token := range []string{"", "x-pki-tpm e30=", Scheme + "%", Scheme + "e30="} {
		if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: token}); !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestTroubleWithAWSIsNoDenial(t *testing.T) {
	v, p, _ := newPair(t, good)
	v.Instances = failingInstances{}
	if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: proveBody(t, p, "body"), Body: []byte("body")}); err == nil || fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	v, p, _ = newPair(t, good)
	token := proveBody(t, p, "body")
	v.Endpoint = "http://127.0.0.1:1/"
	if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")}); err == nil || fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}

func TestAnswersOfAWSThatAreNoDenial(t *testing.T) {
	for _, tt := range []struct {
		status       int
		answer, says string
		denied       bool
	}{
		{400, "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>", "400 Bad Request: Throttling: Rate exceeded", false},
		{429, "", "429 Too Many Requests", false},
		{503, "", "503 Service Unavailable", false},
		{200, "<GetCallerIdentityResponse/>", "the response contains no identity", false},
		{200, "<html>", "cannot parse", false},
		{400, "<ErrorResponse><Error><Code>IncompleteSignature</Code><Message>no</Message></Error></ErrorResponse>", "IncompleteSignature: no", true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.answer)
		}))
		v, p, _ := newPair(t, good)
		v.Endpoint = s.URL
		_, err := v.Verify(t.Context(), bootstrap.Proof{Token: proveBody(t, p, "body"), Body: []byte("body")})
		if err == nil || fault.Is(err, fault.Denied) != tt.denied || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%d %s: %v", tt.status, tt.answer, err)
		}
		s.Close()
	}
}

// failingInstances fails every lookup.
type failingInstances struct{}

func (failingInstances) Instance(context.Context, string) (Instance, error) {
	return Instance{}, errors.New("throttled")
}
