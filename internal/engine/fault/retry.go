package fault

import (
	"context"
	"errors"
	"time"
)

// Limits for repeating a query: how many attempts, and the wait before the second, which doubles
// each time.
const (
	tries     = 8
	firstWait = 200 * time.Millisecond
)

// MostTimeouts is how often one request is sent to a server that does not answer it in time. Each
// takes long.
const MostTimeouts = 3

// TimedOut reports whether a server did not answer in time.
func TimedOut(err error) bool {
	var e interface{ Timeout() bool }
	return errors.As(err, &e) && e.Timeout()
}

// IsLast reports whether the attempt that failed with err, counted from 1, is the last of at most
// tries.
func IsLast(attempt, tries int, err error) bool {
	return attempt >= tries || attempt >= MostTimeouts && TimedOut(err)
}

// Retry repeats a query, which must not change anything, while its error may be temporary or its
// response was lost. It waits at least as long as the error asks. It returns the last error, or
// sleep's error: sleep waits, or fails if ctx ends first.
func Retry(ctx context.Context, sleep func(context.Context, time.Duration) error, question func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := question()
		if c := Of(err); err == nil || IsLast(try, tries, err) || ctx.Err() != nil || !(c.Retryable() || c == Lost) {
			return err
		}
		if err := sleep(ctx, max(wait, After(err))); err != nil {
			return err
		}
		wait *= 2
	}
}
