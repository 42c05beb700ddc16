package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cryptorand "crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/node/ec2"
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
func (s system) store(client *http.Client) source {
	c := s3.Config{Endpoint: s.Env("S3_ENDPOINT"), Region: s.Env("S3_REGION"), HTTPClient: client}
	id, secret, token := s.Env("S3_ACCESS_KEY_ID"), s.Env("S3_SECRET_ACCESS_KEY"), ""
	if c.Endpoint == "" {
		c.Region = s.Env("AWS_REGION")
		id, secret, token = s.Env("AWS_ACCESS_KEY_ID"), s.Env("AWS_SECRET_ACCESS_KEY"), s.Env("AWS_SESSION_TOKEN")
	}
	if id != "" && secret != "" {
		c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, token)
	} else {
		c.Credentials = aws.NewCredentialsCache(roleOf{s.aws().Metadata})
	}
	return source{store.Backends{store.Folders(), s3.Backend(c)}, client, host.NewHTTPClient(nil), "https://storage.googleapis.com", "http://metadata.google.internal"}
}

// roleOf gives the SDK the credentials of the machine's role.
type roleOf struct{ ec2.Metadata }

// Retrieve asks the metadata service, which has fresh ones five minutes before the old ones end.
func (r roleOf) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := r.Credentials(ctx)
	return aws.Credentials{AccessKeyID: c.ID, SecretAccessKey: c.Secret, SessionToken: c.Token, CanExpire: true, Expires: time.Now().Add(4 * time.Minute)}, err
}

// aws is what a machine on AWS asks.
func (s system) aws() ec2.API {
	return ec2.API{Metadata: ec2.Metadata{HTTP: host.NewHTTPClient(nil), Endpoint: strings.TrimSuffix(s.Env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "/")},
		HTTP: host.NewHTTPClient(s.proxy()), Region: s.Env("AWS_REGION"), Endpoint: s.Env("AWS_ENDPOINT_URL"), Now: time.Now}
}

// launched tells the scaling group of an instance that it need not be waited for.
func (s system) launched(ctx context.Context, h node.Host) error {
	err := s.aws().Continue(ctx, h.ScalingGroup, path.Base(h.ProviderID))
	if said := (*awsquery.Error)(nil); errors.As(err, &said) && said.Code == "ValidationError" && !h.Warming {
		return nil // no group waits for a machine that is only started again
	}
	return err
}

// join returns the way to kops-controller.
func (s system) join(o options, b *nodeconfig.Boot, failed func(error)) (agent.Joiner, error) {
	prover, err := s.prover(o, b)
	if err != nil {
		return nil, err
	}
	transport, err := bootstrap.NewTLS(b.ConfigServer.CACertificates, b.ConfigServer.TLSServerName, agent.KubeletCertificate(o.root))
	if err != nil {
		return nil, err
	}
	return agent.Controller{Client: &bootstrap.Client{Servers: b.ConfigServer.Servers, Transport: transport, Prover: prover, Clock: bootstrap.SystemClock(),
		Failed: func(_ string, _ int, err error) { failed(err) }}}, nil
}

// keyFiles are where a machine's own key may be.
func keyFiles() []string {
	return []string{"/etc/kubernetes/kops/pki/machine/private.pem", "/etc/kops/identity.key"}
}

// prover shows who this machine is, in the way of its platform.
func (s system) prover(o options, b *nodeconfig.Boot) (bootstrap.Prover, error) {
	switch api.CloudProviderID(b.CloudProvider) {
	case api.CloudLocal, api.CloudMetal:
		return ownKey(o)
	case api.CloudAWS:
		return s.role()
	}
	return nil, fault.New(fault.Permanent, "this version of nodeup cannot prove who a machine of %s is", b.CloudProvider)
}

// role proves that this machine has the role of a group's.
func (s system) role() (bootstrap.Prover, error) {
	a := s.aws()
	if a.Region == "" {
		return nil, fault.Wrap(fault.Permanent, errors.New("the environment has no AWS_REGION"), "let the machine's user data export it: kops update cluster --yes writes it so")
	}
	endpoint := a.Endpoint
	if endpoint == "" {
		endpoint = awsquery.Endpoint("sts", a.Region)
	}
	return awssts.Prover{Endpoint: endpoint, Region: a.Region, Credentials: a.Metadata.Credentials, Now: time.Now}, nil
}

// ownKey proves that this machine has the key that its platform gave it.
func ownKey(o options) (bootstrap.Prover, error) {
	for _, file := range keyFiles() {
		text, err := os.ReadFile(filepath.Join(o.root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the machine's own key: %w", err)
		}
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("read the machine's own key %s: %w", file, err)
		}
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("ask for the machine's name: %w", err)
		}
		return bootstrap.MachineKey{Node: name, Key: key, Now: time.Now, Rand: cryptorand.Reader}, nil
	}
	return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the machine has no key of its own in %s", strings.Join(keyFiles(), " or ")),
		"let the platform that made the machine put its key there, or enroll the machine")
}

// parseKey reads a private key in one of the usual forms.
func parseKey(text []byte) (crypto.Signer, error) {
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, errors.New("it holds no private key")
		}
		var key any
		var err error
		switch b.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
		return nil, fmt.Errorf("a key of type %T does not sign", key)
	}
}
