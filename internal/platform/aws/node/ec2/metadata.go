// Package ec2 is what a machine on AWS asks of its surroundings: its metadata
// service tells who it is and gives it the credentials of its role, with which
// it calls the few actions of AWS that a start needs.
//
// It must not link the SDK of AWS: what it asks for are two actions.
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
	// HTTP must ask no proxy, which would ask as another machine.
	HTTP *http.Client
	// Endpoint is where the service is, without a final slash; empty means http://169.254.169.254.
	Endpoint string
}

const (
	usualEndpoint = "http://169.254.169.254"
	// patience bounds one question.
	patience = 10 * time.Second
	// longest is the longest answer that is read, in bytes.
	longest = 1 << 20
)

// Session asks the metadata service, for five minutes.
type Session struct {
	metadata Metadata
	token    string
}

// Session begins a session.
func (m Metadata) Session(ctx context.Context) (Session, error) {
	token, err := m.ask(ctx, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "300")
	if err != nil {
		return Session{}, fmt.Errorf("ask the metadata service for a session: %w", err)
	}
	return Session{m, token}, nil
}

// Get returns what the service says of a key below latest/meta-data, such as
// instance-id; "" where it says nothing.
func (s Session) Get(ctx context.Context, key string) (string, error) {
	text, err := s.metadata.ask(ctx, http.MethodGet, "/latest/meta-data/"+key, "X-aws-ec2-metadata-token", s.token)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask the metadata service for %s: %w", key, err)
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
		return none, fault.Wrap(fault.NotYet, fmt.Errorf("the machine has no role"), "give the machine an instance profile, or wait until AWS knows of it")
	}
	text, err := s.Get(ctx, key+role)
	if err != nil {
		return none, err
	}
	var c struct{ Code, Message, AccessKeyID, SecretAccessKey, Token string } // names are matched whatever their case
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return none, fault.New(fault.NotYet, "read the credentials of the role %s: %w", role, err)
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return none, fault.New(fault.NotYet, "the metadata service has no credentials of the role %s: %s %s", role, c.Code, c.Message)
	}
	return awsquery.Credentials{ID: c.AccessKeyID, Secret: c.SecretAccessKey, Token: c.Token}, nil
}

// ask sends a request with one header. Errors are of class fault.Gone where
// there is nothing, else of fault.NotYet.
func (m Metadata) ask(ctx context.Context, method, path, header, value string) (string, error) {
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
	text, err := io.ReadAll(io.LimitReader(res.Body, longest))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.Gone, "%s is not there", path)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.NotYet, "%s answers %s", base+path, res.Status)
	}
	return string(text), nil
}
