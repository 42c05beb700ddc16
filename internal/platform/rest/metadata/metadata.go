// Package metadata reads the metadata service of a machine in a cloud, which tells the machine what it
// is. It links no SDK.
//
// It must not know any cloud, nor what the values mean.
package metadata

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
)

const (
	// Host is where nearly every cloud's service is. It is reached without DNS.
	Host = "169.254.169.254"
	// Patience limits a request.
	Patience = 10 * time.Second
	// maxResponse is the maximum size of a response, in bytes: user data has at most 256 KiB.
	maxResponse = 1 << 20
)

// Service is the metadata service of the machine on which this runs.
type Service struct {
	// HTTP must not use a proxy, whose own metadata would be returned.
	HTTP *http.Client
	// Root is the URL before the keys, without the slash between them.
	Root string
	// Header and Value are sent with each request; both may be empty.
	Header, Value string
}

// Get returns the value of a key, and "" if it is not set. The class of errors is as for Request.
func (s Service) Get(ctx context.Context, key string) (string, error) {
	text, err := s.Request(ctx, http.MethodGet, key)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get %s from the metadata service: %w", key, err)
	}
	return strings.TrimSpace(text), nil
}

// Getter returns a function that is Get until an error occurs, which it writes to err; then it returns "".
func (s Service) Getter(ctx context.Context, err *error) func(key string) string {
	return func(key string) (value string) {
		if *err == nil {
			value, *err = s.Get(ctx, key)
		}
		return value
	}
}

// Request sends a request for a key. The class of its error is fault.Gone if the key is not set,
// fault.Permanent if the URL is invalid, and otherwise fault.NotYet.
func (s Service) Request(ctx context.Context, method, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.Root+"/"+key, nil)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, err, "")
	}
	if s.Header != "" {
		req.Header.Set(s.Header, s.Value)
	}
	res, err := s.HTTP.Do(req)
	if err != nil {
		return "", fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.Gone, "it has no %s", key)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.NotYet, "it returned %s", res.Status)
	}
	return string(text), nil
}
