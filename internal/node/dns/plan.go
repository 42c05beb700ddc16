package dns

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/node/dns/records"
)

// nameTypes returns the record types that a cluster's name can have.
func nameTypes() []string { return []string{records.A, records.AAAA, records.CNAME} }

// Owner determines what a cluster may change.
type Owner struct {
	// Cluster is the name of the cluster.
	Cluster string
	// API is the public name of the cluster's API; empty if none is published.
	API string
}

// mark returns the record set that marks another one as the cluster's.
func (o Owner) mark(k records.Key) records.Set {
	return records.NewSet(hostnames.Mark(k.Name, k.Type), records.TXT, records.TTL, hostnames.MarkText(o.Cluster))
}

// markedKey returns the key of the record set that s marks.
func markedKey(s records.Set) (records.Key, bool) {
	name, kind, ok := hostnames.Marked(s.Name)
	return records.Key{Name: name, Type: kind}, ok && s.Type == records.TXT && slices.Contains(nameTypes(), kind)
}

// ownsName reports whether a name is the cluster's even without a mark.
func (o Owner) ownsName(name string) bool {
	return name == records.Canonical(o.API) || strings.HasSuffix(name, hostnames.Suffix(o.Cluster))
}

// keepsLastAddresses reports whether a name keeps its last addresses.
func (o Owner) keepsLastAddresses(name string) bool {
	return slices.Contains([]string{hostnames.API(o.Cluster), hostnames.Controller(o.Cluster), records.Canonical(o.API)}, name)
}

// Content is the content of a zone.
type Content map[records.Key]records.Set

// NewContent returns a Content with the given sets.
func NewContent(sets []records.Set) Content {
	c := Content{}
	for _, s := range sets {
		c[s.Key] = s
	}
	return c
}

// Apply applies a change.
func (c Content) Apply(change records.Change) {
	for _, s := range change.Delete {
		delete(c, s.Key)
	}
	for _, s := range change.Upsert {
		c[s.Key] = s
	}
}

// Plan holds the changes that a zone needs.
type Plan struct {
	// Changes are sorted by name.
	Changes []records.Change
	Refused []Refusal
	// Claims is set if the changes affect sets that are not the cluster's yet. The zone's
	// content must then have been read just before.
	Claims bool
}

// Plan compares the wanted sets with a zone's content.
func (o Owner) Plan(zone records.Zone, want []records.Set, have Content) Plan {
	names := map[string]*name{}
	at := func(n string) *name {
		if names[n] == nil {
			names[n] = &name{Owner: o, name: n, want: map[string]records.Set{}, have: map[string]records.Set{}, marks: map[string]records.Set{}}
		}
		return names[n]
	}
	for _, s := range want {
		at(s.Name).want[s.Type] = s
	}
	for _, s := range have {
		if k, ok := markedKey(s); ok && (slices.Equal(s.Values, o.mark(k).Values) || names[k.Name] != nil) {
			at(k.Name).marks[k.Type] = s
		}
	}
	for k, s := range have { // after the marks, which determine the names that matter
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

// name is one name of a zone, with its sets and their marks by type.
type name struct {
	Owner
	name              string
	want, have, marks map[string]records.Set
}

// isOurs reports whether a set has a mark of this cluster.
func (n *name) isOurs(kind string) bool {
	m, ok := n.marks[kind]
	return ok && slices.Equal(m.Values, n.mark(records.Key{Name: n.name, Type: kind}).Values)
}

// plan adds the changes that the name needs.
func (n *name) plan(zone records.Zone, p *Plan) {
	if why := n.refusalReason(zone); why != "" {
		p.Refused = append(p.Refused, Refusal{Name: n.name, Why: why})
		return
	}
	if len(n.want) == 0 && n.keepsLastAddresses(n.name) {
		return
	}
	var c records.Change
	for _, kind := range nameTypes() {
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
		case n.isOurs(kind):
			if there && !have.Opaque { // what has become an alias is not ours
				c.Delete = append(c.Delete, have)
			}
			c.Delete = append(c.Delete, n.marks[kind])
		}
	}
	if len(c.Delete)+len(c.Upsert) > 0 {
		p.Changes = append(p.Changes, c)
	}
}

// refusalReason returns why the name cannot get the wanted sets; empty if it can.
func (n *name) refusalReason(zone records.Zone) string {
	for _, kind := range nameTypes() {
		if _, wanted := n.want[kind]; wanted {
			if why := n.refusedType(zone, kind); why != "" {
				return why
			}
		}
	}
	return ""
}

func (n *name) refusedType(zone records.Zone, kind string) string {
	const remedy = "; remove it from the zone, or the annotation from the cluster"
	have, there := n.have[kind]
	switch m, marked := n.marks[kind]; {
	case marked && !n.isOurs(kind):
		return "in the zone, the record belongs to another owner: " + strings.Join(m.Values, " ") + remedy
	case there && have.Opaque:
		return "the zone has it as an alias or with rules, set by another owner" + remedy
	case there && !n.isOurs(kind) && !n.ownsName(n.name) && !slices.Equal(have.Values, n.want[kind].Values):
		return "the zone already has it, without the mark of this cluster: " + kind + " " + strings.Join(have.Values, ",") + remedy
	case kind == records.CNAME && n.name == zone.Name:
		return "a zone's own name cannot be an alias of another name; give the load balancer an address"
	}
	for other := range n.have { // a CNAME must be the only record (RFC 1034)
		if other != kind && (kind == records.CNAME || other == records.CNAME) && !n.isOurs(other) && n.want[other].Type == "" {
			return "the zone has other records of the name, of type " + other + ", and it cannot be combined with them" + remedy
		}
	}
	return ""
}
