package dns

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/hostnames"
)

// published are the types that a name of a cluster can have.
func published() []string { return []string{A, AAAA, CNAME} }

// Owner knows what a cluster may change.
type Owner struct {
	// Cluster is the name of the cluster.
	Cluster string
	// API is the public name of its API; empty: there is none that is published.
	API string
}

// mark is the set that says that another one is the cluster's.
func (o Owner) mark(k Key) Set {
	return NewSet(hostnames.Mark(k.Name, k.Type), TXT, TTL, hostnames.MarkText(o.Cluster))
}

// marked returns the set of which a set is the mark.
func marked(s Set) (Key, bool) {
	name, kind, ok := hostnames.Marked(s.Name)
	return Key{name, kind}, ok && s.Type == TXT && slices.Contains(published(), kind)
}

// own reports that a name is the cluster's whether it has a mark or not.
func (o Owner) own(name string) bool {
	return name == Canonical(o.API) || strings.HasSuffix(name, hostnames.Suffix(o.Cluster))
}

// lasting reports that a name keeps its last addresses.
func (o Owner) lasting(name string) bool {
	return slices.Contains([]string{hostnames.API(o.Cluster), hostnames.Controller(o.Cluster), Canonical(o.API)}, name)
}

// Content is what a zone holds.
type Content map[Key]Set

// NewContent holds sets.
func NewContent(sets []Set) Content {
	c := Content{}
	for _, s := range sets {
		c[s.Key] = s
	}
	return c
}

// Apply makes a change.
func (c Content) Apply(change Change) {
	for _, s := range change.Delete {
		delete(c, s.Key)
	}
	for _, s := range change.Upsert {
		c[s.Key] = s
	}
}

// Plan is what a zone lacks.
type Plan struct {
	// Changes are sorted by name.
	Changes []Change
	Refused []Refusal
	// Claims says that there are changes of sets that are not the cluster's yet. What the
	// zone holds must have been read just now.
	Claims bool
}

// Plan compares the wanted sets with what a zone holds.
func (o Owner) Plan(zone Zone, want []Set, have Content) Plan {
	names := map[string]*name{}
	at := func(n string) *name {
		if names[n] == nil {
			names[n] = &name{Owner: o, name: n, want: map[string]Set{}, have: map[string]Set{}, marks: map[string]Set{}}
		}
		return names[n]
	}
	for _, s := range want {
		at(s.Name).want[s.Type] = s
	}
	for _, s := range have {
		if k, ok := marked(s); ok && (slices.Equal(s.Values, o.mark(k).Values) || names[k.Name] != nil) {
			at(k.Name).marks[k.Type] = s
		}
	}
	for k, s := range have { // after the marks, which say which names matter
		if n := names[k.Name]; n != nil {
			n.have[k.Type] = s
		}
	}
	var p Plan
	for _, n := range slices.Sorted(maps.Keys(names)) {
		names[n].plan(zone, &p)
	}
	return p
}

// name is one name of a zone, with its sets and their marks by their types.
type name struct {
	Owner
	name              string
	want, have, marks map[string]Set
}

// ours reports that the mark of a set says that it is the cluster's.
func (n *name) ours(kind string) bool {
	m, ok := n.marks[kind]
	return ok && slices.Equal(m.Values, n.mark(Key{n.name, kind}).Values)
}

// plan adds what the name lacks.
func (n *name) plan(zone Zone, p *Plan) {
	if why := n.refused(zone); why != "" {
		p.Refused = append(p.Refused, Refusal{Name: n.name, Why: why})
		return
	}
	if len(n.want) == 0 && n.lasting(n.name) {
		return
	}
	var c Change
	for _, kind := range published() {
		have, there := n.have[kind]
		want, wanted := n.want[kind]
		switch {
		case wanted:
			if !there || !have.Equal(want) {
				c.Upsert = append(c.Upsert, want)
			}
			if m, ours := n.marks[kind], n.mark(want.Key); !m.Equal(ours) {
				c.Upsert = append(c.Upsert, ours)
				p.Claims = true
			}
		case n.ours(kind):
			if there && !have.Opaque { // what became an alias is somebody else's
				c.Delete = append(c.Delete, have)
			}
			c.Delete = append(c.Delete, n.marks[kind])
		}
	}
	if len(c.Delete)+len(c.Upsert) > 0 {
		p.Changes = append(p.Changes, c)
	}
}

// refused says why the name cannot have what is wanted; empty: it can.
func (n *name) refused(zone Zone) string {
	for _, kind := range published() {
		if _, wanted := n.want[kind]; wanted {
			if why := n.refusedType(zone, kind); why != "" {
				return why
			}
		}
	}
	return ""
}

func (n *name) refusedType(zone Zone, kind string) string {
	const remedy = "; remove it from the zone, or the annotation from the cluster"
	have, there := n.have[kind]
	switch m, marked := n.marks[kind]; {
	case marked && !n.ours(kind):
		return "the zone has a record of another owner for it: " + strings.Join(m.Values, " ") + remedy
	case there && have.Opaque:
		return "the zone has it as an alias or with rules, set by another owner" + remedy
	case there && !n.ours(kind) && !n.own(n.name) && !slices.Equal(have.Values, n.want[kind].Values):
		return "the zone has it already, without the mark of this cluster: " + kind + " " + strings.Join(have.Values, ",") + remedy
	case kind == CNAME && n.name == zone.Name:
		return "a zone's own name cannot lead to another name; give the load balancer an address"
	}
	for other := range n.have { // a CNAME stands alone (RFC 1034)
		if other != kind && (kind == CNAME || other == CNAME) && !n.ours(other) && n.want[other].Type == "" {
			return "the zone has other records of the name, of type " + other + ", beside which it cannot stand" + remedy
		}
	}
	return ""
}
