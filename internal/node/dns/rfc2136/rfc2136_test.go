package rfc2136

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
)

const key = `key "kops" {
	algorithm hmac-sha256;
	secret "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiBrb3BzISEhISE=";
};
`

// startBIND starts a BIND with a zone that accepts updates signed with the key, and returns its
// address.
func startBIND(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("named")
	if err != nil {
		program = "/usr/sbin/named"
	}
	if _, err := os.Stat(program); err != nil {
		const why = "named is not installed (apt-get install bind9)"
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: " + why)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: " + why)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("zone", "$TTL 300\n@ SOA ns.example.com. root.example.com. 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nmail A 7.7.7.7\n")
	write("named.conf", key+fmt.Sprintf(`options { directory %[1]q; listen-on port %[2]s { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none;
  session-keyfile none; recursion no; allow-transfer { none; }; notify no; };
controls { };
zone "example.com" { type primary; file "zone"; allow-update { key kops; }; allow-transfer { key kops; }; };
`, dir, port))
	var said bytes.Buffer
	cmd := exec.Command(program, "-g", "-c", filepath.Join(dir, "named.conf"))
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit status does not matter
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited already
		<-ended
	})
	m := new(wire.Msg)
	m.SetQuestion("example.com.", wire.TypeSOA)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if r, _, err := (&wire.Client{Net: "tcp"}).Exchange(m, address); err == nil && r.Rcode == wire.RcodeSuccess {
			return address
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("named ended:\n%s", &said)
		case <-t.Context().Done():
			t.Fatal("named does not answer")
		}
	}
}

func provider(t *testing.T, server, key string) *Provider {
	t.Helper()
	k, err := ReadKey(strings.NewReader(key))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Server: server, Zones: []string{"Example.com."}, Key: k, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// zoneText returns the zone's sets as text, without marks and BIND's own records.
func zoneText(t *testing.T, p *Provider) string {
	t.Helper()
	all, err := p.Records(t.Context(), p.zones[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		if s.Type != "SOA" && s.Type != "NS" && s.Type != records.TXT {
			out = append(out, fmt.Sprintf("%s %s %d %s", s.Name, s.Type, s.TTL, strings.Join(s.Values, ",")))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestBIND(t *testing.T) {
	server := startBIND(t)
	p := provider(t, server, key)
	zone := p.zones[0]
	const kept = "mail.example.com A 300 7.7.7.7\nns.example.com A 300 127.0.0.1"
	owner := dns.Owner{Cluster: "k.example.com"}
	for _, step := range []struct {
		name string
		want []records.Set
		held string
	}{
		{"published", []records.Set{records.NewSet("a.internal.k.example.com", records.A, 60, "10.0.0.2", "10.0.0.1"), records.NewSet("*.shop.example.com", records.CNAME, 60, "lb.example.net")},
			"*.shop.example.com CNAME 60 lb.example.net\na.internal.k.example.com A 60 10.0.0.1,10.0.0.2\n" + kept},
		{"the type changes", []records.Set{records.NewSet("a.internal.k.example.com", records.A, 60, "10.0.0.3"), records.NewSet("*.shop.example.com", records.AAAA, 60, "fd00::1")},
			"*.shop.example.com AAAA 60 fd00::1\na.internal.k.example.com A 60 10.0.0.3\n" + kept},
		{"to a name", []records.Set{records.NewSet("*.shop.example.com", records.CNAME, 60, "lb.example.net")}, "*.shop.example.com CNAME 60 lb.example.net\n" + kept},
		{"withdrawn", nil, kept},
	} {
		for i := range 2 {
			have, err := p.Records(t.Context(), zone, nil)
			if err != nil {
				t.Fatal(err)
			}
			plan := owner.Plan(zone, step.want, dns.NewContent(have))
			if i == 1 && len(plan.Changes) > 0 {
				t.Errorf("%s: it would be changed again: %+v", step.name, plan.Changes)
			}
			if err := p.Apply(t.Context(), zone, plan.Changes); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if got := zoneText(t, p); got != step.held {
			t.Errorf("%s: got\n%s\nwant\n%s", step.name, got, step.held)
		}
	}
	t.Run("more than a message", func(t *testing.T) {
		var want []records.Set
		for i := range 500 {
			want = append(want, records.NewSet(fmt.Sprintf("n%03d.internal.k.example.com", i), records.A, 60, "10.0.0.1", "10.0.0.2"))
		}
		plan := owner.Plan(zone, want, dns.Content{})
		if _, n, err := message(zone, plan.Changes); err != nil || n < 100 || n >= 500 {
			t.Errorf("%d names in a message: %v", n, err)
		}
		if err := p.Apply(t.Context(), zone, plan.Changes); err != nil {
			t.Fatal(err)
		}
		have, err := p.Records(t.Context(), zone, nil)
		if plan := owner.Plan(zone, want, dns.NewContent(have)); err != nil || len(plan.Changes) > 0 {
			t.Errorf("%d names would be changed again: %v", len(plan.Changes), err)
		}
	})
	t.Run("a wrong key", func(t *testing.T) {
		p := provider(t, server, strings.Replace(key, "c2Vj", "d2Vj", 1))
		if _, err := p.Records(t.Context(), zone, nil); err == nil {
			t.Error("the zone was transferred")
		}
		err := p.Apply(t.Context(), zone, []records.Change{{Upsert: []records.Set{records.NewSet("x.example.com", records.A, 60, "1.1.1.1")}}})
		if err == nil {
			t.Error("the zone was changed")
		}
	})
}

func TestOptions(t *testing.T) {
	k := Key{Name: "k", Secret: "AAAA"}
	for want, o := range map[string]Options{
		"no DNS server is given":  {Zones: []string{"a.b"}, Key: k},
		"no zone is given":        {Server: "x", Key: k},
		"got the algorithm \"md5": {Server: "x", Zones: []string{"a.b"}, Key: Key{Name: "k", Algorithm: "md5", Secret: "AAAA"}},
		"is not base64":           {Server: "x", Zones: []string{"a.b"}, Key: Key{Name: "k", Secret: "?"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for in, want := range map[string]string{"ns.example.com": "ns.example.com:53", "10.0.0.1:5353": "10.0.0.1:5353", "fd00::1": "[fd00::1]:53", "[fd00::1]": "[fd00::1]:53"} {
		if p, err := New(Options{Server: in, Zones: []string{"a.b"}}); err != nil || p.server != want {
			t.Errorf("%s: %+v %v", in, p, err)
		}
	}
	if _, err := ReadKey(strings.NewReader("secret")); err == nil {
		t.Error("it holds a key")
	}
}
