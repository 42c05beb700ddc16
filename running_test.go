package kops_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/newcluster"
)

// running serves the API of the bench's cluster, whose nodes have the given versions, and
// returns its host.
func (b *bench) running(worker *string, controlPlane ...*string) string {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL+"/"+name+"/pki")
	if err != nil {
		b.Fatal(err)
	}
	data, _, err := s.Get(b.Context(), "private/"+pki.KubernetesCA+"/keyset.yaml")
	if err != nil {
		b.Fatal(err)
	}
	o, _, err := compat.DecodeOne[*api.Keyset](data, compat.Options{Lenient: true})
	if err != nil {
		b.Fatal(err)
	}
	o.Name = pki.KubernetesCA
	ca, err := pki.FromAPI(o)
	if err != nil {
		b.Fatal(err)
	}
	pair, err := pki.Issuer{Rand: rand.Reader, Now: b.cfg.World.Now, Generate: b.cfg.World.NewKey}.Issue(pki.Request{Usage: pki.Server, CommonName: "kubernetes", Names: []string{"api.internal." + name}}, ca)
	if err != nil {
		b.Fatal(err)
	}
	key, err := pair.Key.PEM()
	if err != nil {
		b.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	if err != nil {
		b.Fatal(err)
	}
	node := func(n, role, version string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"node-role.kubernetes.io/%s":""}},"status":{"nodeInfo":{"kubeletVersion":%q}}}`, n, role, version)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/nodes":
			nodes := []string{node("a", "node", *worker)}
			for i, v := range controlPlane {
				nodes = append(nodes, node(fmt.Sprintf("c%d", i), "control-plane", *v))
			}
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","items":[%s]}`, strings.Join(nodes, ",")) //nolint:errcheck // a test
		case "/api/v1/pods":
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`) //nolint:errcheck // a test
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// workers returns the configured version of workers.
func (b *bench) workers() string {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL+"/"+name)
	if err != nil {
		b.Fatal(err)
	}
	data, _, err := s.Get(b.Context(), "igconfig/node/nodes-here/nodeupconfig.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "KubernetesVersion: "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// versionWarnings returns the warnings about the running version.
func versionWarnings(u *kops.Update) string {
	var out diag.List
	for _, w := range u.Warnings {
		if w.Rule == "running-version" {
			w.Warning = false // the text of a list omits warnings
			out = append(out, w)
		}
	}
	return out.Error()
}

func TestWorkersKeepTheirVersionUntilTheControlPlaneHasTheNewOne(t *testing.T) {
	b := newBench(t)
	b.now = time.Now() // TLS verifies certificates with the real clock
	asked, host := 0, ""
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		p.Lookup.Endpoint = func(context.Context, *platform.Session, *api.Cluster) (string, error) { asked++; return host, nil }
	})
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(o *newcluster.Options) { o.KubernetesVersion = "1.35.4" })
	b.apply(kops.UpdateOptions{})
	b.apply(kops.UpdateOptions{})
	if asked != 0 {
		t.Errorf("the control plane was asked %d times although no version changed", asked)
	}

	old, newest, worker := "v1.35.4", "v1.36.3", "v1.34.0"
	host = b.running(&worker, &newest, &old)
	b.set("", "spec.kubernetesVersion=1.36.3")
	for range 2 { // as often as the cluster is updated
		u := b.apply(kops.UpdateOptions{})
		if got := b.workers(); got != "1.35.4" || !strings.Contains(versionWarnings(u), "workers stay at 1.35.4") {
			t.Errorf("workers get %s, warned %q", got, versionWarnings(u))
		}
	}
	old = "v1.36.3"
	if u := b.apply(kops.UpdateOptions{}); b.workers() != "1.36.3" || versionWarnings(u) != "" {
		t.Errorf("workers get %s, warned %q", b.workers(), versionWarnings(u))
	}
	asked = 0
	b.apply(kops.UpdateOptions{})
	if asked != 0 {
		t.Error("the control plane was asked although the workers have their version")
	}
}

func TestAControlPlaneWithoutAVersionCausesAWarning(t *testing.T) {
	b := newBench(t)
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		p.Lookup.Endpoint = func(context.Context, *platform.Session, *api.Cluster) (string, error) { return "", nil }
	})
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(o *newcluster.Options) { o.KubernetesVersion = "1.35.4" })
	b.apply(kops.UpdateOptions{})
	b.set("", "spec.kubernetesVersion=1.36.3")
	u := b.apply(kops.UpdateOptions{})
	if got := b.workers(); got != "1.36.3" || !strings.Contains(versionWarnings(u), "no address yet") {
		t.Errorf("workers get %s, warned %q", got, versionWarnings(u))
	}
}

func TestWorkersNeedNotWaitForTheControlPlane(t *testing.T) {
	b := newBench(t)
	asked := 0
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		p.Lookup.Endpoint = func(context.Context, *platform.Session, *api.Cluster) (string, error) { asked++; return "", nil }
	})
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(o *newcluster.Options) { o.KubernetesVersion = "1.35.4" })
	b.apply(kops.UpdateOptions{})
	b.set("", "spec.kubernetesVersion=1.36.3")
	u := b.apply(kops.UpdateOptions{IgnoreSkew: true})
	if got := b.workers(); got != "1.36.3" || versionWarnings(u) != "" || asked != 0 {
		t.Errorf("workers get %s, warned %q, and the control plane was asked %d times", got, versionWarnings(u), asked)
	}
}
