// Package rfc2136 is a DNS provider for servers that accept dynamic updates: BIND, Knot,
// PowerDNS, or an Active Directory server that accepts TSIG.
//
// A server cannot list its zones, so they are configured. The package reads a zone by a
// transfer (AXFR, RFC 5936), and changes it by updates (RFC 2136), both over TCP and signed
// with a key (TSIG, RFC 8945). It must not know whose records these are.
package rfc2136

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	wire "github.com/miekg/dns"

	"kops.local/kops/internal/node/dns/records"
)

const (
	// limit is the maximum duration of one exchange with the server.
	limit = 30 * time.Second
	// fudge is the allowed difference of the clocks, in seconds (RFC 8945, 10).
	fudge = 300
	// maxBytes is the maximum size of an update's records, which leaves room in the message for
	// its header and signature.
	maxBytes = 60000
)

// Key is a key shared with the server.
type Key struct {
	Name string
	// Algorithm is a name such as hmac-sha256, which is the default if it is empty.
	Algorithm string
	// Secret is in base64.
	Secret string
}

// ReadKey parses a key in the format of tsig-keygen: key "NAME" { algorithm …; secret "…"; };
func ReadKey(r io.Reader) (Key, error) {
	var k Key
	s := bufio.NewScanner(r)
	s.Split(bufio.ScanWords)
	last := ""
	for s.Scan() {
		word := strings.Trim(s.Text(), `"{};`)
		switch last {
		case "key":
			k.Name = word
		case "algorithm":
			k.Algorithm = word
		case "secret":
			k.Secret = word
		}
		last = word
	}
	if err := s.Err(); err != nil {
		return Key{}, err
	}
	if k.Name == "" || k.Secret == "" {
		return Key{}, errors.New(`it contains no key; tsig-keygen writes one: key "NAME" { algorithm hmac-sha256; secret "…"; };`)
	}
	return k, nil
}

// Provider is one server.
type Provider struct {
	server string
	zones  []records.Zone
	key    Key
	now    func() time.Time
}

// Options specify the server and its zones.
type Options struct {
	// Server is an address, with a port unless it is 53.
	Server string
	// Zones are the names of the zones.
	Zones []string
	// Key signs the messages; if its name is empty they are unsigned, which a server accepts only
	// if it trusts addresses.
	Key Key
	Now func() time.Time
}

// New returns a provider. It sends nothing.
func New(o Options) (*Provider, error) {
	if o.Server == "" {
		return nil, errors.New("no DNS server is given; give the primary server of the zones, as HOST or HOST:PORT")
	}
	if len(o.Zones) == 0 {
		return nil, errors.New("no zone is given, and RFC 2136 cannot list zones")
	}
	p := &Provider{server: o.Server, key: o.Key, now: o.Now}
	if _, _, err := net.SplitHostPort(o.Server); err != nil {
		p.server = net.JoinHostPort(strings.Trim(o.Server, "[]"), "53")
	}
	for _, name := range o.Zones {
		name = records.Canonical(name)
		p.zones = append(p.zones, records.Zone{ID: name, Name: name})
	}
	if p.key.Name == "" {
		return p, nil
	}
	p.key.Name = wire.Fqdn(strings.ToLower(p.key.Name))
	if p.key.Algorithm == "" {
		p.key.Algorithm = wire.HmacSHA256
	}
	p.key.Algorithm = wire.Fqdn(strings.ToLower(p.key.Algorithm))
	known := []string{wire.HmacSHA1, wire.HmacSHA224, wire.HmacSHA256, wire.HmacSHA384, wire.HmacSHA512}
	if !slices.Contains(known, p.key.Algorithm) {
		return nil, fmt.Errorf("the TSIG key %s: got the algorithm %q; supported are %s", p.key.Name, p.key.Algorithm, strings.Join(known, " "))
	}
	if _, err := base64.StdEncoding.DecodeString(p.key.Secret); err != nil {
		return nil, fmt.Errorf("the TSIG key %s: its secret is not base64", p.key.Name)
	}
	return p, nil
}

// Zones returns the configured zones.
func (p *Provider) Zones(context.Context) ([]records.Zone, error) { return p.zones, nil }

// secrets returns the key in the form that the library expects.
func (p *Provider) secrets() map[string]string {
	if p.key.Name == "" {
		return nil
	}
	return map[string]string{p.key.Name: p.key.Secret}
}

// sign makes the library sign a message when it is sent.
func (p *Provider) sign(m *wire.Msg) {
	if p.key.Name != "" {
		m.SetTsig(p.key.Name, p.key.Algorithm, fudge, p.now().Unix())
	}
}

// dial connects for one exchange, which is aborted when the context ends.
func (p *Provider) dial(ctx context.Context) (*wire.Conn, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // the reader gets the error
	return &wire.Conn{Conn: c, TsigSecret: p.secrets()}, func() {
		stop()
		cancel()
		_ = c.Close() // all was read
	}, nil
}

// Records transfers a zone.
func (p *Provider) Records(ctx context.Context, zone records.Zone, _ []string) ([]records.Set, error) {
	conn, done, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m := new(wire.Msg)
	m.SetAxfr(wire.Fqdn(zone.Name))
	p.sign(m)
	answers, err := (&wire.Transfer{Conn: conn, TsigSecret: p.secrets()}).In(m, p.server)
	if err != nil {
		return nil, fmt.Errorf("transfer the zone: %w", err)
	}
	held := map[records.Key]*records.Set{}
	for answer := range answers {
		if answer.Error != nil {
			err = answer.Error // the channel must be drained
			continue
		}
		for _, rr := range answer.RR {
			collect(held, rr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("transfer the zone; the server must allow this to the key (allow-transfer): %w", err)
	}
	var out []records.Set
	for k, s := range held {
		out = append(out, records.NewSet(k.Name, k.Type, s.TTL, s.Values...))
	}
	return out, nil
}

// collect adds a record to its set.
func collect(held map[records.Key]*records.Set, rr wire.RR) {
	h := rr.Header()
	k := records.Key{Name: records.Canonical(h.Name), Type: wire.TypeToString[h.Rrtype]}
	var value string
	switch r := rr.(type) {
	case *wire.A:
		value = r.A.String()
	case *wire.AAAA:
		value = r.AAAA.String()
	case *wire.CNAME:
		value = r.Target
	case *wire.TXT:
		value = strings.Join(r.Txt, "")
	default:
		value = strings.TrimPrefix(rr.String(), h.String())
	}
	if held[k] == nil {
		held[k] = &records.Set{}
	}
	held[k].TTL = int(h.Ttl)
	held[k].Values = append(held[k].Values, value)
}

// Apply sends the changes in as few updates as possible. A server applies an update atomically.
func (p *Provider) Apply(ctx context.Context, zone records.Zone, changes []records.Change) error {
	for len(changes) > 0 {
		m, n, err := message(zone, changes)
		if err != nil {
			return err
		}
		if err := p.update(ctx, m); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// message returns an update with as many changes as fit, at least one, and their number.
func message(zone records.Zone, changes []records.Change) (*wire.Msg, int, error) {
	m := new(wire.Msg)
	m.SetUpdate(wire.Fqdn(zone.Name))
	size := 0
	for i, c := range changes {
		var removed, added []wire.RR
		for _, s := range slices.Concat(c.Delete, c.Upsert) {
			removed = append(removed, &wire.ANY{Hdr: wire.RR_Header{Name: wire.Fqdn(s.Name), Rrtype: wire.StringToType[s.Type]}})
		}
		for _, s := range c.Upsert {
			rrs, err := resourceRecords(s)
			if err != nil {
				return nil, 0, err
			}
			added = append(added, rrs...)
		}
		n := 0
		for _, rr := range slices.Concat(removed, added) {
			n += wire.Len(rr)
		}
		if i > 0 && size+n > maxBytes {
			return m, i, nil
		}
		size += n
		m.RemoveRRset(removed)
		m.Insert(added)
	}
	return m, len(changes), nil
}

// resourceRecords returns the resource records of a set.
func resourceRecords(s records.Set) ([]wire.RR, error) {
	var out []wire.RR
	for _, v := range s.Values {
		h := wire.RR_Header{Name: wire.Fqdn(s.Name), Rrtype: wire.StringToType[s.Type], Class: wire.ClassINET, Ttl: uint32(s.TTL)} //nolint:gosec // the TTL is in seconds
		switch s.Type {
		case records.A:
			out = append(out, &wire.A{Hdr: h, A: net.ParseIP(v)})
		case records.AAAA:
			out = append(out, &wire.AAAA{Hdr: h, AAAA: net.ParseIP(v)})
		case records.CNAME:
			out = append(out, &wire.CNAME{Hdr: h, Target: wire.Fqdn(v)})
		case records.TXT:
			var parts []string
			for part := range slices.Chunk([]byte(v), 255) { // the maximum length of a TXT string (RFC 1035)
				parts = append(parts, string(part))
			}
			out = append(out, &wire.TXT{Hdr: h, Txt: parts})
		default:
			return nil, fmt.Errorf("records of type %s are not written: %s", s.Type, s.Name)
		}
	}
	return out, nil
}

func (p *Provider) update(ctx context.Context, m *wire.Msg) error {
	conn, done, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer done()
	p.sign(m)
	client := &wire.Client{Net: "tcp", TsigSecret: p.secrets(), Timeout: limit}
	answer, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if err != nil {
		return fmt.Errorf("update the zone: %w", err)
	}
	if answer.Rcode != wire.RcodeSuccess {
		return fmt.Errorf("update the zone: the server answered %s; it must be the primary server, and allow this to the key (update-policy or allow-update)", wire.RcodeToString[answer.Rcode])
	}
	return nil
}
