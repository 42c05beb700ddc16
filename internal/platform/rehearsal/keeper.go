package rehearsal

import (
	"context"
	"log/slog"
	"time"

	"kops.local/kops/internal/engine/fault"
)

const (
	// pollPeriod is the polling interval for an emulator when no request has changed anything; settle is
	// how long to wait for follow-up changes before polling after a change.
	pollPeriod, settle = 2 * time.Second, 50 * time.Millisecond
)

// Keeper makes this host match an emulator's state, periodically and soon after a change.
type Keeper struct {
	// Sync makes this host match once. An error is reported once, and the pass is retried; an error
	// that may be transient is reported only if it repeats.
	Sync func(context.Context) error
	// Ended is closed when the emulator has stopped on its own, and Failure returns why; nil: it
	// never does.
	Ended   <-chan struct{}
	Failure func() error
	Log     *slog.Logger

	// Wake is non-empty if the emulator must be polled soon.
	Wake chan struct{}
}

// NewKeeper returns a keeper.
func NewKeeper(log *slog.Logger, pass func(context.Context) error) *Keeper {
	return &Keeper{Sync: pass, Log: log, Wake: make(chan struct{}, 1)}
}

// Trigger makes the keeper poll the emulator soon.
func (k *Keeper) Trigger() {
	select {
	case k.Wake <- struct{}{}:
	default: // already scheduled
	}
}

// Run runs passes until the context is done or the emulator has stopped.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	last, excused := "", false
	for {
		err := k.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			last, excused = "", false
		} else if isTransient(err) && !excused {
			excused = true
			k.Trigger()
		} else if err.Error() != last {
			last = err.Error()
			k.LogError(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Ended:
			return k.Failure()
		case <-tick.C:
		case <-k.Wake:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(settle):
			}
		}
	}
}

// isTransient reports whether an error may be transient: an object that the emulator listed may be
// removed before it is read.
func isTransient(err error) bool { return fault.Is(err, fault.Gone) || fault.Of(err).Retryable() }

// LogError logs what went wrong, and the remedy.
func (k *Keeper) LogError(err error) {
	log := k.Log
	if remedy := fault.Remedy(err); remedy != "" {
		log = log.With("remedy", remedy)
	}
	log.Error("emulate the cloud", "error", err)
}
