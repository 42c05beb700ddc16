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
)

// JSON is a client of a service that speaks AWS' JSON protocol. It replaces the SDK's client of
// the service, which builds the schemas of all operations at each start of a program.
type JSON struct {
	config    aws.Config
	userAgent string
	service   string // as the SDK's configuration names it, such as "EventBridge"
	host      string // the first label of its host names, and its name in signatures: "events"
	target    string // what qualifies operations in requests: "AWSEvents"
	version   string // of the protocol
}

// Fields are a request, by the names that the service's API reference uses.
type Fields map[string]any

// Call sends a request, and decodes the response into out; nil ignores its content.
func (s *JSON) Call(ctx context.Context, name string, in Fields, out any) error {
	err := s.call(ctx, name, in, out)
	if err != nil {
		err = classed(ctx, err, operation{service: s.service, name: name})
	}
	return err
}

// List calls an operation page by page, and returns the items of all pages, which are in the field of the response.
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
		return refused(res, body)
	case len(body) == 0: // of an operation that returns nothing
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

// endpoint returns the URL of the service: the configured one, or the region's. The rules for
// regions, FIPS and dual-stack hosts are Elastic Load Balancing's, with another first label.
func (s *JSON) endpoint(ctx context.Context) (string, error) {
	configured, found, err := setting(s.config, func(c interface {
		GetServiceBaseEndpoint(context.Context, string) (string, bool, error)
	}) (string, bool, error) {
		at, found, err := c.GetServiceBaseEndpoint(ctx, s.service)
		if env, ok := c.(config.EnvConfig); ok && !found {
			return env.BaseEndpoint, env.BaseEndpoint != "", err // comes before the service's own in a profile
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

// setting returns a setting from the first source of the configuration that has it.
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

// refused returns the error of a response.
func refused(res *http.Response, body []byte) error {
	var said struct {
		Type    string `json:"__type"` // NAMESPACE#CODE, or CODE
		Message string // in either case
	}
	answer := error(&smithy.DeserializationError{Err: fmt.Errorf("the error has no code"), Snapshot: body})
	if err := json.Unmarshal(body, &said); err == nil && said.Type != "" {
		answer = &smithy.GenericAPIError{Code: said.Type[strings.LastIndexByte(said.Type, '#')+1:], Message: said.Message}
	}
	return &awshttp.ResponseError{RequestID: res.Header.Get("X-Amzn-Requestid"),
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: res}, Err: answer}}
}
