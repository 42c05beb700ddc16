// Package ec2 contains the requests of a machine on AWS: its metadata service returns its identity
// and the credentials of its role, which it uses to call the few AWS actions that it needs to
// start.
//
// It must not link the AWS SDK, because it needs only two actions.
package ec2

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/rest/metadata"
)

// Metadata is the metadata service of an instance, version 2 (AWS EC2 User
// Guide, "Use the Instance Metadata Service").
type Metadata struct {
	// HTTP must not use a proxy, which would send requests from another machine.
	HTTP *http.Client
	// Endpoint is the service's URL, without a trailing slash; empty means http://169.254.169.254.
	Endpoint string
}

const usualEndpoint = "http://" + metadata.Host

// Session is a session with the metadata service, valid for five minutes. Its keys are below
// latest/meta-data, such as instance-id.
type Session = metadata.Service

// Session starts a session.
func (m Metadata) Session(ctx context.Context) (Session, error) {
	s := metadata.Service{HTTP: m.HTTP, Root: cmp.Or(m.Endpoint, usualEndpoint) + "/latest", Header: "X-aws-ec2-metadata-token-ttl-seconds", Value: "300"}
	token, err := s.Request(ctx, http.MethodPut, "api/token")
	if err != nil {
		return Session{}, fmt.Errorf("get a session from the metadata service: %w", err)
	}
	s.Root, s.Header, s.Value = s.Root+"/meta-data", "X-aws-ec2-metadata-token", token
	return s, nil
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
