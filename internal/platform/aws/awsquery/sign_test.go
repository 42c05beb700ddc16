package awsquery_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/internal/platform/aws/awsquery"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// sdk returns the headers of a request that the SDK's own signer has signed.
func sdk(t *testing.T, h http.Header, to, body string, s awsquery.Scope, c awsquery.Credentials, at time.Time) http.Header {
	t.Helper()
	// The signer includes a request's declared length; ours is sent, but not signed.
	r, err := http.NewRequest(http.MethodPost, to, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h.Clone()
	sum := sha256.Sum256([]byte(body))
	key := aws.Credentials{AccessKeyID: c.ID, SecretAccessKey: c.Secret, SessionToken: c.Token}
	if err := v4.NewSigner().SignHTTP(t.Context(), key, r, hex.EncodeToString(sum[:]), s.Service, s.Region, at); err != nil {
		t.Fatal(err)
	}
	return r.Header
}

func TestSignaturesAreThoseOfTheSDK(t *testing.T) {
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}
	more := http.Header{"Content-Type": {"text/plain"}, "X-Kops-Request-Sha": {" spaced "}, "X-A": {""}}
	lasting, session := awsquery.Credentials{ID: "AKIDEXAMPLE", Secret: "se/cret+"}, awsquery.Credentials{ID: "ASIAEXAMPLE", Secret: "secret", Token: "tok/en=="}
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		header   http.Header
		to, body string
		scope    awsquery.Scope
		c        awsquery.Credentials
		at       time.Time
	}{
		{form, "https://ec2.eu-west-1.amazonaws.com/", "Action=DescribeVolumes&Version=2016-11-15", awsquery.Scope{Region: "eu-west-1", Service: "ec2"}, session, noon},
		{form, "https://ec2.eu-west-1.amazonaws.com", "", awsquery.Scope{Region: "eu-west-1", Service: "ec2"}, lasting, noon},
		{more, "http://127.0.0.1:5000/", "ä\n", awsquery.Scope{Region: "cn-north-1", Service: "sts"}, session, noon.In(time.FixedZone("", 13*3600))},
		{http.Header{}, "http://[::1]:5000/a%20b/%2F/c:d@e~f+g/", "x", awsquery.Scope{Region: "us-gov-west-1", Service: "autoscaling"}, lasting, noon.Add(12*time.Hour - time.Second)},
	} {
		got := x.header.Clone()
		awsquery.Sign(got, parse(t, x.to), x.body, x.scope, x.c, x.at)
		if want := sdk(t, x.header, x.to, x.body, x.scope, x.c, x.at); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: signed\n%v, want\n%v", x.to, got, want)
		}
	}
}

// TestThePublishedSignature is post-vanilla of the "AWS Signature Version 4 test suite".
func TestThePublishedSignature(t *testing.T) {
	h := http.Header{}
	awsquery.Sign(h, parse(t, "https://example.amazonaws.com/"), "", awsquery.Scope{Region: "us-east-1", Service: "service"},
		awsquery.Credentials{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
	if got := h.Get("Authorization"); !strings.HasSuffix(got, ", SignedHeaders=host;x-amz-date, Signature="+want) {
		t.Errorf("got %s", got)
	}
}

func TestEndpoints(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "https://sts.us-east-1.amazonaws.com/", "us-gov-west-1": "https://sts.us-gov-west-1.amazonaws.com/",
		"cn-north-1": "https://sts.cn-north-1.amazonaws.com.cn/", "us-iso-east-1": "https://sts.us-iso-east-1.c2s.ic.gov/", "us-isob-east-1": "https://sts.us-isob-east-1.sc2s.sgov.gov/",
		"us-isof-south-1": "https://sts.us-isof-south-1.csp.hci.ic.gov/", "eu-isoe-west-1": "https://sts.eu-isoe-west-1.cloud.adc-e.uk/", "eusc-de-east-1": "https://sts.eusc-de-east-1.amazonaws.eu/"} {
		got := awsquery.Endpoint("sts", region)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		sdk, err := sts.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), sts.EndpointParameters{Region: &region, UseDualStack: aws.Bool(false), UseFIPS: aws.Bool(false), UseGlobalEndpoint: aws.Bool(false)})
		if err != nil || strings.TrimSuffix(got, "/") != strings.TrimSuffix(sdk.URI.String(), "/") {
			t.Errorf("got %s, the SDK has %s, %v", got, sdk.URI.String(), err)
		}
	}
	for region, want := range map[string]string{"eu-west-1": "https://ec2.eu-west-1.amazonaws.com/", "cn-north-1": "https://ec2.cn-north-1.amazonaws.com.cn/"} {
		if got := awsquery.Endpoint("ec2", region); got != want {
			t.Errorf("%s is at %s", region, got)
		}
	}
}
