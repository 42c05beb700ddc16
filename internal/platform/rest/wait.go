package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// Waits between polls of an operation: the first, and the longest, which doubling leads to.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Await calls poll until it returns true. poll asks for the state of operations that continue after
// the response which started them; one call can ask for several. A poll that fails temporarily is
// repeated. If it keeps failing, or Patience ends, the error has the class Unanswered, because the
// operations may still take effect. poll keeps their own errors for its caller.
func (c Client) Await(ctx context.Context, poll func(context.Context) (bool, error)) error {
	outer := ctx
	if c.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Patience, fault.New(c.unanswered(), "the operation is not done after %s", c.Patience))
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		done := false
		err := fault.Retry(ctx, c.pause, func() (err error) {
			done, err = poll(ctx)
			return err
		})
		if done && err == nil {
			return nil
		}
		if err == nil {
			err = c.pause(ctx, pause)
		}
		switch class := fault.Of(err); {
		case err == nil:
		case outer.Err() != nil:
			return outer.Err()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case class.Retryable() || class == fault.Gone: // an operation may be deleted some time after its end
			return fault.Wrap(c.unanswered(), fmt.Errorf("wait for an operation: %w", err), "")
		default:
			return fmt.Errorf("wait for an operation: %w", err)
		}
	}
}

// maxAfter is the longest wait that a server can ask for.
const maxAfter = time.Minute

// retryAfter returns how long a server asks to wait, or 0: Retry-After (RFC 9110, section 10.2.3),
// or else, if the limit has no request left, the time in which it grows by one until RateLimit-Reset,
// a Unix time. The response's own date is the start of both, as this machine's clock may differ.
func retryAfter(h http.Header) time.Duration {
	now, noDate := http.ParseTime(h.Get("Date"))
	until := func(t time.Time) time.Duration {
		if noDate != nil {
			return 0
		}
		return max(t.Sub(now), 0)
	}
	number := func(key string) int64 {
		n, err := strconv.ParseUint(h.Get(key), 10, 32)
		if err != nil {
			return 0
		}
		return int64(n)
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return min(until(at), maxAfter)
	}
	if n := number("Retry-After"); n > 0 {
		return min(time.Duration(n)*time.Second, maxAfter)
	}
	if limit := number("RateLimit-Limit"); limit > 0 && h.Get("RateLimit-Remaining") == "0" {
		return min(until(time.Unix(number("RateLimit-Reset"), 0))/time.Duration(limit), maxAfter)
	}
	return 0
}
