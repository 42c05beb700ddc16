package bootstrap

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// stepClock is a clock that only Sleep advances.
type stepClock struct {
	now    time.Time
	sleeps []time.Duration
}

func (s *stepClock) Now() time.Time { return s.now }

func (s *stepClock) Sleep(ctx context.Context, d time.Duration) error {
	s.now, s.sleeps = s.now.Add(d), append(s.sleeps, d)
	return ctx.Err()
}

// countingProver is a Prover with a different token each time.
type countingProver struct{ n int }

func (c *countingProver) Prove(context.Context, []byte) (string, error) {
	c.n++
	return fmt.Sprintf("token-%d", c.n), nil
}

// plain is a Transport without TLS.
type plain struct{}

func (plain) Connect(context.Context, string) (Connection, error) {
	return Connection{HTTP: http.DefaultClient, Close: func() {}}, nil
}

// client returns a client of servers with the given handlers.
func client(t *testing.T, handlers ...http.HandlerFunc) (*Client, *stepClock) {
	t.Helper()
	clock := &stepClock{now: noon()}
	c := &Client{Prover: &countingProver{}, Clock: clock, Transport: plain{}}
	for _, h := range handlers {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		c.Servers = append(c.Servers, s.URL+"/")
	}
	return c, clock
}

func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

func TestTheConfigurationArrivesAsWritten(t *testing.T) {
	const text = "CAs: {}\nusesNoneDNS: true\n"
	c, clock := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.URL.Path != "/bootstrap" || r.Header.Get("Authorization") != "token-1" ||
			string(body) != `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}` {
			t.Errorf("%s %s with %q: %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), body)
		}
		_, _ = fmt.Fprintf(w, `{"nodeConfig":{"nodeupConfig":%q,"nodeSecrets":{"dockerconfig":"e30="}}}`, text)
	})
	got, err := c.NodeConfig(t.Context())
	if err != nil || got.NodeupConfig != text || string(got.NodeSecrets["dockerconfig"]) != "{}" {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(clock.sleeps) != 0 {
		t.Errorf("slept %v", clock.sleeps)
	}
}

func TestCertificatesAreRequestedAHundredTimes(t *testing.T) {
	c, clock := client(t, status(503, "not yet"))
	failures := 0
	c.Failed = func(string, int, error) { failures++ }
	_, err := c.Certificates(t.Context(), map[string]string{"kubelet": "key"}, nil)
	if !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "100 attempts") || failures != 100 {
		t.Errorf("%d failures: %v", failures, err)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 30, 30}
	for i, w := range want {
		if clock.sleeps[i] != w*time.Second {
			t.Errorf("sleep %d was %s, not %ds", i, clock.sleeps[i], w)
		}
	}
}

func TestServersAreTriedInTurnForTheConfiguration(t *testing.T) {
	var asked []string
	c, clock := client(t, status(503, "no"), status(503, "no"))
	c.Failed = func(server string, _ int, _ error) { asked = append(asked, server) }
	start := clock.now
	_, err := c.NodeConfig(t.Context())
	if err == nil || asked[7] != c.Servers[0] || asked[8] != c.Servers[1] || asked[16] != c.Servers[0] {
		t.Errorf("asked %v: %v", asked, err)
	}
	if clock.sleeps[4] != 15*time.Second || clock.sleeps[8] != time.Second {
		t.Errorf("slept %v", clock.sleeps[:9])
	}
	if spent := clock.now.Sub(start); spent > 45*time.Minute || spent < 44*time.Minute {
		t.Errorf("gave up after %s", spent)
	}
}

func TestTheNextServerAnswers(t *testing.T) {
	c, clock := client(t, status(500, "broken"), func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(Response{Certs: map[string]string{"kubelet": "cert"}})
	})
	got, err := c.Certificates(t.Context(), map[string]string{"kubelet": "key"}, nil)
	if err != nil || got["kubelet"] != "cert" || len(clock.sleeps) != 1 {
		t.Errorf("got %v, %v after %v", got, err, clock.sleeps)
	}
}

func TestAnswersThatAreFinal(t *testing.T) {
	for name, tt := range map[string]struct {
		code  int
		class fault.Class
	}{"refused": {403, fault.Denied}, "bad": {400, fault.Permanent}, "elsewhere": {404, fault.Permanent}} {
		c, clock := client(t, status(tt.code, "because"))
		_, err := c.NodeConfig(t.Context())
		if !fault.Is(err, tt.class) || !strings.Contains(err.Error(), "because") || len(clock.sleeps) != 0 {
			t.Errorf("%s: got %v after %v", name, err, clock.sleeps)
		}
	}
	c, clock := client(t, status(409, "joined"))
	if _, err := c.NodeConfig(t.Context()); !errors.Is(err, ErrReady) || len(clock.sleeps) != 0 {
		t.Errorf("got %v after %v", err, clock.sleeps)
	}
}

func TestARefusalNamesTheClock(t *testing.T) {
	for skew, named := range map[time.Duration]string{2*time.Hour + time.Second: "the clock of the machine is 2h0m0s behind: ", -2 * time.Hour: "the clock of the machine is 2h0m0s ahead: ", time.Minute: ""} {
		c, _ := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", noon().Add(skew).Format(http.TimeFormat))
			w.WriteHeader(403)
		})
		_, err := c.NodeConfig(t.Context())
		remedy := ""
		if named != "" {
			remedy = SetClock
		}
		if got := fault.Remedy(err); got != remedy || !strings.HasPrefix(err.Error(), named+"http://") {
			t.Errorf("skew %s: %v; %s", skew, err, got)
		}
	}
}

func TestIncompleteAnswersAreErrors(t *testing.T) {
	c, _ := client(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	if _, err := c.Certificates(t.Context(), map[string]string{"kubelet": "key"}, nil); err == nil || !strings.Contains(err.Error(), "lacks the certificate of kubelet") {
		t.Errorf("got %v", err)
	}
	if _, err := c.NodeConfig(t.Context()); err == nil {
		t.Error("an answer without a configuration is accepted")
	}
}

func TestOnlyThePinnedAuthorityIsTrusted(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	other := httptest.NewUnstartedServer(nil)
	defer other.Close()
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	connect := func(bundle, server string) error {
		c, err := NewTLS(bundle, server, nil)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := c.Connect(t.Context(), s.URL)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := connect(good, "example.com"); err != nil { // a name in the test server's certificate
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ bundle, server string }{
		"another name":      {good, "kops-controller.internal.c"},
		"another authority": {otherAuthority(t), "example.com"},
	} {
		if err := connect(tt.bundle, tt.server); err == nil {
			t.Errorf("%s: the server is believed", name)
		}
	}
	if _, err := NewTLS("no certificate", "", nil); err == nil {
		t.Error("an empty bundle is accepted")
	}
}

// A proof for one server is not valid at another.
func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	h, err := NewTLS(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})), "example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := client(t, status(200, ""))
	c.Servers, c.Transport = []string{s.URL}, h
	if _, err := c.NodeConfig(t.Context()); !fault.Is(err, fault.Permanent) || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestThePlaceholderAddressIsNotDialled(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	c, err := NewTLS(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Connect(t.Context(), "https://"+placeholder+":3988/"); err == nil || !strings.Contains(err.Error(), "placeholder") {
		t.Errorf("got %v", err)
	}
}

func TestABusyServerSetsTheRetryTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"7": 7 * time.Second, "": time.Second, "soon": time.Second, "-3": time.Second, "86400": time.Minute} {
		n := 0
		c, clock := client(t, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 1 {
				w.Header().Set("Retry-After", text)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_ = json.NewEncoder(w).Encode(Response{Certs: map[string]string{"kubelet": "cert"}})
		})
		if _, err := c.Certificates(t.Context(), map[string]string{"kubelet": "key"}, nil); err != nil || len(clock.sleeps) != 1 || clock.sleeps[0] != want {
			t.Errorf("Retry-After %q: waits %v, want %s: %v", text, clock.sleeps, want, err)
		}
	}
}
