package store

import (
	"bytes"
	"context"

	"golang.org/x/sync/errgroup"
)

// ResolveConflict returns the result of a write that a server has rejected because of its condition, after
// the given number of tries: the answer to an earlier try may have been lost, so that the condition
// failed because of our own write. Otherwise the error has class fault.Conflict.
func ResolveConflict(ctx context.Context, s Store, key string, data []byte, o PutOptions, tries int) (Version, error) {
	if tries > 1 {
		if now, v, err := s.Get(ctx, key); err == nil && bytes.Equal(now, data) {
			return v, nil
		}
	}
	if o.IfAbsent {
		return "", ExistsError(URL(s, key))
	}
	return "", ChangedError(URL(s, key))
}

// maxParallel is how many objects Each processes concurrently.
const maxParallel = 16

// Each calls do for all items, several at a time, until the first error. It is for
// servers without bulk requests.
func Each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxParallel)
	for _, one := range all {
		g.Go(func() error { return do(ctx, one) })
	}
	return g.Wait()
}
