package awsquery

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// CallJSON calls an action in AWS' JSON protocol, version 1.1, which services without the query
// protocol have: target is SERVICE.ACTION as in its header X-Amz-Target. It sends in, and decodes
// the answer into answer. Its errors are as for Call.
func (c Client) CallJSON(ctx context.Context, service, target string, in, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, usualTimeout))
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.Permanent, err, "")
	}
	res, err := c.post(ctx, service, string(body), "Content-Type", "application/x-amz-json-1.1", "X-Amz-Target", target)
	if err != nil {
		return err
	}
	return read(res, answer, json.Unmarshal, refusalJSON)
}

// refusalJSON reads an answer other than 200.
func refusalJSON(res *http.Response, text []byte) *Error {
	var x struct {
		Type    string `json:"__type"` // NAMESPACE#CODE, or CODE
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &x); err != nil || x.Type == "" {
		x.Type, x.Message = statusText(res.StatusCode), "no reason given"
	}
	return &Error{Status: res.StatusCode, Request: res.Header.Get("X-Amzn-Requestid"), Code: x.Type[strings.LastIndexByte(x.Type, '#')+1:], Message: x.Message}
}
