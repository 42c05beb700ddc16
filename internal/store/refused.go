package store

import (
	"bytes"
	"context"

	"golang.org/x/sync/errgroup"
)

// Refused is what a write comes to whose condition a server says does not hold, after so
// many tries: the answer to an earlier one may have been lost, and the refusal be of our
// own write. Else it is an error of class fault.Conflict.
func Refused(ctx context.Context, s Store, key string, data []byte, o PutOptions, tries int) (Version, error) {
	if tries > 1 {
		if now, v, err := s.Get(ctx, key); err == nil && bytes.Equal(now, data) {
			return v, nil
		}
	}
	if o.IfAbsent {
		return "", Exists(URL(s, key))
	}
	return "", Changed(URL(s, key))
}

// atOnce is how many objects Each handles at a time.
const atOnce = 16

// Each does something to all, some at a time, until the first error. It is for servers
// that have no request for many objects.
func Each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, one := range all {
		g.Go(func() error { return do(ctx, one) })
	}
	return g.Wait()
}
