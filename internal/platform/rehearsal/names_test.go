package rehearsal

import (
	"net/netip"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	n := Names{
		Hosts:     map[string]netip.Addr{"front.platform": netip.MustParseAddr("10.0.0.1")},
		Reachable: map[netip.Addr]netip.Addr{netip.MustParseAddr("203.0.113.1"): netip.MustParseAddr("10.0.0.2")},
		Zones: []Zone{
			{Name: "example.com", Servers: []string{"ns1.example.net", "ns2.example.net."}, Records: []Record{
				{Name: "a.example.com", Type: "A", TTL: 30, Values: []string{"203.0.113.1", "10.0.0.3"}},
				{Name: "a.example.com", Type: "TXT", TTL: 30, Values: []string{`"x"`}},
				{Name: "c.example.com", Type: "CNAME", TTL: 30, Values: []string{"a.example.com"}},
				{Name: "api.example.com", Type: "A", Host: "front.platform"},
				{Name: "gone.example.com", Type: "A", Host: "other.platform"},
				{Name: PlainName(`\052.Apps.example.com.`), Type: "A", TTL: 30, Values: []string{"10.0.0.4"}},
			}},
			{Name: "sub.example.com", Records: []Record{{Name: "sub.example.com", Type: "NS", TTL: 30, Values: []string{"ns.sub.example.com."}}}},
		},
	}
	for _, c := range []struct {
		name, kind string
		want       []string
		known      bool
	}{
		{"Front.Platform.", "A", []string{"front.platform. 60 IN A 10.0.0.1"}, true},
		{"front.platform", "AAAA", nil, true},
		{"a.example.com", "A", []string{"a.example.com. 30 IN A 10.0.0.2", "a.example.com. 30 IN A 10.0.0.3"}, true},
		{"a.example.com", "TXT", []string{`a.example.com. 30 IN TXT "x"`}, true},
		{"a.example.com", "AAAA", nil, true},
		{"c.example.com", "A", []string{"c.example.com. 30 IN CNAME a.example.com."}, true},
		{"api.example.com", "A", []string{"api.example.com. 60 IN A 10.0.0.1"}, true},
		{"api.example.com", "AAAA", nil, true},
		{"gone.example.com", "A", nil, true},
		{"x.apps.example.com", "A", []string{"x.apps.example.com. 30 IN A 10.0.0.4"}, true},
		{"b.example.com", "A", nil, false},
		{"example.com", "NS", []string{"example.com. 60 IN NS ns1.example.net.", "example.com. 60 IN NS ns2.example.net."}, true},
		{"example.com", "A", nil, true},
		{"sub.example.com", "NS", []string{"sub.example.com. 30 IN NS ns.sub.example.com."}, true},
		{"a.sub.example.com", "A", nil, false},
		{"notexample.com", "A", nil, false},
	} {
		if got, known := n.Lookup(c.name, c.kind); known != c.known || !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q, %v", c.kind, c.name, got, known)
		}
	}
}
