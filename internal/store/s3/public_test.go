package s3_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
)

// The server supports ACLs of objects. It also lets anonymous users list them.
func TestEverybodyReadsWhatIsPublicAndNothingElse(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "issuer")
	s := open(t, server.S3(), "s3://issuer/c.example.com")
	if public, err := s.About().Public(t.Context()); public || err != nil {
		t.Errorf("the bucket is public: %v, %v", public, err)
	}
	for key, o := range map[string]store.PutOptions{".well-known/openid-configuration": {PublicRead: true}, "openid/v1/jwks": {PublicRead: true}, "config": {}, "pki/key": {Private: true}} {
		if _, err := s.Put(t.Context(), key, []byte(key), o); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]int{".well-known/openid-configuration": 200, "openid/v1/jwks": 200, "config": 403, "pki/key": 403} {
		if got := anonymous(t, server.URL+"/issuer/c.example.com/"+key); got != want {
			t.Errorf("everybody gets %d for %q, and not %d", got, key, want)
		}
	}
}

// The gateway accepts ACLs of objects but ignores them: permissions are the bucket's.
func TestAnObjectThatIsNotPublicIsReported(t *testing.T) {
	server := awstest.Versity(t)
	server.Bucket(t, "issuer")
	s := open(t, server.S3(), "s3://issuer/c.example.com")
	_, err := s.Put(t.Context(), "openid/v1/jwks", []byte("{}"), store.PutOptions{PublicRead: true})
	if err == nil || !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "s3:GetObject on s3://issuer/c.example.com/openid/v1/jwks") {
		t.Fatalf("%v; %s", err, fault.Remedy(err))
	}
	client := sdk.NewFromConfig(server.AWS(), func(o *sdk.Options) { o.UsePathStyle = true })
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
		"Resource":["arn:aws:s3:::issuer/c.example.com/openid/*","arn:aws:s3:::issuer/c.example.com/.well-known/*"]}]}`
	if _, err := client.PutBucketPolicy(t.Context(), &sdk.PutBucketPolicyInput{Bucket: aws.String("issuer"), Policy: &policy}); err != nil {
		t.Fatal(err)
	}
	for key, o := range map[string]store.PutOptions{".well-known/openid-configuration": {PublicRead: true}, "openid/v1/jwks": {PublicRead: true}, "pki/key": {Private: true}} {
		if _, err := s.Put(t.Context(), key, []byte("{}"), o); err != nil {
			t.Error(errors.Join(err, errors.New(fault.Remedy(err))))
		}
	}
	for key, want := range map[string]int{".well-known/openid-configuration": 200, "openid/v1/jwks": 200, "pki/key": 403} {
		if got := anonymous(t, server.URL+"/issuer/c.example.com/"+key); got != want {
			t.Errorf("everybody gets %d for %q, and not %d", got, key, want)
		}
	}
}

// anonymous returns the status of a request without credentials.
func anonymous(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() // only its status matters
	return r.StatusCode
}
