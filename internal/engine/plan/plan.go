// Package plan compares a desired graph with an observed snapshot and returns, as data, what to do
// and in what order. It is pure: it never accesses a cloud.
//
// It must not know how steps are carried out or shown.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// Op is the operation of a step.
type Op string

const (
	Keep   Op = "keep"
	Create Op = "create"
	Update Op = "modify"
	Delete Op = "delete"
)

// Snapshot is everything that was observed, by kind.
type Snapshot map[string][]resource.Object

// Step is one operation on one resource. Replacing a resource takes two steps, so that objects that
// depend on the old one can be handled in between.
type Step struct {
	Address resource.Address  `json:"address"`
	Op      Op                `json:"op"`
	Why     string            `json:"why,omitempty"`
	Changes []resource.Change `json:"changes,omitempty"`
	// Shared marks a shared object: it is used and left unchanged.
	Shared bool `json:"shared,omitempty"`
	// Replaces marks the create that replaces a removed object, which is in Have.
	Replaces bool `json:"replaces,omitempty"`
	// Lenient marks a step that may fail because of missing permissions, which is then only
	// reported.
	Lenient bool  `json:"lenient,omitempty"`
	After   []int `json:"after,omitempty"` // steps that must succeed first

	Kind resource.Any `json:"-"`
	Key  string       `json:"key,omitempty"`
	Have any          `json:"have,omitempty"` // nil for a create
	Want any          `json:"want,omitempty"` // nil for a delete; may hold unknown Values
}

// Plan is a list of steps; each comes after the steps it depends on.
type Plan struct {
	Steps []Step `json:"steps"`
	// Deferred are deletions that require Options.Prune.
	Deferred []Step `json:"deferred,omitempty"`
	// Foreign are observed objects that others created among the cluster's own. They are kept.
	Foreign []Step `json:"foreign,omitempty"`
}

// Options specify what a plan may do.
type Options struct {
	// Prune allows the deletion of observed objects that are not wanted. Leftovers of a replacement
	// or an interrupted run are deleted without it, and so are objects that only grant access
	// (resource.Kind.Grants).
	Prune bool
	// Scope reports whether an unwanted observed object is within the plan's scope; nil means that
	// all are. Others are neither deleted nor deferred.
	Scope func(k resource.Any, obj any) bool
}

// Make compares want with have. It fails, before anything is done, on a forbidden change, a missing
// shared object, and a replacement that is blocked by an object that stays.
func Make(want *graph.Graph, have Snapshot, kinds []resource.Any, o Options) (*Plan, error) {
	own, foreign := splitForeign(have, kinds)
	b := newBuilder(want, own, kinds, o)
	if err := b.decide(); err != nil {
		return nil, err
	}
	if err := b.order(); err != nil {
		return nil, err
	}
	p, err := b.sorted()
	if err == nil {
		p.Foreign = foreign
	}
	return p, err
}

// splitForeign separates others' objects from a snapshot.
func splitForeign(have Snapshot, kinds []resource.Any) (own Snapshot, foreign []Step) {
	own = maps.Clone(have)
	for _, k := range kinds {
		name := k.KindName()
		if !slices.ContainsFunc(have[name], func(o resource.Object) bool { return k.Foreign(o.Got) }) {
			continue
		}
		own[name] = nil
		for _, o := range have[name] {
			if !k.Foreign(o.Got) {
				own[name] = append(own[name], o)
				continue
			}
			foreign = append(foreign, Step{Address: resource.Address{Kind: name, Name: o.Key}, Op: Keep, Kind: k, Key: o.Key, Have: o.Got, Why: "not created by kops"})
		}
	}
	slices.SortStableFunc(foreign, func(a, b Step) int { return strings.Compare(a.Address.String(), b.Address.String()) })
	return own, foreign
}

// Summary counts the resources of a plan by operation. A replaced resource is
// counted once, although it takes two steps.
type Summary struct {
	Create   int `json:"create"`
	Modify   int `json:"modify"`
	Replace  int `json:"replace"`
	Delete   int `json:"delete"`
	Deferred int `json:"deferred"` // only deleted with Options.Prune
	Keep     int `json:"keep"`
	Shared   int `json:"shared"`
}

// Summary counts what the plan does.
func (p *Plan) Summary() Summary {
	s := Summary{Deferred: len(p.Deferred)}
	for _, st := range p.Steps {
		switch {
		case st.Shared:
			s.Shared++
		case st.Replaces:
			s.Replace++
			s.Delete-- // the replaced object
		case st.Op == Create:
			s.Create++
		case st.Op == Update:
			s.Modify++
		case st.Op == Delete:
			s.Delete++
		case st.Op == Keep:
			s.Keep++
		}
	}
	return s
}

// Applied describes what a plan has done after it was carried out: "1 created, 2 modified".
func (s Summary) Applied() string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{s.Create, "created"}, {s.Modify, "modified"}, {s.Replace, "replaced"}, {s.Delete, "deleted"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// Empty reports whether the plan does nothing.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Op != Keep })
}

// Count returns the number of steps with an operation.
func (p *Plan) Count(op Op) int {
	n := 0
	for _, s := range p.Steps {
		if s.Op == op {
			n++
		}
	}
	return n
}

// Digest identifies the plan: two plans with one digest do the same to the same objects. A saved
// plan is rejected if the digest of a new one differs.
func (p *Plan) Digest() (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("digest of the plan: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
