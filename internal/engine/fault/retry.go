package fault

import (
	"context"
	"time"
)

// A question is asked at most so often, and first again after so long; each wait
// is twice the one before.
const (
	tries     = 8
	firstWait = 200 * time.Millisecond
)

// Retry repeats a question, which must change nothing, while its error may be
// temporary or its answer was lost. It returns the last error, or sleep's error:
// sleep waits, or fails when ctx ends first.
func Retry(ctx context.Context, sleep func(context.Context, time.Duration) error, question func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := question()
		if c := Of(err); err == nil || try == tries || ctx.Err() != nil || !(c.Retryable() || c == Lost) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}
