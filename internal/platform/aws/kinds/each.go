package kinds

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
)

// atOnce bounds the describing calls that one list has under way.
const atOnce = 16

// each calls f for every item, some at a time, and returns the results that
// are not nil, in the order of the items.
func each[T, R any](ctx context.Context, items []T, f func(context.Context, T) (*R, error)) ([]*R, error) {
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

// eachOf is each for calls that find several things an item.
func eachOf[T, R any](ctx context.Context, items []T, f func(context.Context, T) ([]*R, error)) ([]*R, error) {
	lists, err := each(ctx, items, func(ctx context.Context, item T) (*[]*R, error) {
		list, err := f(ctx, item)
		return &list, err
	})
	var out []*R
	for _, l := range lists {
		out = append(out, *l...)
	}
	return out, err
}

// paged is a paginator of any service of the SDK.
type paged[O, P any] interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(*P)) (*O, error)
}

// pages gathers the items of all pages.
func pages[O, P, T any](ctx context.Context, p paged[O, P], items func(*O) []T) ([]T, error) {
	var out []T
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, items(page)...)
	}
	return out, nil
}
