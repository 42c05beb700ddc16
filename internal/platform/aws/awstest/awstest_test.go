package awstest_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
)

func TestMotoForgetsOnReset(t *testing.T) {
	server := awstest.Moto(t)
	p := awstest.Proxy(t, server.URL)
	server.Bucket(t, "state")
	server.Bucket(t, "state") // an existing bucket is fine
	cfg := server.S3()
	cfg.Endpoint = p.URL
	s, err := store.Backends{s3.Backend(cfg)}.Open(t.Context(), "s3://state")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := p.Report(); got != "     1 s3.PutObject\n" {
		t.Errorf("through the proxy went:\n%s", got)
	}
	server.Reset(t)
	if _, _, err := s.Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("after the reset: %v", err)
	}
}
