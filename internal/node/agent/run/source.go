package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/web"
)

// source reads the store of a cluster, and files from wherever they are: folders,
// buckets, and what is served over HTTP.
type source struct {
	backends store.Backends
	client   *http.Client
	// direct has no proxy, which would ask as another machine or not at all.
	direct *http.Client
	// google is where Google's storage is, and metadata where its machines are told who they are.
	google, metadata string
}

// open opens the file at a URL.
func (s source) open(ctx context.Context, url string) (io.ReadCloser, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch scheme {
	case "s3":
		data, err := s.object(ctx, url)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	case "gs":
		return s.googleObject(ctx, rest)
	}
	return host.Open(s.client)(ctx, url)
}

// Read returns what stands at a URL.
func (s source) Read(ctx context.Context, url string) ([]byte, error) {
	if scheme, _, _ := strings.Cut(url, "://"); !slices.Contains([]string{"http", "https", "gs"}, scheme) {
		return s.object(ctx, url)
	}
	body, err := s.open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	return web.Read(body, largest)
}

// largest is the longest configuration, key or manifest, in bytes.
const largest = 64 << 20

// googleObject opens an object of Google's storage: as anybody, or else as the account of the machine.
func (s source) googleObject(ctx context.Context, name string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.google+"/"+name, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	body, err := host.Send(s.client, req)
	if !fault.Is(err, fault.Denied) {
		return body, err
	}
	ask, terr := http.NewRequestWithContext(ctx, http.MethodGet, s.metadata+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if terr != nil {
		return nil, fault.Wrap(fault.Permanent, terr, "")
	}
	ask.Header.Set("Metadata-Flavor", "Google")
	answer, terr := host.Send(s.direct, ask)
	if terr != nil {
		return nil, fault.Wrap(fault.Denied, fmt.Errorf("%w to anybody, and the machine has no account: %w", err, terr), "")
	}
	defer answer.Close() //nolint:errcheck // it was only read
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(answer).Decode(&token); err != nil {
		return nil, fmt.Errorf("read the token of the machine's account: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Access)
	return host.Send(s.client, req)
}

// object reads an object of a folder or a bucket.
func (s source) object(ctx context.Context, url string) ([]byte, error) {
	i := strings.LastIndexByte(url, '/')
	if i < 0 {
		return nil, fault.New(fault.Permanent, "%q is no address of an object", url)
	}
	st, err := s.backends.Open(ctx, url[:i])
	if err != nil {
		return nil, err
	}
	data, _, err := st.Get(ctx, url[i+1:])
	return data, err
}

// store is what machines with an API server read.
func (o Options) store(client *http.Client) source {
	c := s3.Config{Endpoint: o.Env("S3_ENDPOINT"), Region: o.Env("S3_REGION"), HTTPClient: client}
	id, secret, token := o.Env("S3_ACCESS_KEY_ID"), o.Env("S3_SECRET_ACCESS_KEY"), ""
	if c.Endpoint == "" {
		c.Region = o.Env("AWS_REGION")
		id, secret, token = o.Env("AWS_ACCESS_KEY_ID"), o.Env("AWS_SECRET_ACCESS_KEY"), o.Env("AWS_SESSION_TOKEN")
	}
	if id != "" && secret != "" {
		c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, token)
	} else {
		c.Credentials = aws.NewCredentialsCache(account{o})
	}
	return source{store.Backends{store.Folders(), s3.Backend(c)}, client, host.NewHTTPClient(nil), "https://storage.googleapis.com", "http://metadata.google.internal"}
}

// account gives the SDK the credentials of the machine's own account.
type account struct{ o Options }

// Retrieve asks the platform that has any, which has fresh ones five minutes before the old ones end.
func (a account) Retrieve(ctx context.Context) (aws.Credentials, error) {
	for _, p := range a.o.Platforms {
		if p.Credentials != nil {
			c, err := p.Credentials(ctx, a.o.world())
			return aws.Credentials{AccessKeyID: c.ID, SecretAccessKey: c.Secret, SessionToken: c.Token, CanExpire: true, Expires: time.Now().Add(4 * time.Minute)}, err
		}
	}
	return aws.Credentials{}, fault.New(fault.Permanent, "no machine has an account of its own")
}
