package s3

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Config configures how to reach buckets.
type Config struct {
	// Endpoint is the URL of a server other than Amazon's, or its name, which is
	// reached by https; buckets are then part of the path. Empty means Amazon S3.
	Endpoint string
	// Region is the bucket's region, or a guess: if S3 answers that the bucket is
	// elsewhere, the store uses that region. Empty means us-east-1.
	Region string
	// Credentials sign the requests; nil leaves them unsigned.
	Credentials aws.CredentialsProvider
	// ACL is a canned ACL for every object written; empty means that each write has its own.
	ACL string
	// Unproven means that the server's conditional writes are used without a test.
	// Amazon S3 needs none.
	Unproven bool
	// HTTPClient sends the requests; nil means one per store.
	HTTPClient sdk.HTTPClient
}

// Backend opens s3://bucket/folder.
func Backend(cfg Config) store.Backend {
	b := backend(cfg, "s3")
	b.Bucket = &store.Bucket{Kind: "aws_s3_object", API: "s3", Provider: "aws.files", Encryption: "AES256"}
	return b
}

// Compatible opens buckets on other clouds' servers in the same way; cfg must have an
// Endpoint: do:// DigitalOcean, linode://, hos:// Hetzner, scw:// Scaleway.
func Compatible(cfg Config) store.Backend { return backend(cfg, "do", "linode", "hos", "scw") }

func backend(cfg Config, schemes ...string) store.Backend {
	proofs := &proofs{buckets: map[string]*store.Proof{}}
	return store.Backend{
		Schemes: schemes,
		Open: func(_ context.Context, scheme, rest string) (store.Store, error) {
			name, prefix, _ := strings.Cut(rest, "/")
			if name == "" {
				return nil, fault.New(fault.Permanent, "the name of the bucket is missing")
			}
			if scheme != "s3" && cfg.Endpoint == "" {
				return nil, fault.Wrap(fault.Permanent, errors.New("no endpoint for "+scheme+":// is known"),
					"set S3_ENDPOINT to the URL of the object storage")
			}
			b := newBucket(cfg, scheme, name, prefix)
			if cfg.Unproven || isAmazon(b.cfg.Endpoint) {
				return b, nil
			}
			return store.WithProof(b, proofs.get(name)), nil
		},
	}
}

// isAmazon reports whether an endpoint is Amazon's: the default, or one of a region, of a
// VPC or for FIPS.
func isAmazon(endpoint string) bool {
	if endpoint == "" {
		return true
	}
	u, err := url.Parse(endpoint)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".amazonaws.com") || strings.HasSuffix(u.Hostname(), ".amazonaws.com.cn"))
}

// proofs are the proofs of buckets, by bucket name.
type proofs struct {
	mu      sync.Mutex
	buckets map[string]*store.Proof
}

func (p *proofs) get(bucket string) *store.Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buckets[bucket] == nil {
		p.buckets[bucket] = &store.Proof{Remedy: "keep the state on a server that honours If-Match and If-None-Match; or set KOPS_STATE_S3_WITHOUT_LOCKS=true, and never run two commands at the same time"}
	}
	return p.buckets[bucket]
}

func newBucket(cfg Config, scheme, name, prefix string) *bucket {
	b := &bucket{cfg: cfg, name: name, url: scheme + "://" + name, region: cfg.Region}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		b.url += "/" + prefix
		b.prefix = prefix + "/"
	}
	if b.region == "" {
		b.region = "us-east-1"
	}
	if b.cfg.Endpoint != "" && !strings.Contains(b.cfg.Endpoint, "://") {
		b.cfg.Endpoint = "https://" + b.cfg.Endpoint
	}
	if b.cfg.HTTPClient == nil {
		b.cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(web.PoolConnections)
	}
	b.client = b.connect(b.region)
	return b
}

// connect creates a client for a region.
//
// Checksums in addition to the signature are only sent where S3 requires them,
// because other servers reject them; the signature covers the content in any case.
func (b *bucket) connect(region string) *sdk.Client {
	o := sdk.Options{
		Region:                     region,
		Credentials:                b.cfg.Credentials,
		HTTPClient:                 b.cfg.HTTPClient,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = web.Tries, web.MaxBackoff
			o.Backoff = retry.BackoffDelayerFunc(backoff)
			o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(isRetryable)}, o.Retryables...)
			// A retry quota shared by all requests would run out in an interruption that
			// affects many requests, long before each had used its own retries.
			o.RateLimiter = ratelimit.None
		}),
	}
	if o.Credentials == nil {
		o.Credentials = aws.AnonymousCredentials{}
	}
	if b.cfg.Endpoint != "" {
		o.BaseEndpoint, o.UsePathStyle = aws.String(b.cfg.Endpoint), true
	} else {
		o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
	}
	return sdk.New(o)
}

// backoff returns the wait after an attempt, or its error if there shall be no other.
func backoff(attempt int, err error) (time.Duration, error) {
	if web.IsLast(attempt, err) {
		return 0, err
	}
	return web.Backoff(attempt), nil
}

// do runs a request, and repeats it in the bucket's region if S3 answers that this is another one.
func (b *bucket) do(ctx context.Context, request func(*sdk.Client) error) error {
	b.mu.Lock()
	client, asked := b.client, b.region
	b.mu.Unlock()
	err := request(client)
	region := regionOf(err)
	if region == "" || region == asked || ctx.Err() != nil {
		return err
	}
	b.mu.Lock()
	if b.region != region {
		b.client, b.region = b.connect(region), region
	}
	client = b.client
	b.mu.Unlock()
	return request(client)
}

// regionOf returns the bucket's region if S3 includes it in an error, or "".
func regionOf(err error) string {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return ""
	}
	switch answer.HTTPStatusCode() {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest:
		return answer.Response.Header.Get("X-Amz-Bucket-Region")
	}
	return ""
}

// countTries counts in n how often a request is sent.
func countTries(n *int) func(*sdk.Options) {
	count := middleware.FinalizeMiddlewareFunc("CountTries",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error) {
			*n++
			return next.HandleFinalize(ctx, in)
		})
	return func(o *sdk.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Finalize.Insert(count, "Retry", middleware.After)
		})
	}
}

// withContentMD5 adds the checksum that older servers require for DeleteObjects.
func withContentMD5(o *sdk.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
}
