package rehearsal

import (
	"net/netip"
	"strings"
	"sync"

	"kops.local/kops/internal/platform/rehearsal"
)

// names holds what DNS resolves in the rehearsal.
type names struct {
	mu  sync.Mutex
	now snapshot
}

func (n *names) update(now snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = now
}

func (n *names) latest() snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// Names within Google's network.
const (
	metadataName    = "metadata.google.internal"
	internalDomains = ".c." + Project + ".internal" // preceded by INSTANCE.ZONE
)

// lookup resolves the metadata server, the private names of instances, and the zones of Cloud DNS.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	now := p.names.latest()
	return rehearsal.Names{Zones: now.zones, Host: now.addressOfHost, Reachable: now.internalAddress}.Lookup(name, kind)
}

// addressOfHost returns the address of a name within Google's network.
func (s snapshot) addressOfHost(name string) (netip.Addr, bool) {
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

// internalAddress returns the internal address of an instance, given its external address.
func (s snapshot) internalAddress(value string) string {
	if at, ok := s.external[value]; ok {
		return at.String()
	}
	return value
}
