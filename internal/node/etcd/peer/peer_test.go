package peer_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/node/etcd/peer"
)

// host answers as a peer, and records its requests.
type host struct {
	id     string
	hello  peer.Hello
	claim  etcd.Claim
	order  peer.Order
	refuse error
}

func (h *host) Hello(_ context.Context, from peer.Hello) (peer.Hello, error) {
	h.hello = from
	return peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: h.id}, Known: []etcd.Sighting{{ID: "x", Endpoint: "x:1"}}}, h.refuse
}

func (h *host) Claim(_ context.Context, c etcd.Claim) (etcd.Peer, error) {
	h.claim = c
	return etcd.Peer{ID: h.id, State: etcd.State{Token: "T"}}, h.refuse
}

func (h *host) Order(_ context.Context, o peer.Order) error {
	h.order = o
	return h.refuse
}

// authorities creates the authorities of a cluster.
func authorities(t *testing.T) *certs.Authorities {
	t.Helper()
	dir := t.TempDir()
	etcdtest.Authorities(t, dir)
	a, err := certs.Load(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve answers at an endpoint, with a peer's certificates.
func serve(t *testing.T, a *certs.Authorities, id string, s peer.Service, shared ...*peer.Shared) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- peer.Serve(ctx, l, peer.NewTLS(a, id), s, one(shared), slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return l.Addr().String()
}

// one returns the only item of a list, or nil.
func one(list []*peer.Shared) *peer.Shared {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func TestMessagesArrive(t *testing.T) {
	a := authorities(t)
	b := &host{id: "b"}
	at := peer.Dial(peer.NewTLS(a, "a")).Service(serve(t, a, "b", b))
	hello := peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: "a", PeerURLs: []string{"https://a:1"}}}
	answer, err := at.Hello(t.Context(), hello)
	if err != nil || answer.Peer.ID != "b" || answer.Known[0].Endpoint != "x:1" {
		t.Errorf("the answer is %v, %v", answer, err)
	}
	claim := etcd.Claim{Leader: "a", Token: "t", Peers: []string{"a", "b"}}
	p, err := at.Claim(t.Context(), claim)
	if err != nil || p.State.Token != "T" {
		t.Errorf("the answer is %v, %v", p, err)
	}
	order := peer.Order{Leadership: "t", Run: &etcd.Run{Peer: "b", Token: "T", Initial: []etcd.Node{{Name: "a", URLs: []string{"u"}}}}}
	if err := at.Order(t.Context(), order); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(&host{id: "b", hello: hello, claim: claim, order: order}, b, cmp.AllowUnexported(host{})); d != "" {
		t.Error(d)
	}
	b.refuse = fault.New(fault.Conflict, "b follows another leader now")
	if err := at.Order(t.Context(), order); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another leader") {
		t.Errorf("the refusal arrives as %v", err)
	}
}

func TestStrangersAndImpostorsAreRefused(t *testing.T) {
	a, foreign := authorities(t), authorities(t)
	endpoint := serve(t, a, "b", &host{id: "b"})
	hello := func(id string) peer.Hello { return peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: id}} }
	if _, err := peer.Dial(peer.NewTLS(foreign, "a")).Service(endpoint).Hello(t.Context(), hello("a")); err == nil {
		t.Error("a manager of another authority was answered")
	}
	if _, err := peer.Dial(peer.NewTLS(a, "a")).Service(serve(t, foreign, "b", &host{id: "b"})).Hello(t.Context(), hello("a")); err == nil {
		t.Error("a server of another authority was believed")
	}
	if _, err := peer.Dial(peer.NewTLS(a, "a")).Service(endpoint).Hello(t.Context(), hello("c")); !fault.Is(err, fault.Denied) {
		t.Errorf("a says that it is c: %v", err)
	}
	if _, err := peer.Dial(peer.NewTLS(a, "a")).Service(endpoint).Claim(t.Context(), etcd.Claim{Leader: "c"}); !fault.Is(err, fault.Denied) {
		t.Errorf("a claims to be c: %v", err)
	}
	liar := serve(t, a, "b", &host{id: "c"})
	if _, err := peer.Dial(peer.NewTLS(a, "a")).Service(liar).Hello(t.Context(), hello("a")); !fault.Is(err, fault.Denied) {
		t.Errorf("b says that it is c: %v", err)
	}
	if _, err := peer.Dial(peer.NewTLS(a, "a")).Service(liar).Claim(t.Context(), etcd.Claim{Leader: "a"}); !fault.Is(err, fault.Denied) {
		t.Errorf("b agrees as c: %v", err)
	}
}

func TestAnUnreachablePeerIsALostAnswer(t *testing.T) {
	a := authorities(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := peer.Dial(peer.NewTLS(a, "a")).Service(endpoint).Order(t.Context(), peer.Order{}); !fault.Is(err, fault.Lost) {
		t.Errorf("the error is %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one")
	for name, text := range map[string]string{"one": "# peers\n10.0.0.1\n\n10.0.0.2:4000\n", "two": "fd00::1\nnode.example:3996\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := peer.StaticConfig(`{"etcdVersion":"3.6.12","nodes":[{"id":"c--main--0","ip":["node0.main.c"]},{"id":"c--main--1","ip":["10.0.0.9"]}]}`, "3996")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		d    peer.Discovery
		want []string
	}{
		{"list", peer.Static{"a:1"}, []string{"a:1"}},
		{"file", peer.File{Path: file, Port: "3996"}, []string{"10.0.0.1:3996", "10.0.0.2:4000"}},
		{"folder", peer.File{Path: dir, Port: "3996"}, []string{"10.0.0.1:3996", "10.0.0.2:4000", "[fd00::1]:3996", "node.example:3996"}},
		{"no file", peer.File{Path: filepath.Join(dir, "absent"), Port: "3996"}, nil},
		{"names", peer.DNS{Names: []string{"127.0.0.1"}, Port: "3996"}, []string{"127.0.0.1:3996"}},
		{"configuration", config, []string{"c--main--0 node0.main.c:3996", "c--main--1 10.0.0.9:3996"}},
		{"all", peer.Any{peer.Static{"b:1"}, config}, []string{"b:1", "c--main--0 node0.main.c:3996", "c--main--1 10.0.0.9:3996"}},
	} {
		got, err := formatPeers(x.d.Discover(t.Context()))
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s finds %q, %v; want %q", x.name, got, err, x.want)
		}
	}
	if _, err := peer.StaticConfig("{", "1"); err == nil {
		t.Error("a bad configuration was read")
	}
}

// formatPeers formats the result of a discovery.
func formatPeers(all []etcd.Sighting, err error) ([]string, error) {
	var out []string
	for _, s := range all {
		out = append(out, strings.TrimSpace(s.ID+" "+s.Endpoint))
	}
	return out, err
}

func TestHostsFileKeepsWhatIsNotOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("127.0.0.1\tlocalhost"), 0o644); err != nil {
		t.Fatal(err)
	}
	main := peer.HostsFile{Path: path, Cluster: "etcd", Suffix: ".internal.x"}
	events := peer.HostsFile{Path: path, Cluster: "etcd-events", Suffix: ".internal.x"}
	for _, step := range []struct {
		file peer.HostsFile
		at   map[string]string
	}{
		{main, map[string]string{"etcd-a": "10.0.0.100:3996", "etcd-b": "10.0.0.2:3996"}},
		{events, map[string]string{"etcd-events-a": "[fd00::1]:3997"}},
		{main, map[string]string{"etcd-a": "10.0.0.1:3996", "etcd-b": "10.0.0.3:3996"}}, // which is shorter
	} {
		if err := step.file.Update(t.Context(), step.at); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `127.0.0.1	localhost
# Begin host entries managed by etcd-manager[etcd] - do not edit
10.0.0.1	etcd-a.internal.x
10.0.0.3	etcd-b.internal.x
# End host entries managed by etcd-manager[etcd]
# Begin host entries managed by etcd-manager[etcd-events] - do not edit
fd00::1	etcd-events-a.internal.x
# End host entries managed by etcd-manager[etcd-events]
`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}
