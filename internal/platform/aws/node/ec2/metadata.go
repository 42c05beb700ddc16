// Package ec2 contains the requests of a machine on AWS: its metadata service returns its identity
// and the credentials of its role, which it uses to call the few AWS actions that it needs to
// start.
//
// It must not link the AWS SDK, because it needs only two actions.
package ec2

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// Metadata is the metadata service of an instance, version 2 (AWS EC2 User
// Guide, "Use the Instance Metadata Service").
type Metadata struct {
	// HTTP must not use a proxy, which would send requests from another machine.
	HTTP *http.Client
	// Endpoint is the service's URL, without a trailing slash; empty means http://169.254.169.254.
	Endpoint string
}

const (
	usualEndpoint = "http://169.254.169.254"
	// patience limits one request.
	patience = 10 * time.Second
	// maxResponse is the longest response that is read, in bytes.
	maxResponse = 1 << 20
)

// Session is a session with the metadata service, valid for five minutes.
type Session struct {
	metadata Metadata
	token    string
}

// Session starts a session.
func (m Metadata) Session(ctx context.Context) (Session, error) {
	token, err := m.request(ctx, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "300")
	if err != nil {
		return Session{}, fmt.Errorf("get a session from the metadata service: %w", err)
	}
	return Session{m, token}, nil
}

// Get returns the service's value of a key below latest/meta-data, such as instance-id; "" if it
// does not exist.
func (s Session) Get(ctx context.Context, key string) (string, error) {
	text, err := s.metadata.request(ctx, http.MethodGet, "/latest/meta-data/"+key, "X-aws-ec2-metadata-token", s.token)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get %s from the metadata service: %w", key, err)
	}
	return text, nil
}

// Credentials returns the credentials of the machine's role.
func (m Metadata) Credentials(ctx context.Context) (awsquery.Credentials, error) {
	var none awsquery.Credentials
	s, err := m.Session(ctx)
	if err != nil {
		return none, err
	}
	const key = "iam/security-credentials/"
	roles, err := s.Get(ctx, key)
	if err != nil {
		return none, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(roles), "\n")
	if role == "" {
		return none, fault.Wrap(fault.NotYet, fmt.Errorf("the machine has no role"), "give the machine an instance profile, or wait until AWS has attached it")
	}
	text, err := s.Get(ctx, key+role)
	if err != nil {
		return none, err
	}
	var c struct{ Code, Message, AccessKeyID, SecretAccessKey, Token string } // names are matched regardless of case
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return none, fault.New(fault.NotYet, "read the credentials of the role %s: %w", role, err)
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return none, fault.New(fault.NotYet, "the metadata service has no credentials for the role %s: %s %s", role, c.Code, c.Message)
	}
	return awsquery.Credentials{ID: c.AccessKeyID, Secret: c.SecretAccessKey, Token: c.Token}, nil
}

// request sends a request with one header. Errors have the class fault.Gone if the path does not exist,
// fault.Permanent for an invalid URL, and otherwise fault.NotYet.
func (m Metadata) request(ctx context.Context, method, path, header, value string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	base := m.Endpoint
	if base == "" {
		base = usualEndpoint
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, nil)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, err, "")
	}
	req.Header.Set(header, value)
	res, err := m.HTTP.Do(req)
	if err != nil {
		return "", fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.Gone, "%s does not exist", path)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.NotYet, "%s returned %s", base+path, res.Status)
	}
	return string(text), nil
}
