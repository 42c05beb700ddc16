package zones

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/node/dns/records"
)

// The content of placeholders: addresses that are not routed (RFC 5737; kOps' own for IPv6), with a
// short TTL.
const (
	placeholderIPv4 = "203.0.113.123"
	placeholderIPv6 = "fd00:dead:add::"
	placeholderTTL  = 10 // seconds
)

// Names are the names of a cluster that its controllers publish.
type Names struct {
	Cluster string
	// Public is the API's name for users; empty: it has none, or a load balancer's record has it.
	Public string
	// IsInternalBalanced reports that a load balancer's record has the API's name for machines.
	IsInternalBalanced bool
	// IsIPv6Only reports that machines have no IPv4 addresses; users may have no others.
	IsIPv6Only bool
	// HasExternalDNS reports that external-dns may change the records, which it recognises by texts.
	HasExternalDNS bool
}

// Placeholders returns the placeholders of the names in a zone, sorted by name.
func (n Names) Placeholders(zone string) []Placeholder {
	own := []string{records.A}
	if n.IsIPv6Only {
		own = []string{records.AAAA}
	}
	types := map[string][]string{hostnames.Controller(n.Cluster): own}
	if !n.IsInternalBalanced {
		types[hostnames.API(n.Cluster)] = own
	}
	if n.Public != "" {
		types[n.Public] = slices.Compact(append([]string{records.A}, own...))
	}
	var out []Placeholder
	for _, name := range slices.Sorted(maps.Keys(types)) {
		for _, kind := range types[name] {
			address, owner := placeholderIPv4, name
			if kind == records.AAAA {
				address, owner = placeholderIPv6, "aaaa-"+name
			}
			out = append(out, Placeholder{Zone: zone, Name: name, Type: kind, TTL: placeholderTTL, Values: []string{address}})
			if n.HasExternalDNS {
				out = append(out, Placeholder{Zone: zone, Name: owner, Type: records.TXT, TTL: placeholderTTL, Values: []string{`"heritage=external-dns,external-dns/owner=kops-` + n.Cluster + `"`}})
			}
		}
	}
	return out
}

// Owned returns a function that reports whether a record of a zone is the cluster's: by its name, or
// by the mark with which dns-controller created it. sets are the zone's records, at least those within
// the cluster's name.
func Owned(cluster string, sets []records.Set) func(records.Key) bool {
	marked := map[records.Key]bool{}
	for _, s := range sets {
		name, kind, ok := hostnames.Marked(s.Name)
		if ok && s.Type == records.TXT && slices.Equal(s.Values, []string{hostnames.MarkText(cluster)}) {
			marked[s.Key], marked[records.Key{Name: name, Type: kind}] = true, true
		}
	}
	return func(k records.Key) bool { return marked[k] || isClusterName(k, cluster) }
}

// isClusterName reports whether a record is one that a cluster, or a controller in it, creates for the
// cluster itself.
func isClusterName(k records.Key, cluster string) bool {
	host, ok := strings.CutSuffix(k.Name, "."+cluster)
	if !ok || !slices.Contains([]string{records.A, records.AAAA, records.TXT}, k.Type) {
		return false
	}
	if k.Type == records.TXT {
		host = strings.TrimPrefix(host, "aaaa-")
	}
	member, isEtcd := strings.CutPrefix(strings.TrimSuffix(host, ".internal"), "etcd-")
	return slices.Contains([]string{"api", "api.internal", "bastion", "kops-controller.internal"}, host) ||
		isEtcd && !strings.Contains(member, ".") // a cluster whose name ends in this one's has more labels
}
