// Package records is the content of a DNS service: zones, their record sets in the form in which kops
// compares them, and changes. dns-controller, and the update that creates a cluster's records, use
// each service through a Provider.
//
// It must not know any DNS service, or which records a cluster needs.
package records

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strconv"
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

// ParseSet is NewSet for values as a zone file has them: texts may have quotes (RFC 1035, section 5.1).
func ParseSet(name, kind string, ttl int, values ...string) Set {
	values = slices.Clone(values)
	for i, v := range values {
		if raw, err := strconv.Unquote(v); err == nil && kind == TXT {
			values[i] = raw
		}
	}
	return NewSet(name, kind, ttl, values...)
}

// Texts returns the values as a zone file has them: texts have quotes.
func (s Set) Texts() []string {
	out := slices.Clone(s.Values)
	for i, v := range out {
		if s.Type == TXT {
			out[i] = strconv.Quote(v)
		}
	}
	return out
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

// IsWithin reports whether a name is a domain or below it.
func IsWithin(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// CompareKeys orders sets for display.
func CompareKeys(a, b Key) int {
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
	// Records lists the record sets of a zone: those with the names, and maybe others; nil: all.
	Records(ctx context.Context, zone Zone, names []string) ([]Set, error)
	// Apply applies changes, each of them atomically. If it returns an error, some may
	// have been applied.
	Apply(ctx context.Context, zone Zone, changes []Change) error
}

// Batches splits items into batches whose sizes, in several measures, stay within limits, in their
// order. An item that exceeds a limit by itself gets a batch of its own.
func Batches[T any](items []T, size func(T) []int, limits ...int) [][]T {
	var out [][]T
	sum := make([]int, len(limits))
	for _, item := range items {
		fits := len(out) > 0
		for i, n := range size(item) {
			sum[i] += n
			fits = fits && sum[i] <= limits[i]
		}
		if !fits {
			out, sum = append(out, nil), slices.Clone(size(item))
		}
		last := len(out) - 1
		out[last] = append(out[last], item)
	}
	return out
}
