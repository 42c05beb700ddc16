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
// the keeper, and one that stands by. The kernel ends the keeper's lock with its
// process; who stands by has waited for it, goes on as the keeper, and starts
// another to stand by.

// respite is the least time between two keepers, and between two that stand by: one that
// fails as soon as it begins is not to keep the host busy.
const respite = time.Second

// become takes the keeper's lock, for which it stands by if there is a keeper. Who only asks
// whether a lock is held holds it for a moment, so it tries more than once.
func become(ctx context.Context, s site.Site, log *slog.Logger) (*os.File, error) {
	var place *os.File
	defer func() {
		if place != nil {
			place.Close() // ends the lock
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
				log.Warn("the keeper has ended; who stood by goes on")
				rest(ctx, respite-time.Since(begun))
			}
			return lock, nil
		}
		if place == nil {
			if place, held, err = site.TryLock(standbyFile(s)); err != nil {
				return nil, err
			}
			if !held && try == 50 {
				return nil, errors.New("another process does already, and one more stands by")
			}
		}
		if rest(ctx, look); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stands reports whether a process is the keeper, is about to be, or stands by.
func stands(s site.Site) (bool, error) {
	for _, file := range []string{lockFile(s), standbyFile(s)} {
		if held, err := site.Locked(file); err != nil || held {
			return held, err
		}
	}
	return false, nil
}

// accompany sees to it that a process stands by, until ctx ends or dismiss is called, which
// returns when that process has ended.
func accompany(ctx context.Context, s site.Site, args []string, log *slog.Logger) (dismiss func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := standBy(ctx, s, args); err != nil && ctx.Err() == nil {
				log.Warn("nobody stands by for the keeper; another is started", "error", err)
			}
			rest(ctx, respite)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// standBy runs a process that stands by until it or ctx ends, unless there is one already.
func standBy(ctx context.Context, s site.Site, args []string) error {
	if held, err := site.Locked(standbyFile(s)); err != nil || held {
		return err
	}
	log, err := os.OpenFile(LogFile(s), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	if err := machine.Detached(ctx, log, args).Run(); err != nil {
		return fmt.Errorf("it ended: %w", err)
	}
	return errors.New("it ended")
}
