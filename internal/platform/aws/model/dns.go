package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/zones"
	"kops.local/kops/internal/spec/facts"
)

// zone returns the hosted zone of the cluster's names, by name or identifier.
func (m *model) zone() (facts.DNSZone, error) {
	want := strings.TrimSuffix(m.spec.DNSZone, ".")
	private := m.dnsType() == api.DNSPrivate
	best := -1
	for i, z := range m.facts.DNSZones {
		switch {
		case z.ID == strings.TrimPrefix(want, "/hostedzone/"):
			return z, nil
		case z.Name == want && z.Private == private:
			best = i
		}
	}
	if best < 0 {
		return facts.DNSZone{}, fmt.Errorf("the account has no %s hosted zone %s", strings.ToLower(string(m.dnsType())), m.spec.DNSZone)
	}
	return m.facts.DNSZones[best], nil
}

// hostedZone returns a zone's identifier as Route 53 writes it.
func hostedZone(z facts.DNSZone) string { return "/hostedzone/" + z.ID }

// dns returns the records of load balancers, and placeholders for the records that the cluster's
// controllers will set.
func (m *model) dns() ([]resource.Node, error) {
	if m.dnsType() == api.DNSNone {
		return nil, nil
	}
	z, err := m.zone()
	if err != nil {
		return nil, err
	}
	var nodes []resource.Node
	if m.dnsType() == api.DNSPrivate && (!m.sharedVPC() || !slices.Contains(z.Networks, m.spec.Networking.NetworkID)) {
		nodes = append(nodes, kinds.ZoneAssociations.New(m.spec.DNSZone, kinds.ZoneAssociation{ZoneID: hostedZone(z), VPC: m.vpcID()}))
	}
	if m.apiLB != nil {
		for _, name := range m.balancedNames() {
			nodes = append(nodes, aliasRecord(name, name, "A", z, m.apiLB), aliasRecord(name+"-AAAA", name, "AAAA", z, m.apiLB))
		}
	}
	if name := m.bastionSpec().PublicName; name != "" && m.bastionLB != nil {
		nodes = append(nodes, aliasRecord(name, name, "A", z, m.bastionLB))
	}
	return append(nodes, m.placeholders(z)...), nil
}

// balancedNames returns the names that resolve to the API's load balancer.
func (m *model) balancedNames() []string {
	var names []string
	if m.spec.API.PublicName != "" {
		names = append(names, m.spec.API.PublicName)
	}
	if internal := m.internalName(); m.apiLB.spec.UseForInternalAPI && !slices.Contains(names, internal) {
		names = append(names, internal)
	}
	return names
}

// internalName returns the API's name for machines of the cluster.
func (m *model) internalName() string { return hostnames.API(m.name) }

func aliasRecord(node, name, kind string, z facts.DNSZone, to *loadBalancer) resource.Node {
	return kinds.DNSRecords.New(node, kinds.DNSRecord{
		ZoneID: hostedZone(z), Name: name, Type: kind,
		Alias: &kinds.DNSAlias{Name: to.out("address"), ZoneID: to.out("zone")},
	})
}

// placeholders returns records that exist before the cluster does, so that no resolver caches that
// a name does not exist.
func (m *model) placeholders(z facts.DNSZone) []resource.Node {
	names := zones.Names{Cluster: m.name, IsIPv6Only: m.ipv6Only(), IsInternalBalanced: m.apiLB != nil && m.apiLB.spec.UseForInternalAPI}
	if m.apiLB == nil {
		names.Public = m.spec.API.PublicName
	}
	if d := m.spec.ExternalDNS; d != nil {
		names.HasExternalDNS = d.Provider == api.ExternalDNSProviderExternalDNS
	}
	var nodes []resource.Node
	for _, p := range names.Placeholders(hostedZone(z)) {
		nodes = append(nodes, kinds.DNSPlaceholders.New(p.Name+"-"+p.Type, kinds.DNSPlaceholder{ZoneID: p.Zone, Name: p.Name, Type: p.Type, TTL: p.TTL, Records: p.Values}))
	}
	return nodes
}
