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

// What a name answers until the cluster says better: addresses that are routed
// nowhere (RFC 5737; kOps' own for IPv6), for a short time.
const (
	placeholderIPv4 = "203.0.113.123"
	placeholderIPv6 = "fd00:dead:add::"
	placeholderTTL  = 10 // seconds
)

// zone finds the zone of the cluster's names, by name or number: one of the right
// sort before another, as clusters of kOps' may have either.
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
		return facts.DNSZone{}, fmt.Errorf("project %s has no zone %s in Cloud DNS; make it, or name another with spec.dnsZone", m.project, m.spec.DNSZone)
	}
	return *found, nil
}

// dns is placeholders for the names that the cluster's controllers will set. They exist
// before the cluster does, so that no resolver remembers that a name does not.
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
	if name := m.spec.API.PublicName; name != "" && !m.balanced() { // users may have IPv4 only
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

// placeholder is one of them, and what tells external-dns that it may change it.
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
