// Package open defines how every program opens stores: one list of schemes, configured
// by the same environment variables. Programs differ in Account only.
//
// It must not read the environment, nor link any cloud's SDK except the S3 client:
// programs that every machine downloads use it to open stores.
package open

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/web"
)

// Options configure the stores that a program opens. Env is required.
type Options struct {
	// Env returns an environment variable, or "", as os.Getenv does.
	Env func(string) string
	// HTTP sends all requests; nil: each store has a client of its own.
	HTTP *http.Client
	// Keys provides the keys for the server at S3_ENDPOINT if the environment has none; it is
	// called when they are first needed. nil: there are no others.
	Keys Account
	// Account provides the credentials for AWS if the environment has none; it is
	// called when they are first needed. nil: there are no others.
	Account Account
	// Proofs makes stores test that S3 servers other than Amazon's enforce the conditions
	// of writes. Programs on machines rely on the test by the command line.
	Proofs bool
}

// Account provides credentials.
type Account = aws.CredentialsProvider

// RefreshingAccount calls ask for new credentials after each period.
func RefreshingAccount(period time.Duration, ask func(context.Context) (id, secret, token string, err error)) Account {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		id, secret, token, err := ask(ctx)
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, CanExpire: true, Expires: time.Now().Add(period)}, err
	})
}

// Backends lists the backends that every program opens: folders, S3 servers, and web servers. Programs
// of users add those in package user, and programs of machines those that their platforms bring, see
// onmachine.Stores.
func Backends(o Options) store.Backends {
	buckets := o.s3()
	return store.Backends{store.Folders(), s3.Backend(buckets), s3.Compatible(buckets), web.Backend(o.HTTP)}
}

// s3 returns how to reach buckets: at S3_ENDPOINT, or at AWS itself. The account for
// AWS is useless to another provider's server, and must not be disclosed to it.
func (o Options) s3() s3.Config {
	c := s3.Config{Endpoint: o.Env("S3_ENDPOINT"), Region: o.Env("S3_REGION"), ACL: strings.TrimSpace(o.Env("KOPS_STATE_S3_ACL")),
		Unproven: !o.Proofs || o.Env("KOPS_STATE_S3_WITHOUT_LOCKS") == "true"}
	if o.HTTP != nil {
		c.HTTPClient = o.HTTP
	}
	if c.Endpoint != "" {
		c.Credentials = missingCredentials("S3_ENDPOINT is set, and there are no credentials for it", "set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
		switch id, secret := o.Env("S3_ACCESS_KEY_ID"), o.Env("S3_SECRET_ACCESS_KEY"); {
		case id != "" && secret != "":
			c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, "")
		case o.Keys != nil:
			c.Credentials = aws.NewCredentialsCache(o.Keys)
		}
		return c
	}
	c.Endpoint = o.Env("AWS_ENDPOINT_URL")
	if c.Region == "" {
		c.Region = Region(o.Env)
	}
	switch own := Credentials(o.Env); {
	case own != nil:
		c.Credentials = own
	case o.Account != nil:
		c.Credentials = aws.NewCredentialsCache(o.Account)
	default:
		c.Credentials = missingCredentials("there are no credentials for AWS", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return c
}

// Region returns the AWS region set in the environment, or "".
func Region(env func(string) string) string {
	if r := env("AWS_REGION"); r != "" {
		return r
	}
	return env("AWS_DEFAULT_REGION")
}

// Credentials returns the AWS credentials in the environment, or nil if there are none.
func Credentials(env func(string) string) aws.CredentialsProvider {
	id, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil
	}
	return credentials.NewStaticCredentialsProvider(id, secret, env("AWS_SESSION_TOKEN"))
}

// missingCredentials returns credentials that always fail, with the error for requests that need them.
func missingCredentials(what, remedy string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, fault.Wrap(fault.Denied, errors.New(what), remedy)
	})
}
