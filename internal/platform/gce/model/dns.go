package model

import (
	"fmt"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/zones"
	"kops.local/kops/internal/spec/facts"
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
	names := zones.Names{Cluster: m.name, IsIPv6Only: m.spec.IPv6Only()}
	if !m.hasLoadBalancer() {
		names.Public = m.spec.API.PublicName
	}
	if d := m.spec.ExternalDNS; d != nil {
		names.HasExternalDNS = d.Provider == api.ExternalDNSProviderExternalDNS
	}
	var nodes []resource.Node
	for _, p := range names.Placeholders(z.ID) {
		nodes = append(nodes, kinds.Placeholders.New(p.Name+"-"+p.Type, p))
	}
	return nodes, nil
}
