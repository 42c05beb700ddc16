package stage

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"kops.local/kops/internal/platform/rehearsal"
)

// zone contains an address, an alias within and one out of the zone, a loop of aliases, a
// wildcard, and an invalid record.
func zone(name, kind string) ([]string, bool) {
	records := map[string]map[string][]string{
		"a.zone.test":     {"A": {"a.zone.test. 300 IN A 192.0.2.7", "a.zone.test. 1 IN A 192.0.2.8"}, "TXT": {`a.zone.test. 60 IN TXT "some words"`}},
		"alias.zone.test": {"CNAME": {"alias.zone.test. 300 IN CNAME a.zone.test."}},
		"out.zone.test":   {"CNAME": {"out.zone.test. 300 IN CNAME api.service.test."}},
		"lost.zone.test":  {"CNAME": {"lost.zone.test. 300 IN CNAME nobody.test."}},
		"ring.zone.test":  {"CNAME": {"ring.zone.test. 300 IN CNAME ring.zone.test."}},
		"bad.zone.test":   {"A": {"bad.zone.test. 300 IN A nothing"}},
	}
	for i := range 60 {
		if records["wide.zone.test"] == nil {
			records["wide.zone.test"] = map[string][]string{}
		}
		records["wide.zone.test"]["A"] = append(records["wide.zone.test"]["A"], fmt.Sprintf("wide.zone.test. 5 IN A 192.0.2.%d", i))
	}
	r, known := records[name]
	return r[kind], known
}

// askNames starts a DNS server, and returns a func that queries it.
func askNames(t *testing.T) func(network, name string, kind uint16) *dns.Msg {
	t.Helper()
	p := &rehearsal.Play{Lookup: zone, Serves: func(host string) bool { return strings.HasSuffix(host, "service.test") }}
	n := &names{play: func() *rehearsal.Play { return p }, published: map[string]bool{"files.publisher.test": true}, address: netip.MustParseAddr(address), log: slog.New(slog.DiscardHandler)}
	s := &Stage{Options: Options{Log: n.log}}
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.startDNS(&dns.Server{PacketConn: packets, Handler: n})
	s.startDNS(&dns.Server{Listener: l, Handler: n})
	t.Cleanup(func() {
		for _, c := range s.closers {
			c()
		}
		s.serving.Wait()
	})
	at := map[string]string{"udp": packets.LocalAddr().String(), "tcp": l.Addr().String()}
	return func(network, name string, kind uint16) *dns.Msg {
		t.Helper()
		q := new(dns.Msg).SetQuestion(name, kind)
		m, _, err := (&dns.Client{Net: network}).Exchange(q, at[network])
		if err != nil {
			t.Fatalf("%s %s: %v", network, name, err)
		}
		return m
	}
}

func TestNames(t *testing.T) {
	ask := askNames(t)
	for _, c := range []struct {
		name string
		kind uint16
		want []string
		code int
	}{
		{"api.service.test.", dns.TypeA, []string{"api.service.test. 5 A 198.18.0.1"}, dns.RcodeSuccess},
		{"API.Service.Test.", dns.TypeA, []string{"API.Service.Test. 5 A 198.18.0.1"}, dns.RcodeSuccess},
		{"api.service.test.", dns.TypeAAAA, nil, dns.RcodeSuccess},
		{"files.publisher.test.", dns.TypeA, []string{"files.publisher.test. 5 A 198.18.0.1"}, dns.RcodeSuccess},
		{"a.zone.test.", dns.TypeA, []string{"a.zone.test. 5 A 192.0.2.7", "a.zone.test. 1 A 192.0.2.8"}, dns.RcodeSuccess},
		{"a.zone.test.", dns.TypeTXT, []string{`a.zone.test. 5 TXT "some words"`}, dns.RcodeSuccess},
		{"a.zone.test.", dns.TypeAAAA, nil, dns.RcodeSuccess},
		{"alias.zone.test.", dns.TypeA, []string{"alias.zone.test. 5 CNAME a.zone.test.", "a.zone.test. 5 A 192.0.2.7", "a.zone.test. 1 A 192.0.2.8"}, dns.RcodeSuccess},
		{"alias.zone.test.", dns.TypeCNAME, []string{"alias.zone.test. 5 CNAME a.zone.test."}, dns.RcodeSuccess},
		{"out.zone.test.", dns.TypeA, []string{"out.zone.test. 5 CNAME api.service.test.", "api.service.test. 5 A 198.18.0.1"}, dns.RcodeSuccess},
		{"lost.zone.test.", dns.TypeA, []string{"lost.zone.test. 5 CNAME nobody.test."}, dns.RcodeNameError},
		{"nobody.test.", dns.TypeA, nil, dns.RcodeNameError},
		{"nobody.zone.test.", dns.TypeA, nil, dns.RcodeNameError},
		{"ring.zone.test.", dns.TypeA, nil, dns.RcodeServerFailure},
		{"bad.zone.test.", dns.TypeA, nil, dns.RcodeServerFailure},
	} {
		t.Run(c.name+dns.TypeToString[c.kind], func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				m := ask(network, c.name, c.kind)
				var got []string
				for _, r := range m.Answer {
					text := strings.ReplaceAll(r.String(), "\tIN\t", "\t")
					got = append(got, strings.ReplaceAll(text, "\t", " "))
				}
				if d := cmp.Diff(c.want, got); d != "" || m.Rcode != c.code {
					t.Errorf("%s: %s %s", network, dns.RcodeToString[m.Rcode], d)
				}
				if good := m.Rcode != dns.RcodeServerFailure; good && (!m.Authoritative || m.RecursionAvailable || (len(got) == 0) != (len(m.Ns) == 1)) {
					t.Errorf("%s: %v", network, m)
				}
			}
		})
	}
}

// An answer that is too long for a UDP packet is marked as truncated, and is complete over TCP.
func TestALongAnswerIsCut(t *testing.T) {
	ask := askNames(t)
	m := ask("udp", "wide.zone.test.", dns.TypeA)
	m.Compress = true // compressed, as it was received
	if !m.Truncated || m.Len() > plainSize {
		t.Errorf("cut is %t, of %d bytes", m.Truncated, m.Len())
	}
	if m := ask("tcp", "wide.zone.test.", dns.TypeA); m.Truncated || len(m.Answer) != 60 {
		t.Errorf("cut is %t, of %d records", m.Truncated, len(m.Answer))
	}
}
