package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// Where the host has no systemd, two processes of a cluster look after each other:
// the keeper and its standby. The kernel releases the keeper's lock when its process
// dies; the standby, which has waited for the lock, becomes the keeper and starts a
// new standby.

// standbyPause is the minimum time between starts of two keepers, or of two standbys: one that
// fails on startup must not keep the host busy.
const standbyPause = time.Second

// acquireLock acquires the keeper's lock, as the standby if there is a keeper. A process that only
// checks whether a lock is held takes it for a moment, so become tries more than once.
func acquireLock(ctx context.Context, s site.Site, log *slog.Logger) (*os.File, error) {
	var place *os.File
	defer func() {
		if place != nil {
			place.Close() // releases the lock
		}
	}()
	begun := time.Now()
	for try := 0; ; try++ {
		lock, held, err := site.TryLock(lockFile(s))
		if err != nil {
			return nil, err
		}
		if held {
			if place != nil {
				log.Warn("the keeper has ended; the standby takes over")
				sleep(ctx, standbyPause-time.Since(begun))
			}
			return lock, nil
		}
		if place == nil {
			if place, held, err = site.TryLock(standbyFile(s)); err != nil {
				return nil, err
			}
			if !held && try == 50 {
				return nil, errors.New("another process already does, and a standby is waiting")
			}
		}
		if sleep(ctx, pollPeriod); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// isRunning reports whether any process is the keeper, is about to be, or is the standby.
func isRunning(s site.Site) (bool, error) {
	for _, file := range []string{lockFile(s), standbyFile(s)} {
		if held, err := site.Locked(file); err != nil || held {
			return held, err
		}
	}
	return false, nil
}

// ensureStandby makes sure that there is a standby process, until ctx is done or dismiss is
// called. dismiss returns when the standby has exited.
func ensureStandby(ctx context.Context, s site.Site, args []string, log *slog.Logger) (dismiss func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := runStandby(ctx, s, args); err != nil && ctx.Err() == nil {
				log.Warn("the keeper has no standby; starting one", "error", err)
			}
			sleep(ctx, standbyPause)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// runStandby runs a standby process until it exits or ctx is done, unless there is one already.
func runStandby(ctx context.Context, s site.Site, args []string) error {
	if held, err := site.Locked(standbyFile(s)); err != nil || held {
		return err
	}
	log, err := os.OpenFile(LogFile(s), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	if err := machine.DetachedCommand(ctx, log, args).Run(); err != nil {
		return fmt.Errorf("it ended: %w", err)
	}
	return errors.New("it ended")
}
