// Package open is how every program opens stores: one list of schemes, reached as the
// same environment variables say. Programs differ in Account only.
//
// It must not read the environment, nor link a cloud's SDK besides the client of S3:
// the programs that every machine fetches open stores by it.
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
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/token"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/web"
)

// Options are what a program knows of the stores that it opens. Env is needed.
type Options struct {
	// Env returns an environment variable, or "", as os.Getenv does.
	Env func(string) string
	// HTTP sends all requests; nil: each store has a client of its own.
	HTTP *http.Client
	// Direct asks the machine's own metadata service, which a proxy would ask for
	// itself; nil: the program runs on no machine of a cloud.
	Direct *http.Client
	// Keys has the keys of the server at S3_ENDPOINT where the environment has none; it is called
	// when they are first needed. nil: there are no others.
	Keys Account
	// Account has the credentials for AWS where the environment has none; it is asked
	// when they are first needed. nil: there are no others.
	Account Account
	// Proofs says to prove that servers of S3 other than Amazon's keep the conditions of
	// writes. Programs of machines rely on what the command line has proved.
	Proofs bool
	// Token tells Google's storage who asks. nil: the account of the machine does, where
	// Direct asks for it.
	Token token.Source
}

// Account has credentials.
type Account = aws.CredentialsProvider

// AccountOf asks for credentials again as often as period says.
func AccountOf(period time.Duration, ask func(context.Context) (id, secret, token string, err error)) Account {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		id, secret, token, err := ask(ctx)
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, CanExpire: true, Expires: time.Now().Add(period)}, err
	})
}

// Backends lists what can be opened, and how.
func Backends(o Options) store.Backends {
	buckets := o.s3()
	return store.Backends{store.Folders(), s3.Backend(buckets), s3.Compatible(buckets), gs.Backend(o.gs()), web.Backend(o.HTTP)}
}

// s3 says how buckets are reached: as S3_ENDPOINT says, or as AWS itself. The account
// for AWS is of no use to the server of somebody else, and none of its business.
func (o Options) s3() s3.Config {
	c := s3.Config{Endpoint: o.Env("S3_ENDPOINT"), Region: o.Env("S3_REGION"), ACL: strings.TrimSpace(o.Env("KOPS_STATE_S3_ACL")),
		Unproven: !o.Proofs || o.Env("KOPS_STATE_S3_WITHOUT_LOCKS") == "true"}
	if o.HTTP != nil {
		c.HTTPClient = o.HTTP
	}
	if c.Endpoint != "" {
		c.Credentials = missing("S3_ENDPOINT is set, and there are no credentials for it", "set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
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
		c.Credentials = missing("there are no credentials for AWS", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return c
}

// gs returns how Google's buckets are reached: at STORAGE_EMULATOR_HOST, or at Google
// itself. An emulator knows no users, and gets no credentials.
func (o Options) gs() gs.Config {
	c := gs.Config{HTTP: o.HTTP, Endpoint: o.Env("STORAGE_EMULATOR_HOST"), Token: o.Token}
	switch {
	case c.Endpoint != "":
		c.Token = nil
	case c.Token == nil && o.Direct != nil:
		c.Token = token.Machine(o.Direct, o.Env("GCE_METADATA_HOST"))
	}
	return c
}

// Region is the one of AWS that the environment names, or "".
func Region(env func(string) string) string {
	if r := env("AWS_REGION"); r != "" {
		return r
	}
	return env("AWS_DEFAULT_REGION")
}

// Credentials are those for AWS that the environment holds; nil when it holds none.
func Credentials(env func(string) string) aws.CredentialsProvider {
	id, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil
	}
	return credentials.NewStaticCredentialsProvider(id, secret, env("AWS_SESSION_TOKEN"))
}

// missing is the error of each request that credentials are needed for.
func missing(what, remedy string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, fault.Wrap(fault.Denied, errors.New(what), remedy)
	})
}
