package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/bootstrap"
	kopscontroller "kops.local/kops/internal/node/controller"
	objects "kops.local/kops/internal/store"
)

// nodes reports every node in a state that the test sets.
type nodes struct{ state kopscontroller.NodeState }

func (n *nodes) State(context.Context, string) (kopscontroller.NodeState, error) { return n.state, nil }

// control is a real kops-controller and a worker that joins through it.
type control struct {
	*world
	key    *ecdsa.PrivateKey
	server *httptest.Server
	nodes  *nodes
	// put writes an object to the cluster's folder.
	put func(key string, text []byte)
	// clock is the worker's clock; later is how much of its waiting time has passed.
	clock func() time.Time
	later time.Duration
	// its is the controller's clock.
	its func() time.Time
	// answer, if not nil, replies in place of the controller.
	answer http.HandlerFunc
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newControl(t *testing.T) *control {
	t.Helper()
	c := &control{world: newWorld(t, worker), key: newKey(t), clock: now, its: now, nodes: &nodes{}}
	stored := objects.NewMemory("memory://state")
	public, err := bootstrap.EncodePublicKey(c.key.Public())
	c.check(err)
	entry, err := json.Marshal(bootstrap.Machine{Node: c.host.NodeName, InstanceGroup: "nodes", PublicKey: public, Names: c.host.Names})
	c.check(err)
	c.put = func(key string, text []byte) {
		_, err := stored.Put(t.Context(), key, text, objects.PutOptions{})
		c.check(err)
	}
	c.put(layout.MachineKey(c.host.NodeName), entry)
	c.put("igconfig/node/nodes/nodeupconfig.yaml", c.config)
	in := kopscontroller.Stored{Base: stored, Secrets: objects.Sub(stored, "secrets")}
	its := func() time.Time { return c.its() }
	signs := issuer()
	signs.Now = its
	trusted := x509.NewCertPool()
	trusted.AddCert(authorities()[pki.KubernetesCA].Signer().Certificate)
	real := &kopscontroller.Server{Verifier: bootstrap.NewMachineKeyVerifier(in, its), Nodes: c.nodes, Configs: in, Signers: authorities(), Trusted: trusted,
		Allowed: []string{"kubelet", "kubelet-server", "kube-proxy"}, Issuer: signs, Log: slog.New(slog.DiscardHandler)}
	pair, err := issuer().Issue(pki.Request{Usage: pki.Server, CommonName: "kops-controller", Names: []string{"kops-controller.internal.demo.k8s.local"}}, authorities()[pki.KubernetesCA])
	c.check(err)
	key, err := pair.Key.PEM()
	c.check(err)
	own, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	c.check(err)
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now().Format(http.TimeFormat))
		if c.answer != nil {
			c.answer(w, r)
			return
		}
		real.ServeHTTP(w, r)
	}))
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert}
	c.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	return c
}

func (c *control) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// Now and Sleep are the worker's clock, for the join.
func (c *control) Now() time.Time { return c.clock().Add(c.later) }

func (c *control) Sleep(_ context.Context, d time.Duration) error { c.later += d; return nil }

func (c *control) join(b *nodeconfig.Boot, failed func(error)) (agent.Joiner, error) {
	transport, err := bootstrap.NewTLS(b.ConfigServer.CACertificates, b.ConfigServer.TLSServerName, agent.KubeletCertificate(c.root))
	if err != nil {
		return nil, err
	}
	transport.Now = c.Now
	return agent.Controller{Client: &bootstrap.Client{Servers: []string{c.server.URL}, Transport: transport, Clock: c,
		Prover: bootstrap.MachineKey{Node: c.host.NodeName, Key: c.key, Now: c.Now, Rand: rand.Reader},
		Failed: func(_ string, _ int, err error) { failed(err) }}}, nil
}

func TestAWorkerJoinsByARealController(t *testing.T) {
	const log = "see the log of kops-controller on the control plane for the reason; if it does not know the machine, replace the machine"
	const unreachable = "check that kops-controller runs on the control plane, and that this machine can reach its port"
	const asked = "get the node configuration from kops-controller: "
	proof := func(why string) string { return "SERVER answered 403: the identity is not proven: " + why }
	for _, c := range []struct {
		name            string
		spoil           func(*control)
		message, remedy string // in full; SERVER stands for the server's URL
		tried           int    // total number of attempts
	}{
		{"all is well", func(*control) {}, "", "", 1},
		{"it is busy at first", func(c *control) {
			n := 0
			c.answer = func(w http.ResponseWriter, _ *http.Request) {
				if n++; n == 3 {
					c.answer = nil
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, "", "", 4},
		{"another key", func(c *control) { c.key = newKey(c.T) }, asked + proof("the signature was not made by the key of the machine demo-nodes-1"), log, 2},
		{"an unknown machine", func(c *control) { c.host.NodeName = "stranger" }, asked + proof("no machine stranger is known"), log, 2},
		{"a clock that is late", func(c *control) { c.clock = func() time.Time { return now().Add(-2 * time.Hour) } },
			asked + "the clock of the machine is 2h0m0s behind: " + proof("the machine's clock is 2h0m0s behind the controller's, or the proof is that old; at most 5m0s are allowed: set the clock"),
			bootstrap.SetClock, 2},
		{"a clock that is early", func(c *control) { c.clock = func() time.Time { return now().Add(2 * time.Hour) } },
			asked + "the clock of the machine is 2h0m0s ahead: " + proof("the machine's clock is 2h0m0s ahead of the controller's; at most 5m0s are allowed: set the clock"),
			bootstrap.SetClock, 2},
		{"a clock before the certificate begins", func(c *control) { c.clock = func() time.Time { return now().Add(-72 * time.Hour) } },
			"x509: certificate has expired or is not yet valid: current time 2026-07-29T00:45:00Z is before 2026-07-30T00:00:00Z", "correct the machine's clock: chronyc makestep, or timedatectl set-time; if it is correct, renew the certificate", 0},
		{"someone between who wants a password", func(c *control) {
			c.answer = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) }
		}, asked + "SERVER answered 401: who are you?", log, 2},
		{"nobody there", func(c *control) { c.server.Close() }, "connect: connection refused", unreachable, 0},
		{"never ready", func(c *control) {
			c.answer = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "starting", http.StatusServiceUnavailable)
			}
		}, "SERVER answered 503: starting", unreachable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newControl(t)
			c.spoil(w)
			a := w.agent()
			a.Join = w.join
			err := a.Converge(t.Context(), w.boot)
			last := w.lastReport()
			if c.message == "" {
				if err != nil || !last.Done || last.Phases[1].Attempts != c.tried {
					t.Errorf("%v\n%s", err, last.String())
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			want := strings.ReplaceAll(c.message, "SERVER", w.server.URL)
			p := last.Broken()
			if p == nil || p.Name != agent.PhaseConfigure || p.State != report.Failed || last.Done {
				t.Fatalf("the report is\n%s", last.String())
			}
			if c.tried > 0 && p.Error != want || !strings.Contains(p.Error, want) || p.Error != err.Error() {
				t.Errorf("the report has  %s\nthe error is    %v\nwant            %s", p.Error, err, want)
			}
			if p.Remedy != c.remedy || fault.Remedy(err) != c.remedy {
				t.Errorf("the remedy is %q, want %q", p.Remedy, c.remedy)
			}
			if c.tried > 0 && p.Attempts != c.tried || c.tried == 0 && p.Attempts < 100 {
				t.Errorf("%d attempts", p.Attempts)
			}
			if len(w.files()) != 3 {
				t.Error("files were written")
			}
		})
	}
}

// newestPhase returns the phase that began last.
func newestPhase(r report.Report) report.Phase {
	if len(r.Phases) == 0 {
		return report.Phase{}
	}
	return r.Phases[len(r.Phases)-1]
}

// While the controller is unreachable the report says so, long before the machine
// gives up; in the first minutes it says that the machine is waiting, as the
// controller may be about to start.
func TestTheReportListsRetries(t *testing.T) {
	w := newControl(t)
	w.server.Close()
	a := w.agent()
	a.Join, a.Clock.Now = w.join, w.Now
	if err := a.Converge(t.Context(), w.boot); err == nil {
		t.Fatal("no error")
	}
	waited := 0
	for _, r := range w.reports {
		if b := r.Broken(); b != nil {
			if b.State != report.Running || waited < 10 || b.Attempts != 2+waited || !strings.Contains(b.Error, "connection refused") || b.Remedy == "" {
				t.Errorf("the first bad report, after %d that waited, is\n%s", waited, r.String())
			}
			return
		}
		if p := newestPhase(r); p.Waiting {
			waited++
			if p.State != report.Running || !strings.Contains(p.Error, "connection refused") || p.Remedy != "" {
				t.Errorf("while it waits the report is\n%s", r.String())
			}
		}
	}
	t.Error("no report told of it")
}

// A problem that waiting does not solve is reported at once.
func TestNobodyWaitsForAnotherCertificate(t *testing.T) {
	w := newControl(t)
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	w.server.URL = other.URL
	a := w.agent()
	a.Join = w.join
	if err := a.Converge(t.Context(), w.boot); err == nil {
		t.Fatal("no error")
	}
	for _, r := range w.reports {
		if p := newestPhase(r); p.Error != "" {
			if b := r.Broken(); b == nil || p.Waiting || !strings.Contains(b.Error, "x509") {
				t.Errorf("the first report with an error is\n%s", r.String())
			}
			return
		}
	}
	t.Error("no report told of it")
}

// A machine that starts again learns that it has joined, which is not an error.
func TestAMachineThatHasJoinedHasNoError(t *testing.T) {
	w := newControl(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusConflict) }
	w.addEarlierRun()
	a := w.agent()
	a.Join = w.join
	err := a.Converge(t.Context(), w.boot)
	if p := w.lastReport().Phases[1]; err != nil || p.Error != "" || p.Attempts != 1 {
		t.Errorf("%v; the phase is %+v", err, p)
	}
}
