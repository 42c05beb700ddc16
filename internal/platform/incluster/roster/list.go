package roster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
)

const (
	// Remembered is how long a list is cached: requests count towards a quota of the account.
	Remembered = time.Minute
	// Recent is the maximum age of a list that decides what is done to machines. It is not shorter
	// because such lists are long: every machine may include its user data.
	Recent = 15 * time.Second
	// Fresh is the maximum age of a list in which a machine is missing.
	Fresh = 5 * time.Second
)

// Listed is a machine in a platform's list, with the platform's own description.
type Listed[T any] struct {
	Machine
	Own T
}

// List is the platform's list of the cluster's machines, cached for a short time.
type List[T any] struct {
	// Load lists the cluster's machines, and no others.
	Load func(context.Context) ([]Listed[T], error)
	Now  func() time.Time

	mu       sync.Mutex
	all      []Listed[T]
	received time.Time
	isLoaded bool
}

// All returns the machines from a list that is younger than age. The caller must not change them.
func (l *List[T]) All(ctx context.Context, age time.Duration) ([]Listed[T], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isLoaded && l.Now().Sub(l.received) < age {
		return l.all, nil
	}
	all, err := l.Load(ctx)
	if err != nil {
		return nil, err
	}
	l.all, l.received, l.isLoaded = all, l.Now(), true
	return all, nil
}

// Machines returns all machines from a recent list.
func (l *List[T]) Machines(ctx context.Context) ([]Machine, error) {
	all, err := l.All(ctx, Recent)
	var out []Machine
	for _, m := range all {
		out = append(out, m.Machine)
	}
	return out, err
}

// Of returns the running machine of a node, or an error of class fault.Gone. A node is identified by
// its name, which its certificate contains; the kubelet claims everything else. If the node has a
// provider ID, it must match.
func (l *List[T]) Of(ctx context.Context, n *corev1.Node) (Listed[T], error) {
	m, err := l.find(ctx, n.Name)
	switch id := n.Spec.ProviderID; {
	case err != nil:
		return m, err
	case id != "" && id != m.ProviderID:
		return m, fault.New(fault.Gone, "the node %s reports the machine %s, but its machine is %s", n.Name, id, m.ProviderID)
	case m.State != Running:
		return m, fault.New(fault.NotYet, "the machine of the node %s is not running: its status is %s", n.Name, m.Status)
	}
	return m, nil
}

// Call is a bootstrap.Callback's Find: it returns the machine with an ID, or an error of class fault.Gone.
func (l *List[T]) Call(ctx context.Context, id string) (bootstrap.Called, error) {
	all, err := l.All(ctx, Fresh)
	if err != nil {
		return bootstrap.Called{}, err
	}
	for _, m := range all {
		if m.ID == id {
			return bootstrap.Called{NodeName: m.Node, InstanceGroup: m.Group, Cluster: m.Cluster, IsRunning: m.State == Running || m.State == Starting,
				Addresses: slices.Clone(m.Addresses), Names: slices.Clone(m.Names)}, nil
		}
	}
	return bootstrap.Called{}, fault.New(fault.Gone, "the cluster has no machine %s", id)
}

// find returns the machine whose node has this name, or an error of class fault.Gone.
func (l *List[T]) find(ctx context.Context, node string) (Listed[T], error) {
	for _, age := range []time.Duration{Remembered, Fresh} {
		all, err := l.All(ctx, age)
		if err != nil {
			return Listed[T]{}, err
		}
		var found []Listed[T]
		for _, m := range all {
			if m.Node == node {
				found = append(found, m)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1: // names may be unique only within a place
			return Listed[T]{}, fault.New(fault.Conflict, "machines named %s, the name of a node, exist in both %s and %s", node, found[0].Place, found[1].Place)
		}
	}
	return Listed[T]{}, fault.New(fault.Gone, "the cluster has no machine %s", node)
}

// maxKnown bounds the cache of nodes' groups.
const maxKnown = 1 << 14

// Known caches the groups of nodes: a machine never changes its group, and platforms limit requests.
// The zero value is empty.
type Known struct {
	mu     sync.Mutex
	groups map[known]string
}

// known is a node and the ID of its machine; the node can change neither.
type known struct {
	node    types.UID
	machine string
}

// GroupOf returns the group of a node on a machine, which find returns the first time.
func (k *Known) GroupOf(n *corev1.Node, machine string, find func() (string, error)) (string, error) {
	key := known{n.UID, machine}
	k.mu.Lock()
	group := k.groups[key]
	k.mu.Unlock()
	if group != "" {
		return group, nil
	}
	group, err := find()
	switch {
	case err != nil:
		return "", err
	case group == "":
		return "", fault.New(fault.Gone, "the machine %s belongs to no group", machine)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.groups == nil || len(k.groups) >= maxKnown {
		k.groups = map[known]string{}
	}
	k.groups[key] = group
	return group, nil
}

// Groups finds the groups of nodes in a list of machines.
type Groups[T any] struct {
	controller.Stored
	List *List[T]
	// Confirm returns the machine's real group if the group in the list is only what the machine
	// claims; nil: the platform vouches for the list.
	Confirm func(context.Context, T) (string, error)

	known Known
}

// GroupOf implements controller.Groups.
func (g *Groups[T]) GroupOf(ctx context.Context, n *corev1.Node) (string, error) {
	m, err := g.List.Of(ctx, n)
	if err != nil {
		return "", err
	}
	return g.known.GroupOf(n, m.ID, func() (string, error) {
		if g.Confirm == nil {
			return m.Group, nil
		}
		group, err := g.Confirm(ctx, m.Own)
		switch {
		case err != nil:
			return "", fmt.Errorf("find the group of the machine %s: %w", m.Node, err)
		case group != m.Group:
			return "", fault.New(fault.Gone, "the machine %s claims to be in the instance group %q, but is in %s", m.Node, m.Group, group)
		}
		return group, nil
	})
}
