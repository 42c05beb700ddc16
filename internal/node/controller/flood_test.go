package controller

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
)

// tokenService is a fake of AWS' token service: it answers one key at once, and
// keeps all others waiting.
type tokenService struct {
	waiting, maxWaiting atomic.Int32
	arrived             chan struct{}
	release             chan struct{}
}

const instance = "i-0123456789abcdef0"

func (s *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "Credential=GOOD/") {
		s.maxWaiting.Store(max(s.maxWaiting.Load(), s.waiting.Add(1))) // only the test's goroutines race, and only toward a lower number
		s.arrived <- struct{}{}
		<-s.release
		s.waiting.Add(-1)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	_, _ = fmt.Fprint(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/nodes/"+instance+"</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
}

// anyInstance accepts every machine.
type anyInstance struct{}

func (anyInstance) Instance(_ context.Context, id string) (awssts.Instance, error) {
	return awssts.Instance{NodeName: id, Group: "nodes"}, nil
}

// answer records an answer, and how many slots of the gate were taken while it was sent.
type answer struct {
	*httptest.ResponseRecorder
	gate *Gate
	busy int
}

func (a *answer) Write(data []byte) (int, error) {
	a.gate.mu.Lock()
	a.busy = a.gate.busy
	a.gate.mu.Unlock()
	return a.ResponseRecorder.Write(data)
}

func TestAFloodReachesTheCloudInDrops(t *testing.T) {
	for name, tt := range map[string]struct {
		from func(n int) string
		most int32
	}{
		"from one pod":    {func(int) string { return "100.96.1.7:1" }, maxPerSender},
		"from many hosts": {func(n int) string { return fmt.Sprintf("10.0.%d.%d:1", n/250, n%250) }, maxAtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			service := &tokenService{arrived: make(chan struct{}, 1000), release: make(chan struct{})}
			cloud := httptest.NewServer(service)
			defer cloud.Close()
			w := newWorld(t)
			w.server.Verifier = &awssts.Verifier{Endpoint: cloud.URL, HTTP: cloud.Client(), Account: "123456789012", Partition: "aws", Roles: []string{"nodes"}, Instances: anyInstance{}, Now: time.Now}
			ask := func(key, from string) *answer {
				body := `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}`
				p := awssts.Prover{Endpoint: cloud.URL, Region: "us-east-1", Now: time.Now, Credentials: func(context.Context) (awsquery.Credentials, error) {
					return awsquery.Credentials{ID: key, Secret: from}, nil
				}}
				token, err := p.Prove(t.Context(), []byte(body))
				if err != nil {
					t.Error(err)
				}
				r := httptest.NewRequest("POST", "/bootstrap", strings.NewReader(body))
				r.RemoteAddr = from
				r.Header.Set("Authorization", token)
				got := &answer{ResponseRecorder: httptest.NewRecorder(), gate: w.server.Gate}
				w.server.ServeHTTP(got, r)
				return got
			}
			const all = 500
			var flood sync.WaitGroup
			refused := make(chan string, all)
			for n := range all {
				flood.Go(func() {
					if got := ask("BOGUS", tt.from(n)); got.Code == http.StatusTooManyRequests {
						refused <- got.Header().Get("Retry-After")
					}
				})
			}
			for range tt.most {
				<-service.arrived
			}
			for range all - int(tt.most) {
				if wait := <-refused; wait != "1" {
					t.Errorf("refused with Retry-After %q", wait)
				}
			}
			if tt.most < maxAtOnce { // while the flood waits for the cloud
				if got := ask("GOOD", "10.0.0.9:1"); got.Code != http.StatusOK {
					t.Errorf("a machine that joins gets %d %s", got.Code, got.Body)
				}
			}
			close(service.release)
			flood.Wait()
			if got := service.maxWaiting.Load(); got != tt.most {
				t.Errorf("%d questions to the cloud at a time, want %d", got, tt.most)
			}
			if got := ask("GOOD", "10.9.0.9:1"); got.Code != http.StatusOK || got.busy != 0 {
				t.Errorf("a machine that joins later gets %d %s, and holds %d slots while it receives", got.Code, got.Body, got.busy)
			}
		})
	}
}

// recordingProver is a Prover that records the bodies it signed.
type recordingProver struct {
	bootstrap.Prover
	body, token string
}

func (n *recordingProver) Prove(ctx context.Context, body []byte) (string, error) {
	token, err := n.Prover.Prove(ctx, body)
	n.body, n.token = string(body), token
	return token, err
}

// An intercepted proof is of no use at another control plane, nor at the same one after
// it has lost its memory of proofs.
func TestAProofIsForOneConnection(t *testing.T) {
	w := newWorld(t)
	client := w.join(t, "node-1")
	prover := &recordingProver{Prover: client.Prover}
	client.Prover = prover
	if _, err := client.NodeConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := func() string { // another server, or this one restarted
		s := *w.server
		s.Verifier = bootstrap.NewMachineKeyVerifier(s.Configs.(bootstrap.Machines), time.Now)
		return w.serve(t, &s)
	}
	send := func(url, body, token string) (int, string) {
		conn, err := w.transport(t, nil).Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/bootstrap", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		resp, err := conn.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if code, text := send(fresh(), prover.body, prover.token); code != 403 || !strings.Contains(text, "for another connection") {
		t.Errorf("at another server: %d %s", code, text)
	}
	i := strings.Index(prover.body, `,"channelBinding"`)
	if i < 0 {
		t.Fatalf("the request is not bound: %s", prover.body)
	}
	if code, text := send(fresh(), prover.body[:i]+"}", prover.token); code != 403 || !strings.Contains(text, "for another request") {
		t.Errorf("with the binding cut off: %d %s", code, text)
	}
	old := `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}`
	token, err := client.Prover.Prove(t.Context(), []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if code, text := send(fresh(), old, token); code != 200 {
		t.Errorf("of a machine that knows nothing of bindings: %d %s", code, text)
	}
	r := httptest.NewRequest("POST", "/bootstrap", strings.NewReader(prover.body))
	if err := checkBinding(bootstrap.Request{ChannelBinding: "x"}, r.TLS); !fault.Is(err, fault.Denied) {
		t.Errorf("without TLS: %v", err)
	}
}
