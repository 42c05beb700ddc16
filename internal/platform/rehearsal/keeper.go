package rehearsal

import (
	"context"
	"log/slog"
	"time"

	"kops.local/kops/internal/engine/fault"
)

const (
	// every is how often an emulator is looked at, when no request has changed anything;
	// settle is how long a change may bring others with it, before it is looked at.
	every, settle = 2 * time.Second, 50 * time.Millisecond
)

// Keeper has this host be as an emulator says: again and again, and soon after a change.
type Keeper struct {
	// Pass has this host be so once. What goes wrong is reported once, and tried again; what
	// may be a matter of the moment only if it goes wrong again.
	Pass func(context.Context) error
	// Ended is closed when the emulator has ended by itself, and Failure says why; nil: it does not.
	Ended   <-chan struct{}
	Failure func() error
	Log     *slog.Logger

	// Wake is full if the emulator must be looked at soon.
	Wake chan struct{}
}

// NewKeeper returns a keeper.
func NewKeeper(log *slog.Logger, pass func(context.Context) error) *Keeper {
	return &Keeper{Pass: pass, Log: log, Wake: make(chan struct{}, 1)}
}

// Changed has the emulator looked at soon.
func (k *Keeper) Changed() {
	select {
	case k.Wake <- struct{}{}:
	default: // it is about to be
	}
}

// Keep passes until the context ends, or the emulator.
func (k *Keeper) Keep(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, excused := "", false
	for {
		err := k.Pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			last, excused = "", false
		} else if passing(err) && !excused {
			excused = true
			k.Changed()
		} else if err.Error() != last {
			last = err.Error()
			k.Complain(err)
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

// passing reports whether an error may be one of the moment: what the emulator listed may be
// removed before it is asked about.
func passing(err error) bool { return fault.Is(err, fault.Gone) || fault.Of(err).Retryable() }

// Complain tells what went wrong, and what can be done.
func (k *Keeper) Complain(err error) {
	log := k.Log
	if remedy := fault.Remedy(err); remedy != "" {
		log = log.With("remedy", remedy)
	}
	log.Error("play the cloud", "error", err)
}
