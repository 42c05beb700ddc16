package gcerest

import (
	"context"
	"net/http"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// Operation is a change that goes on after its call.
type Operation struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Error  *struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	} `json:"error"`
	HTTPStatus int `json:"httpErrorStatusCode"`
}

const (
	// waitLimit is a little longer than a call waits for an operation (API reference, zoneOperations.wait: two minutes).
	waitLimit = 2*time.Minute + 10*time.Second
	// mostWaits bounds how often an operation is waited for.
	mostWaits = 10
)

// Change calls a method of Compute below zone, such as projects/P/zones/Z, and waits until what it
// began is done. An operation that fails is an *Error.
func (c Client) Change(ctx context.Context, method, zone, path string, query map[string][]string, in any) error {
	var op Operation
	if err := c.Do(ctx, method, Compute, zone+"/"+path, query, in, &op); err != nil {
		return err
	}
	for n := 0; op.Status != "DONE"; n++ {
		if n == mostWaits {
			return fault.New(fault.NotYet, "the operation %s is not done yet", op.Name)
		}
		name := op.Name
		op = Operation{}
		if err := c.within(ctx, waitLimit, http.MethodPost, Compute, zone+"/operations/"+name+"/wait", nil, nil, &op); err != nil {
			return err
		}
	}
	if op.Error == nil || len(op.Error.Errors) == 0 {
		return nil
	}
	e := &Error{Status: op.HTTPStatus, Reason: op.Error.Errors[0].Code, Message: op.Error.Errors[0].Message}
	return fault.Wrap(e.class(), e, e.remedy())
}
