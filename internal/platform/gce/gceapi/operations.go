package gceapi

import (
	"context"
	"strconv"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/rest"
	"kops.local/kops/internal/store/web"
)

// done is the status of an operation that has ended, successfully or not.
const done = "DONE"

// Await returns a function that takes the results of a write, and waits for its operation. It is
// used as
//
//	c.Done(ctx)(c.Compute.Disks.Delete(…).Context(ctx).Do())
func (c *Clients) Await(ctx context.Context) func(*compute.Operation, error) error {
	return func(op *compute.Operation, err error) error {
		if err != nil {
			return PlainError(err)
		}
		return c.Wait(ctx, op)
	}
}

// Wait waits for an operation and returns its error, which has the same class as the same error of
// a call. A failed poll is retried.
func (c *Clients) Wait(ctx context.Context, op *compute.Operation) error {
	err := rest.Client{Pause: c.sleep}.Await(ctx, func(ctx context.Context) (bool, error) {
		if op.Status == done {
			return true, nil
		}
		now, err := c.pollOperation(ctx, op.SelfLink)
		if err != nil {
			return false, err
		}
		op = now
		return op.Status == done, nil
	})
	if err != nil {
		return err
	}
	return operationError(c.Project, op)
}

// pollOperation blocks until a zonal, regional or global operation has ended, or for two minutes, or
// less if Google is busy (zoneOperations.wait).
func (c *Clients) pollOperation(ctx context.Context, link string) (*compute.Operation, error) {
	ctx = web.WithLongPoll(ctx)
	project, name := Place(link, "projects"), Name(link)
	if zone := Place(link, "zones"); zone != "" {
		return Result(c.Compute.ZoneOperations.Wait(project, zone, name).Context(ctx).Do())
	}
	if region := Place(link, "regions"); region != "" {
		return Result(c.Compute.RegionOperations.Wait(project, region, name).Context(ctx).Do())
	}
	return Result(c.Compute.GlobalOperations.Wait(project, name).Context(ctx).Do())
}

// operationError returns the first error of an operation, or nil.
func operationError(project string, op *compute.Operation) error {
	if op.Error == nil || len(op.Error.Errors) == 0 {
		return nil
	}
	first := op.Error.Errors[0]
	e := &Error{Status: int(op.HttpErrorStatusCode), Reason: first.Code, Message: first.Message, Details: map[string]string{}}
	for _, d := range first.ErrorDetails {
		if q := d.QuotaInfo; q != nil {
			e.Details["metricName"], e.Details["limit"] = q.MetricName, strconv.FormatFloat(q.Limit, 'f', -1, 64)
		}
		if i := d.ErrorInfo; i != nil {
			for k, v := range i.Metadatas {
				e.Details[k] = v
			}
		}
	}
	method := "POST"
	if op.OperationType == "delete" {
		method = "DELETE"
	}
	return classifyError(request{method: method, host: "compute.googleapis.com", path: Link(op.TargetLink), project: project}, e)
}
