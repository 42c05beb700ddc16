package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/spec/facts"
)

// The records that names have until the cluster sets the real ones: addresses that are not routed
// anywhere (RFC 5737; kOps' own for IPv6), with a short TTL.
const (
	placeholderIPv4 = "203.0.113.123"
	placeholderIPv6 = "fd00:dead:add::"
	placeholderTTL  = 10 // seconds
)

// zone finds the zone of the cluster's names, by name or ID. Of two with the same name, it prefers
// the one with the right visibility, because clusters created by kOps may have either.
func (m *model) zone() (facts.DNSZone, error) {
	want := strings.TrimSuffix(m.spec.DNSZone, ".")
	private := m.spec.DNSType() == api.DNSPrivate
	var found *facts.DNSZone
	for i, z := range m.facts.DNSZones {
		switch {
		case z.ID == want:
			return z, nil
		case z.Name == want && (found == nil || z.Private == private):
			found = &m.facts.DNSZones[i]
		}
	}
	if found == nil {
		return facts.DNSZone{}, fmt.Errorf("project %s has no zone %s in Cloud DNS; create it, or set spec.dnsZone to another zone", m.project, m.spec.DNSZone)
	}
	return *found, nil
}

// dns returns placeholders for the names that the cluster's controllers will set. They exist before
// the cluster does, so that no resolver caches that a name does not exist.
func (m *model) dns() ([]resource.Node, error) {
	if m.noDNS() {
		return nil, nil
	}
	z, err := m.zone()
	if err != nil {
		return nil, err
	}
	own := []string{"A"}
	if m.spec.IPv6Only() {
		own = []string{"AAAA"}
	}
	types := map[string][]string{hostnames.Controller(m.name): own, hostnames.API(m.name): own}
	if name := m.spec.API.PublicName; name != "" && !m.hasLoadBalancer() { // users may have only IPv4
		types[name] = slices.Compact(append([]string{"A"}, own...))
	}
	var nodes []resource.Node
	for _, name := range slices.Sorted(maps.Keys(types)) {
		for _, t := range types[name] {
			nodes = append(nodes, m.placeholder(z, name, t)...)
		}
	}
	return nodes, nil
}

// placeholder returns one placeholder, and the record that allows external-dns to change it.
func (m *model) placeholder(z facts.DNSZone, name, kind string) []resource.Node {
	address, owner := placeholderIPv4, name
	if kind == "AAAA" {
		address, owner = placeholderIPv6, "aaaa-"+name
	}
	record := func(name, kind, value string) resource.Node {
		return kinds.Placeholders.New(name+"-"+kind, kinds.Placeholder{Zone: z.ID, Name: name, Type: kind, TTL: placeholderTTL, Values: []string{value}})
	}
	nodes := []resource.Node{record(name, kind, address)}
	if d := m.spec.ExternalDNS; d != nil && d.Provider == api.ExternalDNSProviderExternalDNS {
		nodes = append(nodes, record(owner, "TXT", `"heritage=external-dns,external-dns/owner=kops-`+m.name+`"`))
	}
	return nodes
}
