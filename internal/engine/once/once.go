// Package once makes each query once: it remembers the responses of one observation, so that kinds
// that read the same description share a request.
//
// It must not know what is queried.
package once

import (
	"context"
	"errors"
	"sync"
)

// Answers holds the responses of one observation. A nil *Answers remembers nothing. Answers must
// not be used to observe changes made after they were fetched.
type Answers struct {
	mu      sync.Mutex
	entries map[string]*answer
}

type answer struct {
	done  chan struct{}
	value any
	err   error
}

// New returns empty Answers.
func New() *Answers { return &Answers{entries: map[string]*answer{}} }

// Ask returns the response to the query that key names, and makes it at most once. If the query is
// under way, Ask waits for it; an error is not remembered, so that a retry queries again. All
// callers get the same value and must not change it.
func Ask[T any](ctx context.Context, known *Answers, key string, question func(context.Context) (T, error)) (T, error) {
	if known == nil {
		return question(ctx)
	}
	for {
		a, asked := known.entry(key)
		if asked {
			select {
			case <-a.done:
			case <-ctx.Done():
				var none T
				return none, ctx.Err()
			}
			if errors.Is(a.err, context.Canceled) && ctx.Err() == nil {
				continue // the other caller's context was cancelled, but not this one's
			}
		} else {
			a.value, a.err = question(ctx)
			if a.err != nil {
				known.mu.Lock()
				delete(known.entries, key)
				known.mu.Unlock()
			}
			close(a.done)
		}
		value, _ := a.value.(T) // the zero value if there was an error
		return value, a.err
	}
}

// entry returns the entry for a query, and whether another caller already makes it.
func (s *Answers) entry(key string) (a *answer, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, asked = s.entries[key]; !asked {
		a = &answer{done: make(chan struct{})}
		s.entries[key] = a
	}
	return a, asked
}
