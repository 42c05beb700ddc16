package main

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/platform/aws/awsquery"
)

func TestAWSIsAskedAsItsConfigurationSays(t *testing.T) {
	cfg := aws.Config{Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "token")}
	c := client(cfg, "eu-west-1")
	key, err := c.Credentials(t.Context())
	if want := (awsquery.Credentials{ID: "id", Secret: "secret", Token: "token"}); err != nil || key != want {
		t.Errorf("the credentials are %+v, %v", key, err)
	}
	if c.HTTP == nil || c.Endpoint != "" || c.Region != "eu-west-1" {
		t.Errorf("got %+v", c)
	}
	cfg.BaseEndpoint, cfg.HTTPClient = aws.String("http://127.0.0.1:5000"), http.DefaultClient
	if c := client(cfg, "eu-west-1"); c.HTTP != http.DefaultClient || c.Endpoint != "http://127.0.0.1:5000" {
		t.Errorf("got %+v", c)
	}
}
