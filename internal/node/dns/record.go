package dns

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
)

// Types of published record sets. A mark is a TXT.
const (
	A     = "A"
	AAAA  = "AAAA"
	CNAME = "CNAME"
	TXT   = "TXT"
)

// TTL is how long resolvers cache an answer, in seconds.
const TTL = 60

// Key identifies a record set in a zone: a name, in lower case and without a trailing
// dot, and a type.
type Key struct{ Name, Type string }

// Set is a record set.
type Set struct {
	Key
	TTL int // seconds
	// Values are sorted: addresses, names in lower case and without a trailing dot, or
	// texts without quotes.
	Values []string
	// Opaque is set if the record set has more than values, such as an alias or a
	// weight. It is never changed.
	Opaque bool
}

// NewSet returns a set with its name and values in the form in which sets are compared.
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

// Equal reports whether two sets are equal.
func (s Set) Equal(o Set) bool {
	return s.Key == o.Key && s.TTL == o.TTL && s.Opaque == o.Opaque && slices.Equal(s.Values, o.Values)
}

// Canonical returns a name in lower case, without a trailing dot, and with a star
// instead of its escape code.
func Canonical(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "."), `\052`, "*")
}

// isWithin reports whether a name is a domain or below it.
func isWithin(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// compareKeys orders sets for display.
func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
}

// Zone is a zone of a provider.
type Zone struct {
	// ID distinguishes zones with the same name; it may be the name. Alias is another identifier;
	// empty if there is none.
	ID, Alias string
	// Name is the domain, in canonical form (see Canonical).
	Name string
}

// Change is a change of the sets of one name and their marks.
type Change struct {
	// Delete are sets exactly as they are in the zone.
	Delete []Set
	// Upsert are sets to create, or whose values replace all existing ones.
	Upsert []Set
}

// Provider is a DNS service.
type Provider interface {
	// Zones lists the provider's zones.
	Zones(ctx context.Context) ([]Zone, error)
	// Records lists all record sets of a zone.
	Records(ctx context.Context, zone Zone) ([]Set, error)
	// Apply applies changes, each of them atomically. If it returns an error, some may
	// have been applied.
	Apply(ctx context.Context, zone Zone, changes []Change) error
}
