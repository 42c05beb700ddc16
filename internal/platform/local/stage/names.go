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
	// ttl is how long an answer is good, in seconds: what is played changes quickly.
	ttl = 5
	// longestChain bounds how many aliases lead to a name.
	longestChain = 8
	// plainSize is what a client takes in a packet that says nothing of it (RFC 1035, 2.3.4).
	plainSize = 512
)

// names answers DNS queries: for the play's zones, its services and publishers. There are no other
// names.
type names struct {
	play      func() *rehearsal.Play // nil: there is none yet
	published map[string]bool
	address   netip.Addr // where services are
	log       *slog.Logger
}

// ServeDNS answers one question.
func (n *names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := n.reply(q)
	size := plainSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, int(opt.UDPSize()))
		m.SetEdns0(opt.UDPSize(), false)
	}
	if w.LocalAddr().Network() == "udp" {
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // the client asks again
}

func (n *names) reply(q *dns.Msg) *dns.Msg {
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
	answers, known, err := n.chase(q.Question[0].Name, q.Question[0].Qtype)
	if err != nil {
		n.log.Error("answer a question for a name", "name", q.Question[0].Name, "error", err)
		return m.SetRcode(q, dns.RcodeServerFailure)
	}
	m.Answer = answers
	if !known {
		m.Rcode = dns.RcodeNameError
	}
	if len(answers) == 0 { // tells for how long (RFC 2308)
		m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA), Ns: "rehearsal.", Mbox: "rehearsal.", Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl}}
	}
	return m
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// chase returns the records of a name, and of the name for which it is an alias.
func (n *names) chase(name string, kind uint16) (out []dns.RR, known bool, err error) {
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
			return out, known, nil // of the last name (RFC 6604, 2.1)
		}
		name = alias
	}
	return nil, false, errors.New("aliases lead to no end")
}

// lookup returns the records of a name: of the kind, or an alias.
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

// parse reads records, which get the name as it was asked for.
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
