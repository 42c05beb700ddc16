package gceapi

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
)

// done is the status of an operation that has ended, well or not.
const done = "DONE"

// Waits between looks at an operation. Each look lasts until the operation has ended, or two
// minutes, or less when Google has much to do (zoneOperations.wait).
const (
	firstLook = 100 * time.Millisecond
	longLook  = 2 * time.Second
)

// Done returns a function that takes what a write returned, and waits for its operation.
// It is used as
//
//	c.Done(ctx)(c.Compute.Disks.Delete(…).Context(ctx).Do())
func (c *Clients) Done(ctx context.Context) func(*compute.Operation, error) error {
	return func(op *compute.Operation, err error) error {
		if err != nil {
			return Bare(err)
		}
		return c.Wait(ctx, op)
	}
}

// Wait returns when an operation has ended, with the operation's error. Its class is the class of
// the same error of a call. A failed poll is repeated.
func (c *Clients) Wait(ctx context.Context, op *compute.Operation) error {
	link := op.SelfLink
	for pause := firstLook; op.Status != done; pause = min(2*pause, longLook) {
		err := fault.Retry(ctx, c.sleep, func() (err error) {
			op, err = c.look(ctx, link)
			return err
		})
		if err != nil {
			if fault.Is(err, fault.Gone) { // Google forgets operations after days
				err = fault.Wrap(fault.Lost, err, "")
			}
			return fmt.Errorf("wait for an operation: %w", err)
		}
		if op.Status == done {
			break
		}
		if err := c.sleep(ctx, pause); err != nil {
			return err
		}
	}
	return operationError(c.Project, op)
}

// look waits a while for an operation, which is of a zone, of a region, or global.
func (c *Clients) look(ctx context.Context, link string) (*compute.Operation, error) {
	project, name := Place(link, "projects"), Name(link)
	if zone := Place(link, "zones"); zone != "" {
		return Got(c.Compute.ZoneOperations.Wait(project, zone, name).Context(ctx).Do())
	}
	if region := Place(link, "regions"); region != "" {
		return Got(c.Compute.RegionOperations.Wait(project, region, name).Context(ctx).Do())
	}
	return Got(c.Compute.GlobalOperations.Wait(project, name).Context(ctx).Do())
}

// operationError is the first error that an operation ended with, or nil.
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
	return classed(request{method: method, host: "compute.googleapis.com", path: Link(op.TargetLink), project: project}, e)
}
