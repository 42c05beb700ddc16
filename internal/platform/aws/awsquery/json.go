package awsquery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// CallJSON asks for an action in AWS' JSON protocol, version 1.1, which services without
// the query protocol have: target is SERVICE.ACTION as its header X-Amz-Target has it. in
// is sent, and the answer read into what answer points to. Its errors are those of Call.
func (c Client) CallJSON(ctx context.Context, service, target string, in, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, usualTimeout))
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.Permanent, err, "")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(c.Endpoint, Endpoint(service, c.Region)), strings.NewReader(string(body)))
	if err != nil {
		return fault.Wrap(fault.Permanent, err, "")
	}
	key, err := c.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("find credentials: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", target)
	Sign(req.Header, req.URL, string(body), Scope{c.Region, service}, key, c.Now())
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, longest))
	switch {
	case err != nil:
		return fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode != http.StatusOK:
		e := refusalJSON(res.StatusCode, text)
		e.Request = res.Header.Get("X-Amzn-Requestid")
		return fault.Wrap(e.class(), e, "")
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fault.New(fault.NotYet, "the answer is not understood: %w", err)
	}
	return nil
}

// refusalJSON reads an answer other than 200.
func refusalJSON(status int, text []byte) *Error {
	var x struct {
		Type    string `json:"__type"` // NAMESPACE#CODE, or CODE
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &x); err != nil || x.Type == "" {
		return &Error{Status: status, Code: statusText(status), Message: "no reason given"}
	}
	return &Error{Status: status, Code: x.Type[strings.LastIndexByte(x.Type, '#')+1:], Message: x.Message}
}
