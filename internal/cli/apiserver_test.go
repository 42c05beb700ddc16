package cli_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/test/testkeys"
	"kops.local/kops/provider"
)

// serveAPI starts a server that plays the API server of a cluster in the state store, until the end
// of the script, and sets APISERVER to its URL. It presents a certificate of the cluster's
// authority and requires a client certificate of the same. The folder has its objects, nodes.yaml,
// pods.yaml and budgets.yaml, each a list; log is the log of each container, version its version,
// metrics its metrics, and unready how often it reports that it is not ready.
func (s *session) serveAPI(ts *testscript.TestScript, args []string) {
	cluster, dir := args[0], ts.MkAbs(args[1])
	cert, ca, err := s.serverCertificate(ts, cluster)
	ts.Check(err)
	server := httptest.NewUnstartedServer(apiHandler(dir))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: ca, ClientAuth: tls.RequireAndVerifyClientCert, Time: s.clock.Now}
	server.Config.ErrorLog = nil
	server.StartTLS()
	ts.Defer(server.Close)
	ts.Setenv("APISERVER", server.URL)
}

// serverCertificate issues a certificate with the key in the state store.
func (s *session) serverCertificate(ts *testscript.TestScript, cluster string) (tls.Certificate, *x509.CertPool, error) {
	data, err := os.ReadFile(ts.MkAbs(filepath.Join("state", cluster, "pki/private/kubernetes-ca/keyset.yaml")))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	o, _, err := compat.DecodeOne[*api.Keyset](data, compat.Options{Lenient: true})
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	o.Name = pki.KubernetesCA
	ca, err := pki.FromAPI(o)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := pki.Issuer{Rand: rand.Reader, Now: s.clock.Now, Generate: testkeys.Source()}.Issue(
		pki.Request{Usage: pki.Server, CommonName: "kubernetes-master", Names: []string{"api.internal." + cluster}}, ca)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key, err := pair.Key.PEM()
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca.Bundle()))
	cert, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	return cert, pool, err
}

func apiHandler(dir string) http.Handler {
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		var unready int64
		if data, err := os.ReadFile(filepath.Join(dir, "unready")); err == nil {
			fmt.Sscan(string(data), &unready) //nolint:errcheck // a test
		}
		if asked.Add(1) <= unready {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintln(w, "[+]ping ok\n[-]etcd failed: reason withheld") //nolint:errcheck // a test
		}
	})
	list := func(version, kind, file string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if file == "" || errors.Is(err, fs.ErrNotExist) {
				data, err = []byte("[]"), nil
			}
			if err == nil {
				data, err = yaml.YAMLToJSON(data)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusTeapot)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"items":%s}`, kind, version, data) //nolint:errcheck // a test
		}
	}
	mux.HandleFunc("GET /api/v1/nodes", list("v1", "NodeList", "nodes.yaml"))
	mux.HandleFunc("GET /api/v1/pods", list("v1", "PodList", "pods.yaml"))
	mux.HandleFunc("GET /apis/policy/v1/poddisruptionbudgets", list("policy/v1", "PodDisruptionBudgetList", "budgets.yaml"))
	const webhooks = "admissionregistration.k8s.io/v1"
	mux.HandleFunc("GET /apis/"+webhooks+"/validatingwebhookconfigurations", list(webhooks, "ValidatingWebhookConfigurationList", ""))
	mux.HandleFunc("GET /apis/"+webhooks+"/mutatingwebhookconfigurations", list(webhooks, "MutatingWebhookConfigurationList", ""))
	mux.HandleFunc("GET /apis/apiregistration.k8s.io/v1/apiservices", list("apiregistration.k8s.io/v1", "APIServiceList", ""))
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		data, err := os.ReadFile(filepath.Join(dir, "version"))
		if err != nil {
			http.NotFound(w, nil)
			return
		}
		fmt.Fprintf(w, `{"gitVersion":%q}`, strings.TrimSpace(string(data))) //nolint:errcheck // a test
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(dir, "metrics")) })
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"policy","versions":[]}]}`) //nolint:errcheck // a test
	})
	mux.HandleFunc("GET /api/v1/namespaces/{ns}/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "%s of %s, previous %s\n%s", r.FormValue("container"), r.PathValue("pod"), r.FormValue("previous"), data) //nolint:errcheck // a test
	})
	return mux
}

// machine starts or stops a machine of the fake cloud, or sets its start report.
func (s *session) machine(ts *testscript.TestScript, args []string) {
	switch {
	case len(args) == 2 && (args[0] == "start" || args[0] == "stop"):
		s.world.Power(args[1], args[0] == "start")
	case len(args) == 3 && args[0] == "report":
		s.world.SetBootRecord(args[1], provider.BootRecord{Report: []byte(ts.ReadFile(args[2]))})
	case len(args) == 3 && args[0] == "console":
		s.world.SetBootRecord(args[1], provider.BootRecord{Console: []byte(ts.ReadFile(args[2]))})
	default:
		ts.Fatalf("usage: machine start|stop NAME, machine report|console NAME FILE, not %s", strings.Join(args, " "))
	}
}
