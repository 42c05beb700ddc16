package gcerest

import (
	"context"
	"net/http"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest"
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
	// patienceForOperations is how long an operation is waited for.
	patienceForOperations = 20 * time.Minute
	// done is the status of an operation that has ended, successfully or not.
	done = "DONE"
)

// DoAndWait calls a Compute Engine method below zone, such as projects/P/zones/Z, and waits until the
// operation that it started is done. The error of a failed operation is an *Error.
func (c Client) DoAndWait(ctx context.Context, zone string, r rest.Request) error {
	api := c.at(Compute)
	r.Path = zone + "/" + r.Path
	var op Operation
	if err := api.Do(ctx, r, &op); err != nil {
		return err
	}
	err := api.Await(ctx, func(ctx context.Context) (bool, error) {
		if op.Status == done {
			return true, nil
		}
		var now Operation
		if err := api.Do(ctx, rest.Request{Method: http.MethodPost, Path: zone + "/operations/" + op.Name + "/wait", Timeout: waitLimit}, &now); err != nil {
			return false, err
		}
		op = now
		return op.Status == done, nil
	})
	if err != nil || op.Error == nil || len(op.Error.Errors) == 0 {
		return err
	}
	e := &Error{Status: op.HTTPStatus, Reason: op.Error.Errors[0].Code, Message: op.Error.Errors[0].Message}
	return fault.Wrap(e.faultClass(), e, e.remedy())
}
