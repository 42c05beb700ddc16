package rehearsal

import (
	"net/netip"
	"strings"
	"sync"

	"kops.local/kops/internal/platform/rehearsal"
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

// lookup answers for the metadata server, for instances by their private names, and for the zones
// of Cloud DNS.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	now := p.names.seen()
	return rehearsal.Names{Zones: now.zones, Host: now.host, Reachable: now.reachable}.Lookup(name, kind)
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

// reachable is the internal address of an instance with an external one.
func (s snapshot) reachable(value string) string {
	if at, ok := s.external[value]; ok {
		return at.String()
	}
	return value
}
