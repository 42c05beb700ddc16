// Package observe finds out what exists: all kinds are listed concurrently, each in as few calls as
// its API allows.
//
// It must not know what is desired, except for the names and shared objects that some APIs need in
// a query.
package observe

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Observer lists kinds with their clients.
type Observer struct {
	// Client returns the client that a kind's List needs.
	Client func(kind string) any
	// Limit is the maximum number of concurrent lists; 0 means 16.
	Limit int
	// Sleep waits between attempts of a throttled list, or returns the context's error.
	Sleep func(context.Context, time.Duration) error
	// Done, if not nil, is called after each kind was listed; calls may overlap.
	Done func(kind string, objects int)
}

// Snapshot lists all kinds in the scope of one cluster. want names the shared objects and the keys
// that List may need; all requests everything that belongs to the cluster, no matter who created
// it.
func (o *Observer) Snapshot(ctx context.Context, cluster string, kinds []resource.Any, want *graph.Graph, all bool) (plan.Snapshot, error) {
	scopes := Scopes(cluster, want, all)
	found := make([][]resource.Object, len(kinds))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(o.Limit, 0))
	if o.Limit == 0 {
		g.SetLimit(16)
	}
	for i, k := range kinds {
		g.Go(func() (err error) {
			found[i], err = o.List(ctx, k, scopes(k.KindName()))
			if err == nil && o.Done != nil {
				o.Done(k.KindName(), len(found[i]))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := plan.Snapshot{}
	for i, k := range kinds {
		out[k.KindName()] = found[i]
	}
	return out, nil
}

// List observes one kind, and retries while it is throttled or the response is lost.
func (o *Observer) List(ctx context.Context, k resource.Any, s resource.Scope) ([]resource.Object, error) {
	var list []resource.Object
	err := fault.Retry(ctx, o.Sleep, func() (err error) {
		list, err = k.Observe(ctx, o.Client(k.KindName()), s)
		return err
	})
	return list, err
}

// Scopes returns the scope of each kind for a desired graph.
func Scopes(cluster string, want *graph.Graph, all bool) func(kind string) resource.Scope {
	byKind := map[string]resource.Scope{}
	for n := range want.All() {
		s := byKind[n.Address.Kind]
		if n.Adopt != "" {
			s.Adopted = append(s.Adopted, n.Adopt)
		} else {
			s.Names = append(s.Names, n.Kind.KeyOf(n.Want))
		}
		byKind[n.Address.Kind] = s
	}
	return func(kind string) resource.Scope {
		s := byKind[kind]
		s.Cluster, s.All = cluster, all
		return s
	}
}
