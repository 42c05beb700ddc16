package awsquery

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// CallJSON calls an action with AWS' JSON protocol, version 1.1, of services that do not have the
// query protocol: target is SERVICE.ACTION as in the header X-Amz-Target. It sends in, and decodes
// the response into answer. Its errors are as for Call.
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
	return decodeResponse(res, answer, json.Unmarshal, newJSONError)
}

// newJSONError reads a response with a status other than 200.
func newJSONError(res *http.Response, text []byte) *Error {
	code, message := Refusal(text)
	if code == "" {
		code, message = statusText(res.StatusCode), "no reason given"
	}
	return &Error{Status: res.StatusCode, Request: res.Header.Get("X-Amzn-Requestid"), Code: code, Message: message}
}

// Refusal returns the code and the message of an error in AWS' JSON protocol; the code is "" if the
// text has none.
func Refusal(text []byte) (code, message string) {
	var x struct {
		Type    string `json:"__type"` // NAMESPACE#CODE, or CODE
		Message string // in either case
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return "", ""
	}
	return x.Type[strings.LastIndexByte(x.Type, '#')+1:], x.Message
}
