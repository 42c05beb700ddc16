package rehearsal

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/test/servers"
	"kops.local/kops/internal/test/stagetest"
)

// testPlay is a play with real emulators on a host in memory.
type testPlay struct {
	*testing.T
	*play
	host    *stagetest.Host
	as      *rehearsal.Play
	network int64
}

func newPlay(t *testing.T) *testPlay {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: networks are made by root")
	}
	dir := t.TempDir()
	if err := os.Symlink(servers.Tool(t, program, "github.com/versity/versitygw/cmd/versitygw"), filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	h := stagetest.New()
	own, err := start(t.Context(), h.Stage(), rehearsal.Options{Dir: dir, Stores: []string{"state"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &testPlay{T: t, play: own, host: h, as: own.asPlay()}
	t.Cleanup(func() {
		if err := p.as.Close(); err != nil {
			t.Error(err)
		}
	})
	p.network = created[hetznerapi.Network](p, "networks", map[string]any{"name": "n", "ip_range": "10.0.0.0/16",
		"subnets": []map[string]any{{"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/16"}}}).ID
	return p
}

func created[T any](p *testPlay, kind string, body any) T {
	p.Helper()
	out, err := hetznerapi.Create[T](p.Context(), p.api, kind, body)
	p.ok(err)
	return out
}

func (p *testPlay) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// pass reconciles twice, because an operation is done by the next request.
func (p *testPlay) pass() {
	p.Helper()
	p.ok(p.sync(p.Context()))
	p.ok(p.sync(p.Context()))
}

// server creates a server in the network, and returns its number.
func (p *testPlay) server(name string) int64 {
	p.Helper()
	id := created[hetznerapi.Server](p, "servers", map[string]any{"name": name, "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1", "networks": []int64{p.network},
		"labels": map[string]string{"role": "api"}, "user_data": "#!/bin/sh\necho " + name + "\n"}).ID
	p.pass()
	return id
}

// act does an action that has a body.
func (p *testPlay) act(kind string, id int64, action string, body map[string]any) {
	p.Helper()
	p.ok(p.api.Act(p.Context(), hetznerapi.Path(kind, id), action, body))
	p.pass()
}

func TestAServerIsPlayed(t *testing.T) {
	p := newPlay(t)
	p.server("a")
	m := p.host.Machines["a"]
	if m.UserData != "#!/bin/sh\necho a\n" || m.MemoryMiB != 4096 || m.Gateway.String() != "10.0.0.1" || m.Address.String() != "10.0.0.2/16" {
		t.Errorf("the machine is %+v", m)
	}
	at := m.Address.Addr()
	if own := p.host.Checked[at]; !slices.Equal(own, []netip.Prefix{netip.PrefixFrom(at, 32)}) {
		t.Errorf("it may use %v", own)
	}
	ask := func(from netip.Addr) (int, string) {
		r, w := httptest.NewRequest(http.MethodGet, "http://169.254.169.254/hetzner/v1/metadata/hostname", nil), httptest.NewRecorder()
		r.RemoteAddr = netip.AddrPortFrom(from, 40000).String()
		p.as.Plain[metadataAddress].ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := ask(at); code != http.StatusOK || text != "a" {
		t.Errorf("the metadata: %d %s", code, text)
	}
	if code, _ := ask(at.Next()); code != http.StatusNotFound {
		t.Errorf("the metadata of nobody: %d", code)
	}
	p.act("networks", p.network, "add_route", map[string]any{"destination": "10.244.0.0/24", "gateway": at.String()})
	if own := p.host.Checked[at]; p.host.Ranges["10.244.0.0/24"] != at.String() || len(own) != 2 {
		t.Errorf("the routes are %v; the server may use %v", p.host.Ranges, own)
	}
	if got := bootScript(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))); got != "#!/bin/sh\n" {
		t.Errorf("an image runs %q", got)
	}
}

// A dead machine's server is off, and boots again when it is powered on.
func TestAServerThatDied(t *testing.T) {
	p := newPlay(t)
	id := p.server("a")
	status := func() string {
		s, err := hetznerapi.Get[hetznerapi.Server](t.Context(), p.api, hetznerapi.Path("servers", id))
		p.ok(err)
		return s.Status
	}
	p.host.Dead["a"] = true
	p.pass()
	p.pass()
	if status() != "off" || len(p.host.Machines) > 0 {
		t.Errorf("the server is %s; the machines are %v", status(), p.host.Machines)
	}
	p.ask(http.MethodPost, "https://"+apiHost+"/v1/servers/"+fmt.Sprint(id)+"/actions/poweron")
	p.pass()
	if status() != "running" || len(p.host.Machines) != 1 || p.host.Dead["a"] {
		t.Errorf("the server is %s; the machines are %v", status(), p.host.Machines)
	}
	m := p.host.Machines["a"]
	m.UserData = "of the start before"
	p.host.Machines["a"] = m
	p.ask(http.MethodPost, "https://"+apiHost+"/v1/servers/"+fmt.Sprint(id)+"/actions/reset")
	p.pass()
	if got := p.host.Machines["a"].UserData; got != "#!/bin/sh\necho a\n" {
		t.Errorf("after a reset, the machine has the user data %q", got)
	}
	p.ok(p.api.Delete(t.Context(), hetznerapi.Path("servers", id)))
	p.pass()
	if len(p.host.Machines) > 0 {
		t.Errorf("left are %v", p.host.Machines)
	}
}

// ask sends a request without a body to the play's services, as the user, and returns the status.
func (p *testPlay) ask(method, url string) int {
	p.Helper()
	r, w := httptest.NewRequest(method, url, http.NoBody), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+token)
	p.as.Handler.ServeHTTP(w, r)
	return w.Code
}

func TestAVolumeOutlivesItsServer(t *testing.T) {
	p := newPlay(t)
	a, b := p.server("a"), p.server("b")
	v := created[hetznerapi.Volume](p, "volumes", map[string]any{"name": "v", "size": 20, "location": "fsn1"}).ID
	name := fmt.Sprint("volume-", v)
	attach := func(server int64, machine string) {
		t.Helper()
		p.act("volumes", v, "attach", map[string]any{"server": server, "automount": false})
		if d := p.host.Disks[name]; d.Machine != machine || d.GiB != 20 || !slices.Equal(d.Paths, []string{fmt.Sprint("/dev/disk/by-id/scsi-0HC_Volume_", v)}) {
			t.Fatalf("the disk is %+v", d)
		}
	}
	attach(a, "a")
	p.ok(p.api.Delete(t.Context(), hetznerapi.Path("servers", a)))
	p.pass()
	if d, ok := p.host.Disks[name]; !ok || d.Machine != "" || len(p.host.Machines) != 1 {
		t.Errorf("after its server the disk is %+v; the machines are %v", d, p.host.Machines)
	}
	attach(b, "b")
	p.ok(p.api.Delete(t.Context(), hetznerapi.Path("servers", b)))
	p.pass()
	p.ok(p.api.Delete(t.Context(), hetznerapi.Path("volumes", v)))
	p.pass()
	if len(p.host.Disks) > 0 {
		t.Errorf("left are %v", p.host.Disks)
	}
}

func TestALoadBalancerSendsToTheServersThatItSelects(t *testing.T) {
	p := newPlay(t)
	p.server("a")
	b := created[hetznerapi.LoadBalancer](p, "load_balancers", map[string]any{"name": "api", "load_balancer_type": "lb11", "location": "fsn1", "algorithm": map[string]string{"type": "round_robin"},
		"network": p.network, "targets": []map[string]any{{"type": "label_selector", "label_selector": map[string]string{"selector": "role=api"}, "use_private_ip": true}},
		"services": []map[string]any{{"protocol": "tcp", "listen_port": 443, "destination_port": 6443, "proxyprotocol": false,
			"health_check": map[string]any{"protocol": "tcp", "port": 6443, "interval": 5, "timeout": 3, "retries": 2}}}}).ID
	p.pass()
	state := func() string {
		var out []string
		for _, b := range p.host.Balancers {
			out = append(out, fmt.Sprint(b.Address, " ", b.Fronts))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	if got := state(); got != "10.0.0.3 [{443 6443 [10.0.0.2]}], 198.19.0.4 [{443 6443 [10.0.0.2]}]" {
		t.Errorf("the load balancers are at %s", got)
	}
	p.server("b")
	p.ask(http.MethodPost, fmt.Sprint("https://", apiHost, "/v1/load_balancers/", b, "/actions/disable_public_interface"))
	p.pass()
	if got := state(); got != "10.0.0.3 [{443 6443 [10.0.0.2 10.0.0.4]}]" {
		t.Errorf("the load balancer is at %s", got)
	}
	p.ok(p.api.Delete(t.Context(), hetznerapi.Path("load_balancers", b)))
	p.pass()
	if len(p.host.Balancers) > 0 {
		t.Errorf("left are %v", p.host.Balancers)
	}
}

// The store of the cluster is reached with the keys of the environment, and with no others.
func TestServices(t *testing.T) {
	p := newPlay(t)
	for host, want := range map[string]bool{apiHost: true, "fsn1.your-objectstorage.com": true, "hetzner.cloud": false, "your-objectstorage.com": false, "example.com": false} {
		if p.as.Serves(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
	env := map[string]string{}
	for _, v := range p.as.Environment {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	if len(env["HCLOUD_TOKEN"]) != 64 || p.as.Scheme != "hos" {
		t.Errorf("the environment is %v", env)
	}
	for secret, class := range map[string]fault.Class{env["S3_SECRET_ACCESS_KEY"]: "", "guessed": fault.Denied} {
		own := maps.Clone(env)
		own["S3_SECRET_ACCESS_KEY"] = secret
		s, err := open.Backends(open.Options{Env: func(name string) string { return own[name] }, HTTP: &http.Client{Transport: rehearsal.HandlerTransport{Handler: p.as.Handler}}, Proofs: true}).Open(t.Context(), "hos://state/folder")
		p.ok(err)
		_, err = s.Put(t.Context(), "file", []byte("text"), store.PutOptions{})
		if fault.Of(err) != class {
			t.Errorf("with the secret %q: %v", secret, err)
		}
		if text, _, err := s.Get(t.Context(), "file"); fault.Of(err) != class || cmp.Or(string(text), "text") != "text" {
			t.Errorf("with the secret %q: %q, %v", secret, text, err)
		}
	}
	if p.ask(http.MethodGet, "https://"+apiHost+"/v1/servers"); len(p.keeper.Wake) > 0 {
		t.Error("a question wakes the keeper")
	}
	if p.ask(http.MethodDelete, "https://"+apiHost+"/v1/servers/1"); len(p.keeper.Wake) != 1 {
		t.Error("a change does not wake the keeper")
	}
}
