// Package once asks each question once: it remembers the answers of one observation of the
// world, so that kinds which read the same description share one request.
//
// It must not know what is asked.
package once

import (
	"context"
	"errors"
	"sync"
)

// Answers holds the answers of one observation. A nil *Answers remembers nothing. Answers must
// not be used to observe changes made after they were fetched.
type Answers struct {
	mu sync.Mutex
	by map[string]*answer
}

type answer struct {
	done  chan struct{}
	value any
	err   error
}

// New returns answers to no question yet.
func New() *Answers { return &Answers{by: map[string]*answer{}} }

// Ask answers the question that key names, at most once. A question that is being asked is
// waited for; an error is not remembered, so that a retry asks again. Every asker gets the
// same value and must not change it.
func Ask[T any](ctx context.Context, known *Answers, key string, question func(context.Context) (T, error)) (T, error) {
	if known == nil {
		return question(ctx)
	}
	for {
		a, asked := known.of(key)
		if asked {
			select {
			case <-a.done:
			case <-ctx.Done():
				var none T
				return none, ctx.Err()
			}
			if errors.Is(a.err, context.Canceled) && ctx.Err() == nil {
				continue // who asked was called off, as another part of its list failed; this asker was not
			}
		} else {
			a.value, a.err = question(ctx)
			if a.err != nil {
				known.mu.Lock()
				delete(known.by, key)
				known.mu.Unlock()
			}
			close(a.done)
		}
		value, _ := a.value.(T) // the zero value after an error
		return value, a.err
	}
}

// of returns the answer to a question, and whether somebody asks it already.
func (s *Answers) of(key string) (a *answer, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, asked = s.by[key]; !asked {
		a = &answer{done: make(chan struct{})}
		s.by[key] = a
	}
	return a, asked
}
