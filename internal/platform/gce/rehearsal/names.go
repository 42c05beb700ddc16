package rehearsal

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
)

// names are what DNS knows in the rehearsal.
type names struct {
	mu  sync.Mutex
	now snapshot
}

func (n *names) set(now snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = now
}

func (n *names) seen() snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// Names within Google's network.
const (
	metadataName    = "metadata.google.internal"
	internalDomains = ".c." + Project + ".internal" // INSTANCE.ZONE before it
)

// plain is a name of DNS as programs write it: without a final dot, in small letters.
func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// lookup answers for the metadata server, for instances by their private names, and for the zones
// of Cloud DNS.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	name = plain(name)
	now := p.names.seen()
	if at, ok := now.host(name); ok {
		if kind == "A" {
			records = []string{line(name, 60, "A", at.String())}
		}
		return records, true
	}
	var best *zone
	for i, z := range now.zones {
		if (name == z.name || strings.HasSuffix(name, "."+z.name)) && (best == nil || len(z.name) > len(best.name)) {
			best = &now.zones[i]
		}
	}
	if best == nil {
		return nil, false
	}
	return now.answer(best, name, kind)
}

// host is the address of a name within Google's network.
func (s snapshot) host(name string) (netip.Addr, bool) {
	if name == metadataName {
		return metadataAddress, true
	}
	if !strings.HasSuffix(name, internalDomains) {
		return netip.Addr{}, false
	}
	instance, _, _ := strings.Cut(name, ".")
	at, ok := s.addresses[instance]
	return at, ok
}

// answer is what a zone says of a name: its own records, or those of a wildcard. External addresses of
// instances lead nowhere here, and stand for the internal ones.
func (s snapshot) answer(z *zone, name, kind string) (records []string, known bool) {
	_, rest, _ := strings.Cut(name, ".")
	for _, owner := range []string{name, "*." + rest} {
		for _, r := range z.records {
			if plain(r.Name) != owner {
				continue
			}
			known = true
			if kind != r.Type && r.Type != "CNAME" {
				continue
			}
			for _, v := range r.Rrdatas {
				if at, ok := s.external[v]; ok {
					v = at.String()
				}
				records = append(records, line(name, r.Ttl, r.Type, v))
			}
		}
		if known {
			return records, true
		}
	}
	return nil, name == z.name
}

func line(name string, ttl int64, kind, value string) string {
	return fmt.Sprintf("%s. %d IN %s %s", name, ttl, kind, value)
}
