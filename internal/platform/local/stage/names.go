package stage

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"kops.local/kops/internal/platform/rehearsal"
)

const (
	// ttl is the TTL of answers, in seconds: the play's records change quickly.
	ttl = 5
	// longestChain is the maximum length of a chain of aliases.
	longestChain = 8
	// plainSize is the maximum size of a UDP answer to a client that does not specify one (RFC
	// 1035, 2.3.4).
	plainSize = 512
)

// names answers DNS queries for the play's zones, its services and publishers. No other names
// exist.
type names struct {
	play      func() *rehearsal.Play // nil: not set yet
	published map[string]bool
	address   netip.Addr // where services are
	log       *slog.Logger
}

// ServeDNS answers one query.
func (n *names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := n.answer(q)
	size := plainSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, int(opt.UDPSize()))
		m.SetEdns0(opt.UDPSize(), false)
	}
	if w.LocalAddr().Network() == "udp" {
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // the client retries
}

func (n *names) answer(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	switch {
	case q.Opcode != dns.OpcodeQuery:
		return m.SetRcode(q, dns.RcodeNotImplemented)
	case len(q.Question) != 1:
		return m.SetRcode(q, dns.RcodeFormatError)
	case q.Question[0].Qclass != dns.ClassINET:
		return m.SetRcode(q, dns.RcodeRefused)
	}
	m.SetReply(q)
	m.Authoritative = true
	answers, known, err := n.resolveAliases(q.Question[0].Name, q.Question[0].Qtype)
	if err != nil {
		n.log.Error("answer a DNS query", "name", q.Question[0].Name, "error", err)
		return m.SetRcode(q, dns.RcodeServerFailure)
	}
	m.Answer = answers
	if !known {
		m.Rcode = dns.RcodeNameError
	}
	if len(answers) == 0 { // its SOA says for how long (RFC 2308)
		m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA), Ns: "rehearsal.", Mbox: "rehearsal.", Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl}}
	}
	return m
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// resolveAliases returns the records of a name, following aliases.
func (n *names) resolveAliases(name string, kind uint16) (out []dns.RR, known bool, err error) {
	for range longestChain {
		records, known, err := n.lookup(name, kind)
		if err != nil {
			return nil, false, err
		}
		out = append(out, records...)
		alias := ""
		for _, r := range records {
			if c, ok := r.(*dns.CNAME); ok && kind != dns.TypeCNAME {
				alias = c.Target
			}
		}
		if alias == "" {
			return out, known, nil // about the last name (RFC 6604, 2.1)
		}
		name = alias
	}
	return nil, false, errors.New("the aliases form a loop")
}

// lookup returns a name's records of the given kind, or its alias.
func (n *names) lookup(name string, kind uint16) (out []dns.RR, known bool, err error) {
	plain := strings.ToLower(strings.TrimSuffix(name, "."))
	p := n.play()
	if p != nil && p.Lookup != nil {
		lines, known := p.Lookup(plain, dns.TypeToString[kind])
		if known && len(lines) == 0 {
			lines, _ = p.Lookup(plain, dns.TypeToString[dns.TypeCNAME])
		}
		if known {
			out, err := parse(name, lines)
			return out, true, err
		}
	}
	if !n.published[plain] && !(p != nil && p.Serves != nil && p.Serves(plain)) {
		return nil, false, nil
	}
	if kind != dns.TypeA {
		return nil, true, nil
	}
	return []dns.RR{&dns.A{Hdr: header(name, kind), A: n.address.AsSlice()}}, true, nil
}

// parse parses records, whose name is replaced by the queried one.
func parse(name string, lines []string) ([]dns.RR, error) {
	var out []dns.RR
	for _, l := range lines {
		r, err := dns.NewRR(l)
		if err != nil || r == nil {
			return nil, fmt.Errorf("read the record %q of %s: %w", l, name, err)
		}
		r.Header().Name, r.Header().Ttl = name, min(r.Header().Ttl, ttl)
		out = append(out, r)
	}
	return out, nil
}
