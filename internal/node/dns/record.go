package dns

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
)

// Types of record sets that are published. A mark is a TXT.
const (
	A     = "A"
	AAAA  = "AAAA"
	CNAME = "CNAME"
	TXT   = "TXT"
)

// TTL is how long resolvers remember an answer, in seconds.
const TTL = 60

// Key is what a zone has one set of: a name, in lower case and without a dot at its end,
// and a type.
type Key struct{ Name, Type string }

// Set is a record set.
type Set struct {
	Key
	TTL int // seconds
	// Values are sorted: addresses, names in lower case and without a dot at their ends, or
	// texts without quotes.
	Values []string
	// Opaque says that the set is more than values, such as an alias or a weight. It is
	// never changed.
	Opaque bool
}

// NewSet makes a set, with its values and name as others compare them.
func NewSet(name, kind string, ttl int, values ...string) Set {
	s := Set{Key: Key{Canonical(name), kind}, TTL: ttl}
	for _, v := range values {
		switch kind {
		case A, AAAA:
			if a, err := netip.ParseAddr(v); err == nil {
				v = a.String()
			}
		case CNAME:
			v = Canonical(v)
		}
		s.Values = append(s.Values, v)
	}
	slices.Sort(s.Values)
	s.Values = slices.Compact(s.Values)
	return s
}

// Equal reports whether two sets say the same.
func (s Set) Equal(o Set) bool {
	return s.Key == o.Key && s.TTL == o.TTL && s.Opaque == o.Opaque && slices.Equal(s.Values, o.Values)
}

// Canonical writes a name in lower case, without a dot at its end, and with a star where
// some show its code.
func Canonical(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "."), `\052`, "*")
}

// within reports whether a name is a domain or below it.
func within(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// compareKeys orders sets for people.
func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
}

// Zone is a zone of a provider.
type Zone struct {
	// ID tells zones of one name apart; it may be the name. Alias does so too; empty: there is none.
	ID, Alias string
	// Name is the domain, as Canonical writes it.
	Name string
}

// Change is what becomes of the sets of one name and their marks.
type Change struct {
	// Delete are sets as they are in the zone.
	Delete []Set
	// Upsert are sets that are made, or replace all values of what is there.
	Upsert []Set
}

// Provider is a DNS service.
type Provider interface {
	// Zones lists the zones that there are.
	Zones(ctx context.Context) ([]Zone, error)
	// Records lists all record sets of a zone.
	Records(ctx context.Context, zone Zone) ([]Set, error)
	// Apply makes changes, each of them wholly or not at all. Some may have been made when
	// it returns an error.
	Apply(ctx context.Context, zone Zone, changes []Change) error
}
