package world

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/s3"
)

func (o Options) region() string {
	if r := o.Env("AWS_REGION"); r != "" {
		return r
	}
	return o.Env("AWS_DEFAULT_REGION")
}

// s3 says how buckets are reached: as S3_ENDPOINT says, or as AWS itself.
func (o Options) s3() s3.Config {
	c := s3.Config{Endpoint: o.Env("S3_ENDPOINT"), Region: o.Env("S3_REGION"), ACL: strings.TrimSpace(o.Env("KOPS_STATE_S3_ACL")), HTTPClient: o.HTTP}
	if c.Endpoint != "" {
		c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, fault.Wrap(fault.Denied, errors.New("S3_ENDPOINT is set, and there are no credentials for it"), "set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
		})
		if id, secret := o.Env("S3_ACCESS_KEY_ID"), o.Env("S3_SECRET_ACCESS_KEY"); id != "" && secret != "" {
			c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, "")
		}
		return c
	}
	c.Endpoint, c.Credentials = o.Env("AWS_ENDPOINT_URL"), o.awsCredentials()
	if c.Region == "" {
		c.Region = o.region()
	}
	if c.Credentials == nil {
		c.Credentials = aws.NewCredentialsCache(lazyCredentials{})
	}
	return c
}

// awsCredentials are those of the environment; nil leaves them to the SDK's chain.
func (o Options) awsCredentials() aws.CredentialsProvider {
	id, secret := o.Env("AWS_ACCESS_KEY_ID"), o.Env("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil
	}
	return credentials.NewStaticCredentialsProvider(id, secret, o.Env("AWS_SESSION_TOKEN"))
}

// lazyCredentials ask the SDK's chain when they are first needed.
type lazyCredentials struct{}

func (lazyCredentials) Retrieve(ctx context.Context) (found aws.Credentials, err error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithLogger(logging.Nop{}))
	if err == nil {
		found, err = cfg.Credentials.Retrieve(ctx)
	}
	if err != nil && ctx.Err() == nil {
		// The cause is hidden: the answer of a metadata service is not that of the bucket.
		err = fault.Wrap(fault.Denied, fmt.Errorf("find AWS credentials: %v", err), //nolint:errorlint // see above
			"log in again (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return found, err
}
