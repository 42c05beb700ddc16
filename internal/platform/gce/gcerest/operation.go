package gcerest

import (
	"context"
	"net/http"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// Operation is a change that continues after the call.
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
	// waitLimit is slightly longer than a wait call blocks (API reference, zoneOperations.wait: two
	// minutes).
	waitLimit = 2*time.Minute + 10*time.Second
	// maxWaits limits the number of wait calls per operation.
	maxWaits = 10
)

// DoAndWait calls a Compute Engine method below zone, such as projects/P/zones/Z, and waits until the
// operation that it started is done. The error of a failed operation is an *Error.
func (c Client) DoAndWait(ctx context.Context, method, zone, path string, query map[string][]string, in any) error {
	var op Operation
	if err := c.Do(ctx, method, Compute, zone+"/"+path, query, in, &op); err != nil {
		return err
	}
	for n := 0; op.Status != "DONE"; n++ {
		if n == maxWaits {
			return fault.New(fault.NotYet, "the operation %s is not done yet", op.Name)
		}
		name := op.Name
		op = Operation{}
		if err := c.doWithin(ctx, waitLimit, http.MethodPost, Compute, zone+"/operations/"+name+"/wait", nil, nil, &op); err != nil {
			return err
		}
	}
	if op.Error == nil || len(op.Error.Errors) == 0 {
		return nil
	}
	e := &Error{Status: op.HTTPStatus, Reason: op.Error.Errors[0].Code, Message: op.Error.Errors[0].Message}
	return fault.Wrap(e.faultClass(), e, e.remedy())
}
