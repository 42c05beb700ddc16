package rehearsal

import (
	"fmt"
	"net/netip"
	"strings"
)

// Names answers for what DNS knows on a platform: hosts of its own, and zones of its users. Public
// and private zones are answered to everybody. All names are without a final dot.
type Names struct {
	Zones []Zone
	// Host is the address of a host of the platform's own.
	Host func(name string) (netip.Addr, bool)
	// Reachable is what the value of a record leads to: public addresses of machines lead nowhere
	// here, and stand for the private ones, as they do inside the platform's network.
	Reachable func(value string) string
}

// Zone is a zone of DNS.
type Zone struct {
	Name    string
	Servers []string // answered if there is no record of them
	Records []Record
}

// Record is a set of records of one name and type.
type Record struct {
	Name, Type string
	TTL        int64 // seconds
	Values     []string
	// Host, when not empty, is a host of the platform's own, whose address is answered.
	Host string
}

// PlainName is a name of DNS as programs write it: without a final dot, in small letters.
func PlainName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "."), `\052`, "*"))
}

// Lookup answers as Play.Lookup.
func (n Names) Lookup(name, kind string) (records []string, known bool) {
	name = PlainName(name)
	if a, ok := n.Host(name); ok {
		if kind == "A" {
			records = []string{line(name, 60, "A", a.String())}
		}
		return records, true
	}
	var best *Zone
	for i, z := range n.Zones {
		if (name == z.Name || strings.HasSuffix(name, "."+z.Name)) && (best == nil || len(z.Name) > len(best.Name)) {
			best = &n.Zones[i]
		}
	}
	if best == nil {
		return nil, false
	}
	return n.answer(best, name, kind)
}

// answer returns a zone's answer for a name: its own records, or a wildcard's.
func (n Names) answer(z *Zone, name, kind string) (records []string, known bool) {
	_, rest, _ := strings.Cut(name, ".")
	for _, owner := range []string{name, "*." + rest} {
		for _, r := range z.Records {
			if r.Name != owner {
				continue
			}
			known = true
			if kind != r.Type && r.Type != "CNAME" {
				continue
			}
			if r.Host != "" {
				if a, ok := n.Host(r.Host); ok && kind == "A" {
					records = append(records, line(name, 60, "A", a.String()))
				}
				continue
			}
			for _, v := range r.Values {
				records = append(records, line(name, r.TTL, r.Type, n.Reachable(v)))
			}
		}
		if known {
			break
		}
	}
	if name == z.Name {
		known = true
		if kind == "NS" && len(records) == 0 {
			for _, s := range z.Servers {
				records = append(records, line(name, 60, "NS", s))
			}
		}
	}
	return records, known
}

// line is a record as a zone file has it.
func line(name string, ttl int64, kind, value string) string {
	if (kind == "CNAME" || kind == "NS") && !strings.HasSuffix(value, ".") {
		value += "."
	}
	return fmt.Sprintf("%s. %d IN %s %s", name, ttl, kind, value)
}
