package observe

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/resource"
)

// atOnce limits the concurrent calls of one list.
const atOnce = 16

// Each calls f for every item, some of them concurrently, and returns the results that are not nil,
// in the order of the items.
func Each[T, R any](ctx context.Context, items []T, f func(context.Context, T) (*R, error)) ([]*R, error) {
	found := make([]*R, len(items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, item := range items {
		g.Go(func() (err error) {
			found[i], err = f(ctx, item)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(r *R) bool { return r == nil }), nil
}

// EachOf is Each for calls that return several results per item.
func EachOf[T, R any](ctx context.Context, items []T, f func(context.Context, T) ([]R, error)) ([]R, error) {
	lists, err := Each(ctx, items, func(ctx context.Context, item T) (*[]R, error) {
		list, err := f(ctx, item)
		return &list, err
	})
	var out []R
	for _, l := range lists {
		out = append(out, *l...)
	}
	return out, err
}

// Prefetch makes a client for one observation query everything that can be found by the cluster's
// name alone, before the desired objects are known. Later lists through this client use the results
// or wait for them; failed requests are repeated, and their errors returned.
func Prefetch(ctx context.Context, kinds []resource.Any, client any, cluster string) {
	var asking sync.WaitGroup
	for _, k := range kinds {
		if k.Early() {
			asking.Go(func() { _, _ = k.Observe(ctx, client, resource.Scope{Cluster: cluster}) }) // see above
		}
	}
	asking.Wait()
}
