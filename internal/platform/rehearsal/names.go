package rehearsal

import (
	"fmt"
	"net/netip"
	"strings"
)

// Names answers DNS queries as a platform does: for its own hosts, and for its users' zones. Public
// and private zones are visible to every client. All names are without a trailing dot.
type Names struct {
	Zones []Zone
	// Hosts are the addresses of the platform's own hosts, by name.
	Hosts map[string]netip.Addr
	// Reachable maps machines' public addresses, which are not reachable here, to the private ones,
	// to which records resolve, as they do inside the platform's network.
	Reachable map[netip.Addr]netip.Addr
}

// Zone is a DNS zone.
type Zone struct {
	Name    string
	Servers []string // returned if there is no NS record
	Records []Record
}

// Record is a set of records of one name and type.
type Record struct {
	Name, Type string
	TTL        int64 // seconds
	Values     []string
	// Host, when not empty, is one of the platform's own hosts, whose address is returned.
	Host string
}

// PlainName returns a DNS name as programs write it: without a trailing dot, in lower case.
func PlainName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "."), `\052`, "*"))
}

// Lookup implements Play.Lookup.
func (n Names) Lookup(name, kind string) (records []string, known bool) {
	name = PlainName(name)
	if a, ok := n.Hosts[name]; ok {
		if kind == "A" {
			records = []string{zoneLine(name, 60, "A", a.String())}
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
	return n.answerFromZone(best, name, kind)
}

// answerFromZone returns a zone's answer for a name: its own records, or a wildcard's.
func (n Names) answerFromZone(z *Zone, name, kind string) (records []string, known bool) {
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
				if a, ok := n.Hosts[r.Host]; ok && kind == "A" {
					records = append(records, zoneLine(name, 60, "A", a.String()))
				}
				continue
			}
			for _, v := range r.Values {
				records = append(records, zoneLine(name, r.TTL, r.Type, n.reachable(v)))
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
				records = append(records, zoneLine(name, 60, "NS", s))
			}
		}
	}
	return records, known
}

// reachable returns a record's value, or the private address of the machine whose public one it is.
func (n Names) reachable(value string) string {
	if a, err := netip.ParseAddr(value); err == nil {
		if private, ok := n.Reachable[a]; ok {
			return private.String()
		}
	}
	return value
}

// zoneLine formats a record as a line of a zone file.
func zoneLine(name string, ttl int64, kind, value string) string {
	if (kind == "CNAME" || kind == "NS") && !strings.HasSuffix(value, ".") {
		value += "."
	}
	return fmt.Sprintf("%s. %d IN %s %s", name, ttl, kind, value)
}
