package kinds

import "context"

// paged is a paginator for any service of the SDK.
type paged[O, P any] interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(*P)) (*O, error)
}

// pages collects the items of all pages.
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
