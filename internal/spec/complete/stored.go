package complete

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// Default ranges.
const (
	nonMasquerade = "100.64.0.0/10"
	serviceRange4 = "100.64.0.0/13"
	serviceRange6 = "fd00:5e4f:ce::/108"
)

// clusterDomain is the DNS domain of services.
const clusterDomain = "cluster.local"

func setConfigBase(p *Pass) { fill.Value(&p.Spec.ConfigStore.Base, p.input.ConfigBase) }

func setBackupRetention(p *Pass) {
	for i := range p.Spec.EtcdClusters {
		m := fill.Ensure(&p.Spec.EtcdClusters[i].Manager)
		fill.Ptr(&m.BackupRetentionDays, 90)
	}
}

func setKubernetesVersion(p *Pass) {
	fill.Value(&p.Spec.KubernetesVersion, p.input.Channel.NewClusterVersion(p.input.KopsVersion))
}

func setNonMasqueradeCIDR(p *Pass) {
	n := &p.Spec.Networking
	switch {
	case n.AmazonVPC != nil && n.NetworkCIDR != "":
		fill.Value(&n.NonMasqueradeCIDR, n.NetworkCIDR)
	default:
		fill.Value(&n.NonMasqueradeCIDR, nonMasquerade)
	}
}

func setStoredPublicName(p *Pass) {
	if p.dns() == api.DNSPublic {
		fill.Value(&p.Spec.API.PublicName, p.publicName())
	}
}

// setProxyExcludes appends the destinations that must bypass a proxy to the user's exclusions.
func setProxyExcludes(p *Pass) {
	proxy, n := p.Spec.Networking.EgressProxy, &p.Spec.Networking
	if proxy == nil {
		return
	}
	domain := p.Spec.ClusterDNSDomain
	fill.Value(&domain, clusterDomain)
	items := []string{"127.0.0.1", "localhost", domain, p.publicName(), p.Cluster.Name}
	if r, err := netip.ParsePrefix(n.NonMasqueradeCIDR); err == nil {
		items = append(items, nth(r, 1).String())
	}
	items = append(items, n.NonMasqueradeCIDR)
	items = slices.Concat(items, []string{p.platform.Network.Metadata, n.NetworkCIDR}, n.AdditionalNetworkCIDRs)

	var excludes []string
	if proxy.Excludes != "" {
		excludes = strings.Split(proxy.Excludes, ",")
	}
	for _, item := range items {
		if item != "" && !slices.Contains(excludes, item) {
			excludes = append(excludes, item)
		}
	}
	proxy.Excludes = strings.Join(excludes, ",")
}
