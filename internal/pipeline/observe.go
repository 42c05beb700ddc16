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
	Desired
	Have plan.Snapshot
}

// Observe lists the existing objects of the wanted kinds: those that can belong to the graph, or
// all that belong to the cluster.
func (w Desired) Observe(ctx context.Context, all bool) (*Observed, error) {
	client := w.prefetched
	if client == nil {
		client = w.newClient()
	}
	have, err := w.observer(client).Snapshot(ctx, w.Cluster.Spec.Name, w.Kinds, w.Graph, all)
	if err != nil {
		return nil, err
	}
	w.prefetched = nil
	return &Observed{w, have}, nil
}

// Filter restricts the desired state to some kinds, together with the shared objects that they refer
// to: those already exist, and are only looked up.
func (w Desired) Filter(kinds []resource.Any) Desired {
	part := map[resource.Address]bool{}
	for _, n := range slices.Backward(slices.Collect(w.Graph.All())) { // references point to earlier nodes
		if !part[n.Address] && !hasKind(kinds, n.Kind) {
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
		if !hasKind(w.Kinds, n.Kind) {
			w.Kinds = append(w.Kinds, n.Kind)
		}
	}
	w.scope = nil
	return w
}

// hasKind reports whether a kind is among kinds.
func hasKind(kinds []resource.Any, kind resource.Any) bool {
	return slices.ContainsFunc(kinds, func(k resource.Any) bool { return k.KindName() == kind.KindName() })
}

// Shared returns a desired state with only the shared objects that the spec refers to.
func (o *Opened) Shared() (Desired, error) {
	w := Desired{Opened: o, Kinds: o.Provider.Kinds, Graph: &graph.Graph{}}
	if o.Provider.Declare.Shared == nil {
		return w, nil
	}
	shared, err := o.Provider.Declare.Shared(o.Cluster.Spec)
	if err != nil {
		return w, err
	}
	return w, w.Graph.Add(shared...)
}

// Nothing returns an empty desired state, with neither files nor resources.
func (o *Opened) Nothing() Desired {
	return Desired{Opened: o, Kinds: slices.Concat(o.World.Buckets.Kinds(), o.Provider.Kinds), Graph: &graph.Graph{}}
}

// newClient returns the platform's client for one observation: what several kinds share is only
// queried once.
func (w Desired) newClient() any {
	if w.Session.Snapshot == nil {
		return w.Session.Client
	}
	return w.Session.Snapshot()
}

// observer returns an observer that lists the current objects of kinds.
func (w Desired) observer(platform any) *observe.Observer {
	return &observe.Observer{Sleep: w.World.Sleep, Limit: 32, Client: w.clients(platform)}
}

// clients returns the client of each kind: the platform's client, or a folder of files.
func (w Desired) clients(platform any) func(kind string) any {
	wanted := managedfile.WantedDigests(w.Graph) // computes digests of all files, so it is called only once
	return func(kind string) any {
		switch kind {
		case managedfile.Keyset.Name:
			return w.Places.keys
		case managedfile.Secret.Name:
			return w.Places.secrets
		case managedfile.OwnProgram.Name:
			p := managedfile.Programs{Base: w.Places.clusterFolder}
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
