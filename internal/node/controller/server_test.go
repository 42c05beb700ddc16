package controller

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/store"
)

// states holds the states of nodes by name.
type states map[string]NodeState

func (s states) State(_ context.Context, name string) (NodeState, error) { return s[name], nil }

// world is a controller on loopback, and its dependencies.
type world struct {
	server      *Server
	store       store.Store
	nodes       states
	certificate tls.Certificate
	url         string
	bundle      string // of the authority that signed the server's certificate
	keypairs    map[string]string
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func fastIssuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

const config = "CAs: {}\nKubeletConfig:\n  nodeLabels:\n    example.com/disk: fast\n    node-role.kubernetes.io/node: \"\"\n"

func newWorld(t *testing.T) *world {
	t.Helper()
	keysets, _, err := pki.Ensure(nil, []string{pki.KubernetesCA, pki.EtcdClientsCiliumCA}, fastIssuer())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: store.NewMemory("memory://state"), nodes: states{}, bundle: keysets[pki.KubernetesCA].Bundle(), keypairs: map[string]string{}}
	for n, k := range keysets {
		w.keypairs[n] = k.Primary
	}
	w.put(t, "igconfig/node/nodes/nodeupconfig.yaml", config)
	stored := Stored{Base: w.store, Secrets: store.Sub(w.store, "secrets")}
	w.server = &Server{
		Verifier: bootstrap.NewMachineKeyVerifier(stored, time.Now), Nodes: w.nodes, Configs: stored, Signers: keysets, Trusted: x509.NewCertPool(), Gate: NewGate(time.Now),
		Allowed: []string{"kubelet", "kubelet-server", "kube-proxy", "etcd-client-cilium"}, Issuer: fastIssuer(), Log: slog.New(slog.DiscardHandler),
	}
	w.server.Trusted.AddCert(keysets[pki.KubernetesCA].Signer().Certificate)
	pair, err := fastIssuer().Issue(pki.Request{Usage: pki.Server, CommonName: "kops-controller", Names: []string{"kops-controller.internal.c"}}, keysets[pki.KubernetesCA])
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.Key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if w.certificate, err = tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key); err != nil {
		t.Fatal(err)
	}
	w.url = w.serve(t, w.server)
	return w
}

// serve makes a server listen on loopback, and returns its URL.
func (w *world) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{w.certificate}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func (w *world) put(t *testing.T, key, text string) {
	t.Helper()
	if _, err := w.store.Put(t.Context(), key, []byte(text), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// join registers a machine and returns the client that runs on it.
func (w *world) join(t *testing.T, node string) *bootstrap.Client {
	t.Helper()
	key := newKey(t)
	public, err := bootstrap.EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	entry, err := json.Marshal(bootstrap.Machine{Node: node, InstanceGroup: "nodes", PublicKey: public, Names: []string{node, "10.1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, layout.MachineKey(node), string(entry))
	return &bootstrap.Client{Servers: []string{w.url}, Transport: w.transport(t, nil), Clock: bootstrap.SystemClock(),
		Prover: bootstrap.MachineKey{Node: node, Key: key, Now: time.Now, Rand: rand.Reader}}
}

// transport returns a transport that sends a certificate, if there is one.
func (w *world) transport(t *testing.T, held *tls.Certificate) *bootstrap.TLS {
	t.Helper()
	out, err := bootstrap.NewTLS(w.bundle, "kops-controller.internal.c", func() *tls.Certificate { return held })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keys generates a key for each name, and returns the public halves in the form of requests, too.
func keys(t *testing.T, names ...string) (map[string]*ecdsa.PrivateKey, map[string]string) {
	t.Helper()
	private, public := map[string]*ecdsa.PrivateKey{}, map[string]string{}
	for _, n := range names {
		private[n] = newKey(t)
		text, err := bootstrap.EncodePublicKey(private[n].Public())
		if err != nil {
			t.Fatal(err)
		}
		public[n] = text
	}
	return private, public
}

func TestAMachineJoins(t *testing.T) {
	w := newWorld(t)
	w.put(t, "secrets/dockerconfig", `{"Data":"e30="}`)
	c := w.join(t, "node-1")
	got, err := c.NodeConfig(t.Context())
	if err != nil || got.NodeupConfig != config || string(got.NodeSecrets["dockerconfig"]) != "{}" {
		t.Fatalf("got %+v, %v", got, err)
	}
	private, public := keys(t, "kubelet", "kubelet-server", "kube-proxy", "etcd-client-cilium")
	certs, err := c.Certificates(t.Context(), public, w.keypairs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		signer, cn string
		orgs       []string
		usage      x509.ExtKeyUsage
	}{
		"kubelet":            {pki.KubernetesCA, "system:node:node-1", []string{"system:nodes"}, x509.ExtKeyUsageClientAuth},
		"kubelet-server":     {pki.KubernetesCA, "node-1", nil, x509.ExtKeyUsageServerAuth},
		"kube-proxy":         {pki.KubernetesCA, "system:kube-proxy", nil, x509.ExtKeyUsageClientAuth},
		"etcd-client-cilium": {pki.EtcdClientsCiliumCA, "cilium", nil, x509.ExtKeyUsageClientAuth},
	} {
		cert, err := pki.ParseCertificate([]byte(certs[name]))
		if err != nil {
			t.Fatal(err)
		}
		if !private[name].PublicKey.Equal(cert.PublicKey) {
			t.Errorf("%s certifies another key", name)
		}
		if err := cert.CheckSignatureFrom(w.server.Signers[want.signer].Signer().Certificate); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cert.Subject.CommonName != want.cn || !slices.Equal(cert.Subject.Organization, want.orgs) || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{want.usage}) {
			t.Errorf("%s: subject %s, usage %v", name, cert.Subject, cert.ExtKeyUsage)
		}
		if hours := time.Until(cert.NotAfter).Hours(); hours < 24*24-1 || hours > 30*24 {
			t.Errorf("%s lives %.0f hours", name, hours)
		}
		if age := time.Since(cert.NotBefore).Hours(); age < 47 || age > 49 {
			t.Errorf("%s begins %.0f hours ago", name, age)
		}
		named := len(cert.DNSNames) + len(cert.IPAddresses)
		if server := name == "kubelet-server"; server && (cert.VerifyHostname("node-1") != nil || cert.VerifyHostname("10.1.2.3") != nil) || !server && named != 0 {
			t.Errorf("%s is for %v %v", name, cert.DNSNames, cert.IPAddresses)
		}
	}
}

func TestRefusedMachines(t *testing.T) {
	w := newWorld(t)
	good := w.join(t, "node-1")
	stranger := *good
	stranger.Prover = bootstrap.MachineKey{Node: "node-1", Key: newKey(t), Now: time.Now, Rand: rand.Reader}
	late := *good
	m := good.Prover.(bootstrap.MachineKey)
	m.Now = func() time.Time { return time.Now().Add(-2 * time.Hour) }
	late.Prover = m
	_, kubelet := keys(t, "kubelet")
	_, router := keys(t, "kube-router")
	_, admin := keys(t, "kubecfg")
	old := map[string]string{pki.KubernetesCA: "1"}
	for name, tt := range map[string]struct {
		client *bootstrap.Client
		keys   map[string]string
		ids    map[string]string
		class  fault.Class
		says   string
	}{
		"another key":                    {&stranger, kubelet, w.keypairs, fault.Denied, "not made by the key of the machine node-1"},
		"a clock two hours late":         {&late, kubelet, w.keypairs, fault.Denied, "set the clock"},
		"an administrator's certificate": {good, admin, w.keypairs, fault.Permanent, `"kubecfg" are not issued`},
		"a certificate not configured":   {good, router, w.keypairs, fault.Permanent, `"kube-router" are not issued`},
		"an old signing key":             {good, kubelet, old, fault.Permanent, "expects the key"},
		"no signing key named":           {good, kubelet, nil, fault.Permanent, "expects the key"},
		"no key":                         {good, map[string]string{"kubelet": "hello"}, w.keypairs, fault.Permanent, "no PEM block"},
	} {
		_, err := tt.client.Certificates(t.Context(), tt.keys, tt.ids)
		if !fault.Is(err, tt.class) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %s with %q", name, err, tt.class, tt.says)
		}
	}
}

func TestAReplayedRequestIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.join(t, "node-1")
	body := `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}`
	token, err := c.Prover.Prove(t.Context(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for attempt, want := range []int{200, 403} {
		r := httptest.NewRequest("POST", "/bootstrap", strings.NewReader(body))
		r.Header.Set("Authorization", token)
		got := httptest.NewRecorder()
		w.server.ServeHTTP(got, r)
		if got.Code != want {
			t.Errorf("attempt %d: %d %s", attempt+1, got.Code, got.Body)
		}
	}
}

func TestStatusCodes(t *testing.T) {
	w := newWorld(t)
	c := w.join(t, "node-1")
	proven := func(body string) string {
		token, err := c.Prover.Prove(t.Context(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	for _, tt := range []struct {
		method, path, body, token string
		want                      int
	}{
		{"GET", "/healthz", "", "", 200},
		{"GET", "/", "", "", 404},
		{"POST", "/other", "{}", "", 404},
		{"GET", "/bootstrap", "", "", 400},
		{"POST", "/bootstrap", "{}", "", 403},
		{"POST", "/bootstrap", "{}", proven("{}"), 400},
		{"POST", "/bootstrap", strings.Repeat("x", bootstrap.MaxRequest+1), "", 400},
		{"POST", "/bootstrap", `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1"}`, proven(`{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1"}`), 200},
	} {
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", tt.token)
		got := httptest.NewRecorder()
		w.server.ServeHTTP(got, r)
		if got.Code != tt.want {
			t.Errorf("%s %s %.40s: %d %s, want %d", tt.method, tt.path, tt.body, got.Code, got.Body, tt.want)
		}
	}
}

// unreadableStore is a store that denies the controller access.
type unreadableStore struct{}

func (unreadableStore) Get(context.Context, string) ([]byte, store.Version, error) {
	return nil, "", fault.New(fault.Denied, "read s3.internal: the secret reason")
}

func TestInternalErrorsAreNotRevealed(t *testing.T) {
	w := newWorld(t)
	c := w.join(t, "node-1")
	w.server.Configs = Stored{Base: unreadableStore{}, Secrets: unreadableStore{}}
	expectRefusal(t, w, c)
	w.server.Verifier = bootstrap.NewMachineKeyVerifier(Stored{Base: unreadableStore{}}, time.Now)
	expectRefusal(t, w, c)
}

// expectRefusal checks that a genuine machine's request gets a server error that does not reveal
// the reason.
func expectRefusal(t *testing.T, w *world, c *bootstrap.Client) {
	t.Helper()
	body := `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}`
	token, err := c.Prover.Prove(t.Context(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/bootstrap", strings.NewReader(body))
	r.Header.Set("Authorization", token)
	got := httptest.NewRecorder()
	w.server.ServeHTTP(got, r)
	if text, _ := io.ReadAll(got.Body); got.Code/100 != 5 || strings.Contains(string(text), "secret reason") {
		t.Errorf("%d %s", got.Code, text)
	}
}

func TestLifetimesFollowFromTheNodesName(t *testing.T) {
	if a, b := validity("node-1"), validity("node-1"); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if validity("node-1") == validity("node-2") {
		t.Error("two nodes' certificates end at one time")
	}
	// FNV-1 of the empty string is 2166136261, modulo the 144 hours of the spread
	if got := validity(""); got != (24*24+2166136261%144)*time.Hour {
		t.Errorf("got %s", got)
	}
}
