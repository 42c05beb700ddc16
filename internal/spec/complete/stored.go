package complete

import (
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// Ranges that are used when nothing else is said.
const (
	awsNetwork    = "172.20.0.0/16"
	azureNetwork  = "10.0.0.0/16"
	nonMasquerade = "100.64.0.0/10"
	privateRange  = "10.0.0.0/8"
	serviceRange4 = "100.64.0.0/13"
	serviceRange6 = "fd00:5e4f:ce::/108"
)

// clusterDomain is the DNS domain of services.
const clusterDomain = "cluster.local"

func setConfigBase(p *pass) { fill(&p.spec.ConfigStore.Base, p.in.ConfigBase) }

func setBackupRetention(p *pass) {
	for i := range p.spec.EtcdClusters {
		m := ensure(&p.spec.EtcdClusters[i].Manager)
		fillPtr(&m.BackupRetentionDays, 90)
	}
}

func setKubernetesVersion(p *pass) {
	fill(&p.spec.KubernetesVersion, p.in.Channel.NewClusterVersion(p.in.KopsVersion))
}

func setNonMasqueradeCIDR(p *pass) {
	n := &p.spec.Networking
	switch {
	case n.AmazonVPC != nil && n.NetworkCIDR != "":
		fill(&n.NonMasqueradeCIDR, n.NetworkCIDR)
	case p.usesAliasRanges():
		fill(&n.NonMasqueradeCIDR, privateRange)
	default:
		fill(&n.NonMasqueradeCIDR, nonMasquerade)
	}
}

func setStoredPublicName(p *pass) {
	if p.dns() == api.DNSPublic {
		fill(&p.spec.API.PublicName, p.publicName())
	}
}

// setProxyExcludes appends what a proxy must not see to what the user excludes.
func setProxyExcludes(p *pass) {
	proxy, n := p.spec.Networking.EgressProxy, &p.spec.Networking
	if proxy == nil {
		return
	}
	domain := p.spec.ClusterDNSDomain
	fill(&domain, clusterDomain)
	items := []string{"127.0.0.1", "localhost", domain, p.publicName(), p.cluster.Name}
	if r, err := netip.ParsePrefix(n.NonMasqueradeCIDR); err == nil {
		items = append(items, nth(r, 1).String())
	}
	items = append(items, n.NonMasqueradeCIDR)
	if p.cloud == api.CloudAWS {
		items = append(items, "169.254.169.254")
	}
	items = slices.Concat(items, []string{n.NetworkCIDR}, n.AdditionalNetworkCIDRs)

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
