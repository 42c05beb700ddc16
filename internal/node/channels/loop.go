package channels

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// startInterval is the time between attempts while the control plane starts, for
	// which startTries attempts are enough.
	startInterval = time.Second
	startTries    = 60
	// retryInterval is the time between later attempts, until one succeeds.
	retryInterval = 5 * time.Second
	// lookInterval is how often channels that are files are read between passes.
	lookInterval = 5 * time.Second
)

// Loop applies channels repeatedly.
type Loop struct {
	Applier *Applier
	// URLs are the channels.
	URLs []string
	// Interval is the time between passes once one has succeeded. A channel that is a
	// file is applied within seconds after it changes.
	Interval time.Duration
	// Node is the node that gets Labels at each Interval; empty means none.
	Node   string
	Labels map[string]string

	applied, labelled atomic.Bool
}

// Run makes passes until the context ends, and returns its error. The labels do
// not wait for add-ons, because some add-ons wait for the labels.
func (l *Loop) Run(ctx context.Context) error {
	var running sync.WaitGroup
	if l.Node != "" {
		running.Go(func() { l.repeat(ctx, "label the node", l.label, &l.labelled) })
	}
	running.Go(func() { l.repeat(ctx, "apply the add-ons", l.apply, &l.applied) })
	running.Wait()
	return ctx.Err()
}

// Once labels the node, and runs one pass over the add-ons.
func (l *Loop) Once(ctx context.Context) error {
	return errors.Join(l.label(ctx), l.apply(ctx))
}

func (l *Loop) apply(ctx context.Context) error { return l.Applier.Pass(ctx, l.URLs) }

func (l *Loop) label(ctx context.Context) error {
	if l.Node == "" {
		return nil
	}
	return l.Applier.LabelNode(ctx, l.Node, l.Labels)
}

// repeat calls do until the context ends, and records in ok whether the last call succeeded.
func (l *Loop) repeat(ctx context.Context, what string, do func(context.Context) error, ok *atomic.Bool) {
	once := false
	for n := 1; ; n++ {
		seen := l.files(ctx)
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		ok.Store(err == nil)
		if err != nil {
			l.Applier.Log.Error("cannot "+what+"; trying again", "error", err)
		}
		once = once || err == nil
		interval := l.Interval
		switch {
		case !once && n < startTries:
			interval = startInterval
		case !once:
			interval = retryInterval
		}
		if l.waitForChange(ctx, interval, seen) != nil {
			return
		}
	}
}

// waitForChange waits for an interval, or until a channel that is a file has changed.
func (l *Loop) waitForChange(ctx context.Context, interval time.Duration, seen [sha256.Size]byte) error {
	for left := interval; left > 0; left -= lookInterval {
		if err := l.Applier.Clock.Sleep(ctx, min(left, lookInterval)); err != nil {
			return err
		}
		if l.files(ctx) != seen {
			return nil
		}
	}
	return nil
}

// files returns a digest of the channels that are files. An unreadable one counts
// as empty: the pass reports the reason.
func (l *Loop) files(ctx context.Context) [sha256.Size]byte {
	var all []byte
	for _, url := range l.URLs {
		if !strings.HasPrefix(url, "file://") && !strings.HasPrefix(url, "/") {
			continue
		}
		text, err := l.Applier.Fetch(ctx, placeOf(url))
		if err != nil {
			text = nil
		}
		sum := sha256.Sum256(text)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}

// ServeHTTP answers /readyz: 200 if the last attempts to apply the add-ons and the
// labels succeeded, otherwise 503.
func (l *Loop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/readyz":
		http.NotFound(w, r)
	case !l.applied.Load() || l.Node != "" && !l.labelled.Load():
		http.Error(w, "the last pass failed, or has not run yet", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusOK)
	}
}
