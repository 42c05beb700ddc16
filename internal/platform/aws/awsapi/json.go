package awsapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// JSON is a client of a service with AWS' JSON protocol. It replaces the service's SDK client,
// which builds the schemas of all operations at every start of a program.
type JSON struct {
	config    aws.Config
	userAgent string
	service   string // its name in the SDK's configuration, such as "EventBridge"
	host      string // the first label of its host names, and its name in signatures: "events"
	target    string // the prefix of operations in requests: "AWSEvents"
	version   string // of the protocol
}

// Fields are the fields of a request, by their names in the service's API reference.
type Fields map[string]any

// Call sends a request, and decodes the response into out; if out is nil, the content is ignored.
func (s *JSON) Call(ctx context.Context, name string, in Fields, out any) error {
	err := s.call(ctx, name, in, out)
	if err != nil {
		err = classifyError(ctx, err, operation{service: s.service, name: name})
	}
	return err
}

// List calls an operation page by page, and returns the items in the
// response's field, of all pages.
func List[T any](ctx context.Context, s *JSON, operation, field string, in Fields) ([]T, error) {
	var all []T
	for in = maps.Clone(in); ; {
		var page map[string]json.RawMessage
		if err := s.Call(ctx, operation, in, &page); err != nil {
			return nil, err
		}
		var items []T
		var next string
		if err := errors.Join(decodeField(page[field], &items), decodeField(page["NextToken"], &next)); err != nil {
			return nil, fault.New(fault.Lost, "decode the response to %s: %w", operation, err)
		}
		all = append(all, items...)
		if next == "" {
			return all, nil
		}
		in["NextToken"] = next
	}
}

// decodeField decodes a field of a response, which may be absent.
func decodeField(data json.RawMessage, out any) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

func (s *JSON) call(ctx context.Context, name string, in Fields, out any) error {
	req, err := s.request(ctx, name, in)
	if err != nil {
		return err
	}
	res, err := s.config.HTTPClient.Do(req)
	if err != nil {
		return &smithyhttp.RequestSendError{Err: err}
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return &smithyhttp.RequestSendError{Err: err}
	case res.StatusCode != http.StatusOK:
		return responseError(res, body)
	case len(body) == 0: // from an operation that returns nothing
		return nil
	case out == nil:
		out = &struct{}{}
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &smithy.DeserializationError{Err: err, Snapshot: body}
	}
	return nil
}

// request returns a signed request.
func (s *JSON) request(ctx context.Context, name string, in Fields) (*http.Request, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	at, err := s.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-"+s.version)
	req.Header.Set("X-Amz-Target", s.target+"."+name)
	req.Header.Set("User-Agent", s.userAgent)
	c, err := s.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return req, v4.NewSigner().SignHTTP(ctx, c, req, hex.EncodeToString(sum[:]), s.host, s.config.Region, time.Now())
}

// endpoint returns the URL of the service: the configured one, or the
// region's. The rules for regions, FIPS and dual-stack hosts are the
// same as for Elastic Load Balancing, with a different first label.
func (s *JSON) endpoint(ctx context.Context) (string, error) {
	configured, found, err := setting(s.config, func(c interface {
		GetServiceBaseEndpoint(context.Context, string) (string, bool, error)
	}) (string, bool, error) {
		at, found, err := c.GetServiceBaseEndpoint(ctx, s.service)
		if env, ok := c.(config.EnvConfig); ok && !found {
			return env.BaseEndpoint, env.BaseEndpoint != "", err // precedes the service's endpoint in a profile
		}
		return at, found, err
	})
	ignored, _, ierr := setting(s.config, func(c interface {
		GetIgnoreConfiguredEndpoints(context.Context) (bool, bool, error)
	}) (bool, bool, error) {
		return c.GetIgnoreConfiguredEndpoints(ctx)
	})
	if err := errors.Join(err, ierr); err != nil {
		return "", err
	}
	if found && !ignored {
		return configured, nil
	}
	if s.config.BaseEndpoint != nil {
		return *s.config.BaseEndpoint, nil
	}
	return s.regional(ctx)
}

func (s *JSON) regional(ctx context.Context) (string, error) {
	fips, _, err := setting(s.config, func(c interface {
		GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error)
	}) (aws.FIPSEndpointState, bool, error) {
		return c.GetUseFIPSEndpoint(ctx)
	})
	dual, _, derr := setting(s.config, func(c interface {
		GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error)
	}) (aws.DualStackEndpointState, bool, error) {
		return c.GetUseDualStackEndpoint(ctx)
	})
	if err := errors.Join(err, derr); err != nil {
		return "", err
	}
	at, err := elb.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, elb.EndpointParameters{Region: &s.config.Region,
		UseFIPS: aws.Bool(fips == aws.FIPSEndpointStateEnabled), UseDualStack: aws.Bool(dual == aws.DualStackEndpointStateEnabled)})
	if err != nil {
		return "", fmt.Errorf("find the endpoint of %s: %w", s.service, err)
	}
	return strings.Replace(at.URI.String(), "elasticloadbalancing", s.host, 1), nil
}

// setting returns a setting from the first configuration source that has it.
func setting[Source, T any](c aws.Config, get func(Source) (T, bool, error)) (value T, found bool, err error) {
	for _, source := range c.ConfigSources {
		if s, ok := source.(Source); ok {
			if value, found, err = get(s); err != nil || found {
				return value, found, err
			}
		}
	}
	return value, false, nil
}

// responseError returns the error of a response.
func responseError(res *http.Response, body []byte) error {
	answer := error(&smithy.DeserializationError{Err: errors.New("the error has no code"), Snapshot: body})
	if code, message := awsquery.Refusal(body); code != "" {
		answer = &smithy.GenericAPIError{Code: code, Message: message}
	}
	return &awshttp.ResponseError{RequestID: res.Header.Get("X-Amzn-Requestid"),
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: res}, Err: answer}}
}
