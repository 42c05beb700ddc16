package pipeline

import (
	"context"
	"slices"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
)

// Observed is the desired state and the existing objects.
type Observed struct {
	Wanted
	Have plan.Snapshot
}

// Observe lists what there is of the wanted kinds: what can belong to the graph, or all
// that belongs to the cluster.
func (w Wanted) Observe(ctx context.Context, all bool) (*Observed, error) {
	client := w.prefetched
	if client == nil {
		client = w.fresh()
	}
	have, err := w.observer(client).Snapshot(ctx, w.Cluster.Spec.Name, w.Kinds, w.Graph, all)
	if err != nil {
		return nil, err
	}
	w.prefetched = nil
	return &Observed{w, have}, nil
}

// Only restricts the desired state to some kinds, together with the shared objects that they
// refer to: those exist already, and are only looked up.
func (w Wanted) Only(kinds []resource.Any) Wanted {
	part := map[resource.Address]bool{}
	for _, n := range slices.Backward(slices.Collect(w.Graph.All())) { // what refers comes after what it refers to
		if !part[n.Address] && !has(kinds, n.Kind) {
			continue
		}
		part[n.Address] = true
		for _, r := range n.Refs() {
			if used, _ := w.Graph.Get(r); used.Adopt != "" {
				part[r] = true
			}
		}
	}
	w.Graph = w.Graph.Select(func(n resource.Node) bool { return part[n.Address] })
	w.Kinds = slices.Clone(kinds)
	for n := range w.Graph.All() {
		if !has(w.Kinds, n.Kind) {
			w.Kinds = append(w.Kinds, n.Kind)
		}
	}
	w.scope = nil
	return w
}

// has reports whether a kind is among kinds.
func has(kinds []resource.Any, kind resource.Any) bool {
	return slices.ContainsFunc(kinds, func(k resource.Any) bool { return k.KindName() == kind.KindName() })
}

// Shared wants nothing of a cluster's platform but what the spec shares.
func (o *Opened) Shared() (Wanted, error) {
	w := Wanted{Opened: o, Kinds: o.Provider.Kinds, Graph: &graph.Graph{}}
	if o.Provider.Shared == nil {
		return w, nil
	}
	shared, err := o.Provider.Shared(o.Cluster.Spec)
	if err != nil {
		return w, err
	}
	return w, w.Graph.Add(shared...)
}

// Nothing wants nothing of a cluster, neither files nor resources.
func (o *Opened) Nothing() Wanted {
	return Wanted{Opened: o, Kinds: slices.Concat(o.World.Buckets.Kinds(), o.Provider.Kinds), Graph: &graph.Graph{}}
}

// fresh returns the platform's client for one observation: what several kinds share
// is asked once.
func (w Wanted) fresh() any {
	if w.Session.Snapshot == nil {
		return w.Session.Client
	}
	return w.Session.Snapshot()
}

// observer lists kinds as they are now.
func (w Wanted) observer(platform any) *observe.Observer {
	return &observe.Observer{Sleep: w.World.Sleep, Limit: 32, Client: w.clients(platform)}
}

// clients returns the client of each kind: the platform's client, or a place of files.
func (w Wanted) clients(platform any) func(kind string) any {
	wanted := managedfile.Wanted(w.Graph) // digests of all files, so once and not for each
	return func(kind string) any {
		switch kind {
		case managedfile.Keyset.Name:
			return w.Places.keys
		case managedfile.Secret.Name:
			return w.Places.secrets
		case managedfile.OwnProgram.Name:
			p := managedfile.Programs{Base: w.Places.own}
			if w.archive != nil {
				p.Read = w.archive.Read
			}
			return p
		}
		if slices.ContainsFunc(w.World.Buckets.Kinds(), func(k resource.Any) bool { return k.KindName() == kind }) {
			return managedfile.Files{Areas: w.Places.files[kind], Wanted: wanted}
		}
		return platform
	}
}
