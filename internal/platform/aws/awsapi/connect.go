package awsapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"kops.local/kops/internal/engine/fault"
)

// Config specifies how to reach AWS. For empty fields, the default chain of the AWS SDK applies: it
// reads the AWS_* variables of the environment and the files in ~/.aws, as every AWS tool does.
type Config struct {
	// Region is the region of every client.
	Region string
	// Endpoint, when not empty, is the URL that serves all services, for an emulator.
	Endpoint string
	// Credentials, when not nil, are used as they are.
	Credentials aws.CredentialsProvider
	// Profile is a profile of the shared configuration files.
	Profile string
	// RoleARN, when not empty, is a role to assume with the credentials.
	RoleARN string
	// HTTPClient, when not nil, sends the requests; it must then handle AWS_CA_BUNDLE.
	HTTPClient aws.HTTPClient
	// UserAgent is the name of this program, and UserAgentVersion its version, in the requests' User-Agent.
	UserAgent, UserAgentVersion string
}

// Connect creates the clients. It sends no request; assuming a role or finding credentials may send
// some before the first request.
func Connect(ctx context.Context, c Config) (*Clients, error) {
	cfg, err := c.load(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("read the AWS configuration: %w", err),
			"check AWS_PROFILE and the files ~/.aws/config and ~/.aws/credentials")
	}
	if cfg.Region == "" {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("no AWS region is set"), "set AWS_REGION, or the region of the profile")
	}
	if c.HTTPClient != nil {
		cfg.HTTPClient = c.HTTPClient
	}
	cfg.HTTPClient = patientClient{cfg.HTTPClient}
	if c.RoleARN != "" {
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), c.RoleARN))
	}
	cfg.Credentials = classifyingCredentials{cfg.Credentials}
	speaks := func(service, host, target, version string) *JSON {
		return &JSON{config: cfg, userAgent: c.UserAgent + "/" + c.UserAgentVersion, service: service, host: host, target: target, version: version}
	}
	return &Clients{
		EC2:         ec2.NewFromConfig(cfg),
		AutoScaling: autoscaling.NewFromConfig(cfg),
		ELB:         elb.NewFromConfig(cfg),
		ClassicELB:  classic.NewFromConfig(cfg),
		IAM:         iam.NewFromConfig(cfg),
		SQS:         speaks("SQS", "sqs", "AmazonSQS", "1.0"),
		Events:      speaks("EventBridge", "events", "AWSEvents", "1.1"),
		Route53:     route53.NewFromConfig(cfg),
		STS:         sts.NewFromConfig(cfg),
		S3:          s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil }),
		SSM:         speaks("SSM", "ssm", "AmazonSSM", "1.1"),
		Quotas:      speaks("Service Quotas", "servicequotas", "ServiceQuotasV20190624", "1.1"),
		Region:      cfg.Region,
	}, nil
}

// load returns the SDK's configuration. If region, endpoint and
// credentials are all set, it does not read the user's own configuration,
// whose profile, region and endpoints would be for another account.
func (c Config) load(ctx context.Context) (aws.Config, error) {
	if c.Region == "" || c.Endpoint == "" || c.Credentials == nil {
		return config.LoadDefaultConfig(ctx, c.options()...)
	}
	var o config.LoadOptions
	for _, set := range c.options() {
		if err := set(&o); err != nil {
			return aws.Config{}, err
		}
	}
	return aws.Config{Region: o.Region, BaseEndpoint: &o.BaseEndpoint, Credentials: o.Credentials, HTTPClient: o.HTTPClient,
		Retryer: o.Retryer, Logger: o.Logger, APIOptions: o.APIOptions}, nil
}

func (c Config) options() []func(*config.LoadOptions) error {
	out := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newHTTPClient()),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithLogger(logging.Nop{}), // errors contain all that matters
		config.WithAPIOptions([]func(*middleware.Stack) error{classErrors}),
	}
	if c.Region != "" {
		out = append(out, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		out = append(out, config.WithSharedConfigProfile(c.Profile))
	}
	if c.Endpoint != "" {
		out = append(out, config.WithBaseEndpoint(c.Endpoint))
	}
	if c.Credentials != nil {
		out = append(out, config.WithCredentialsProvider(c.Credentials))
	}
	if c.Endpoint != "" || c.Credentials != nil {
		// The machine's metadata service would be waited for in vain.
		out = append(out, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	if c.UserAgent != "" {
		out = append(out, config.WithAPIOptions([]func(*middleware.Stack) error{
			awsmiddleware.AddUserAgentKeyValue(c.UserAgent, c.UserAgentVersion)}))
	}
	return out
}

// newHTTPClient returns a client that keeps enough connections open for all concurrent calls. It is
// the SDK's own client, which supports AWS_CA_BUNDLE and the environment's proxy settings.
func newHTTPClient() aws.HTTPClient {
	const connections = 128
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
		t.ResponseHeaderTimeout = 60 * time.Second
	}).WithDialerOptions(func(d *net.Dialer) { d.Timeout = 10 * time.Second })
}

// patientClient lets the SDK close request bodies as soon as the response arrives. When a whole body was
// sent, the transport checks whether there is more of it: on a closed body, the SDK's WriteTo then
// fails with io.EOF, and the transport closes the connection with the unread rest of the response.
// Read ends normally, and patient hides all other methods.
type patientClient struct{ aws.HTTPClient }

func (p patientClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.HTTPClient.Do(r)
}

// classifyingCredentials gives errors from finding credentials a class and a remedy.
type classifyingCredentials struct{ aws.CredentialsProvider }

func (c classifyingCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = fault.Wrap(fault.Denied, fmt.Errorf("find AWS credentials: %w", err), remedyCredentials)
	}
	return got, err
}

// Identify looks up the caller's identity, and sets AccountID and Partition.
func (c *Clients) Identify(ctx context.Context) error {
	who, err := c.STS.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return fmt.Errorf("get the AWS caller identity: %w", err)
	}
	a, err := arn.Parse(aws.ToString(who.Arn))
	if err != nil {
		return fmt.Errorf("get the AWS caller identity: %w", err)
	}
	c.AccountID, c.Partition = aws.ToString(who.Account), a.Partition
	return nil
}
