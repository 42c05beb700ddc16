package control

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/hetznertest"
	hetznernode "kops.local/kops/internal/platform/hetzner/node"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/incluster/roster"
	"kops.local/kops/internal/standin/standintest"
)

// connectTo returns kops-controller's part on the node self; env replaces variables.
func connectTo(p *hetznertest.Project, env map[string]string) (incluster.Control, error) {
	all := map[string]string{hetznercloud.TokenVariable: hetznertest.Token, hetznercloud.EndpointVariable: p.URL, "NODE_NAME": "self"}
	for k, v := range env {
		all[k] = v
	}
	w := incluster.World{Config: &controllerconfig.Config{ClusterName: hetznertest.Cluster}, Env: func(name string) string { return all[name] }, Now: p.Clock.Now}
	return connectWith(w, p.HTTP)
}

func control(t *testing.T, p *hetznertest.Project) incluster.Control {
	t.Helper()
	c, err := connectTo(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	p := hetznertest.Start(t)
	if _, err := connectTo(p, map[string]string{hetznercloud.TokenVariable: ""}); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "HCLOUD_TOKEN is not set") {
		t.Errorf("without a token: %v", err)
	}
	if c, err := connectTo(p, map[string]string{"NODE_NAME": ""}); err != nil || c.Machines != nil || c.Verifier == nil || c.Groups == nil {
		t.Errorf("without a node: %+v, %v", c, err)
	}
}

// calls is a network in which the server at 10.0.0.N is at 127.0.0.N.
type calls struct {
	*hetznertest.Project
	verifier *bootstrap.Callback
	ca       *pki.Keyset
}

func local(address string) string { return strings.Replace(address, "10.0.", "127.0.", 1) }

func newCalls(t *testing.T) *calls {
	t.Helper()
	c := &calls{Project: hetznertest.Start(t)}
	issuer := pki.Issuer{Rand: rand.Reader, Now: c.Clock.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer)
	if err != nil {
		t.Fatal(err)
	}
	c.ca, c.verifier = all[pki.KubernetesCA], control(t, c.Project).Verifier.(*bootstrap.Callback)
	c.verifier.Certificate = func() (*tls.Certificate, error) {
		own, err := bootstrap.CallerCertificate(hetznertest.Cluster, c.ca, issuer)
		return &own, err
	}
	find := c.verifier.Find
	c.verifier.Find = func(ctx context.Context, id string) (bootstrap.Called, error) {
		m, err := find(ctx, id)
		for i, a := range m.Addresses {
			m.Addresses[i] = local(a)
		}
		return m, err
	}
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	c.verifier.Port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close() // only its port is needed
	return c
}

// plain is a connection without TLS.
type plain struct{}

func (plain) Connect(context.Context, string) (bootstrap.Connection, error) {
	return bootstrap.Connection{HTTP: http.DefaultClient, Close: func() {}}, nil
}

// join makes a server at an address request its configuration with its own proof, and returns what
// kops-controller says to it, or found out about it.
func (c *calls) join(server, address string) string {
	c.Helper()
	prover, err := hetznernode.Platform().Prove(c.Machine(server))
	if err != nil {
		c.Fatal(err)
	}
	said := ""
	at := standintest.Serve(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			c.Error(err)
		}
		id, err := c.verifier.Verify(r.Context(), bootstrap.Proof{Token: r.Header.Get("Authorization"), Body: body, Sender: netip.MustParsePrefix("127.0.0.9/32")})
		if said = fmt.Sprint(id); err != nil {
			said = err.Error()
			http.Error(w, said, http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"nodeConfig":{"nodeupConfig":"CAs: {}"}}`)
	}))
	machine := bootstrap.Client{Servers: []string{at + "/"}, Transport: plain{}, Prover: prover, Clock: c.Clock,
		Listener: &bootstrap.Listener{Cluster: hetznertest.Cluster, Authorities: c.ca.Bundle(), Now: c.Clock.Now, Rand: rand.Reader, Address: net.JoinHostPort(local(address), strconv.Itoa(c.verifier.Port))}}
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	_, err = machine.NodeConfigOf(ctx, "hash")
	if (err == nil) != strings.HasPrefix(said, "{") {
		c.Errorf("kops-controller said %q, and the machine got %v", said, err)
	}
	return said
}

func TestAServerJoins(t *testing.T) {
	c := newCalls(t)
	label := func(cluster, group string) map[string]any {
		return map[string]any{"labels": map[string]string{hetznercloud.ClusterLabel: cluster, hetznercloud.GroupLabel: group}}
	}
	c.Server("a", "nodes", nil)
	c.Server("b", "nodes", nil)
	c.Server("foreign", "nodes", label("x."+hetznertest.Cluster, "nodes"))
	c.Server("nobody", "nodes", label(hetznertest.Cluster, ""))
	c.Server("scaled", "", map[string]any{"labels": map[string]string{hetznercloud.ClusterLabel: hetznertest.Cluster, hetznercloud.AutoscalerLabel: "spot"}})
	c.Server("apart", "nodes", map[string]any{"networks": []int64{}})
	for name, want := range map[string]struct{ at, says string }{
		"a":       {"10.0.0.2", "{a nodes [127.0.0.2 a 198.18.0.2]}"},
		"scaled":  {"10.0.0.6", "{scaled spot [127.0.0.6 scaled "},
		"b":       {"10.0.0.2", "connection refused"}, // it is elsewhere than the server whose number it knows
		"foreign": {"10.0.0.4", "no machine "},
		"nobody":  {"10.0.0.5", "belongs to no instance group"},
		"apart":   {"10.0.0.7", "has no address in the cluster's network yet"},
	} {
		if said := c.join(name, want.at); !strings.Contains(said, want.says) {
			t.Errorf("%s: %s", name, said)
		}
	}
	off := c.Server("off", "nodes", nil)
	c.Died(off)
	if said := c.join("off", "10.0.0.7"); !strings.Contains(said, "is not running") {
		t.Errorf("a server that is off: %s", said)
	}
}

func node(name string, id int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC))}}
	if id != 0 {
		n.Spec.ProviderID = hetznercloud.ProviderPrefix + strconv.FormatInt(id, 10)
	}
	return n
}

func TestGroupsAndDeletedServers(t *testing.T) {
	p := hetznertest.Start(t)
	self, a, unlabelled := p.Server("self", "control-plane", nil), p.Server("a", "nodes", nil), p.Server("unlabelled", "nodes", nil)
	off, gone := p.Server("off", "nodes", nil), p.Server("gone", "nodes", nil)
	c := control(t, p)
	if group, err := c.Groups.GroupOf(t.Context(), node("a", a)); err != nil || group != "nodes" {
		t.Errorf("the group is %q, %v", group, err)
	}
	if group, err := c.Groups.GroupOf(t.Context(), node("a", gone)); !fault.Is(err, fault.Gone) || group != "" {
		t.Errorf("with another server's ID, the group is %q, %v", group, err)
	}
	p.Died(off)
	if err := p.API.Set(t.Context(), hetznerapi.Path("servers", unlabelled), map[string]any{"labels": map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	if err := p.API.Delete(t.Context(), hetznerapi.Path("servers", gone)); err != nil {
		t.Fatal(err)
	}
	if err := p.Clock.Sleep(t.Context(), roster.Recent); err != nil {
		t.Fatal(err)
	}
	all := []*corev1.Node{node("self", self), node("a", a), node("unlabelled", unlabelled), node("off", off), node("gone", gone), node("stranger", 0)}
	if got, err := c.Machines.ListTerminated(t.Context(), all); err != nil || !slices.Equal(got, []string{"gone"}) {
		t.Errorf("gone are %v, %v", got, err)
	}
	p.Died(self)
	if err := p.Clock.Sleep(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Machines.ListTerminated(t.Context(), all); err == nil || !strings.Contains(err.Error(), "Hetzner's list of servers lacks self") {
		t.Errorf("by a list without this machine, gone are %v, %v", got, err)
	}
}
