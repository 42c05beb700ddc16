package boot

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	azure "kops.local/kops/internal/platform/azure/spec"
	gce "kops.local/kops/internal/platform/gce/spec"
	openstack "kops.local/kops/internal/platform/openstack/spec"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/store/azureblob/azuretest"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/swifttest"
	"kops.local/kops/internal/test/sandbox"
)

// ownStore is a cluster's store in its own cloud.
type ownStore struct {
	traits traits.Traits
	base   string
	env    map[string]string
	store  store.Store
	// public serves the cloud's names, with TLS, and metadata the machine's metadata service.
	public, metadata http.HandlerFunc
}

// TestControlPlanesFetchNodeupFromTheStoreOfTheirCloud runs unmodified user data. On AWS, the other tests
// do.
func TestControlPlanesFetchNodeupFromTheStoreOfTheirCloud(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Resolve(t, "storage.googleapis.com", "metadata.google.internal", azuretest.Account+".blob.core.windows.net")
	for name, start := range map[string]func(*world) ownStore{"gce": bucketStore, "azure": blobStore, "openstack": swiftStore} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, issuer: sandbox.Issuer(), files: map[string][]byte{}, store: store.NewMemory("memory://state"), trusted: sandbox.TrustedAuthority(t)}
			w.model()
			own := start(w)
			changed := *w.in.Traits
			changed.Store = own.traits.Store
			w.in.Traits, w.in.Environment, w.in.Cluster.Spec.ConfigStore.Base = &changed, own.env, own.base
			if _, err := own.store.Put(t.Context(), w.nodeup.Key(), sandbox.Compress(t, sandbox.Nodeup), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			sandbox.Serve(t, "127.0.0.1:443", own.public, w.serverCertificate)
			sandbox.Serve(t, "127.0.0.1:80", own.metadata, nil)
			sandbox.Serve(t, net.JoinHostPort(sandbox.MetadataIP, "80"), own.metadata, nil)
			m := machine{sandbox.NewMachine(t)}
			m.RunBootScript(w.userData(controlPlane), "0")
			if !m.WaitUntilRest() {
				t.Fatalf("nodeup is not fetched\n%s", m.Console())
			}
			if ran, err := os.ReadFile("/opt/kops/ran"); err != nil || !strings.Contains(string(ran), "--install-systemd-unit\n") {
				t.Errorf("nodeup was run with %q, %v\n%s", ran, err, m.Console())
			}
			for name, value := range own.env {
				if got := sandbox.Environment(t)[name]; got != value {
					t.Errorf("nodeup gets %s=%q, want %q", name, got, value)
				}
			}
		})
	}
}

// bucketStore is a bucket of Google's, which serves the holder of a token.
func bucketStore(w *world) ownStore {
	const token = "machine"
	kept := store.NewMemory("memory://bucket")
	return ownStore{traits: gce.Platform().Traits, base: "gs://state/k.example.com", store: kept,
		public: func(rw http.ResponseWriter, r *http.Request) {
			key, ok := strings.CutPrefix(r.URL.Path, "/state/k.example.com/")
			data, _, err := kept.Get(r.Context(), key)
			if err != nil || !ok || r.Host != "storage.googleapis.com" || r.Header.Get("Authorization") != "Bearer "+token {
				w.Logf("%s %s: %v", r.Host, r.URL.Path, err)
				http.NotFound(rw, r)
				return
			}
			_, _ = rw.Write(data) // the client notices what is missing
		},
		metadata: func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Metadata-Flavor") == "Google" && strings.HasSuffix(r.URL.Path, "/service-accounts/default/token") {
				_, _ = fmt.Fprintf(rw, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, token) // the test would fail
			}
		}}
}

// blobStore is a container of Azure's, in an emulator that checks tokens.
func blobStore(w *world) ownStore {
	server := azuretest.StartTLS(w)
	server.Container(w, "state", "")
	at, err := url.Parse(server.URL)
	if err != nil {
		w.Fatal(err)
	}
	o := ownStore{traits: azure.Platform().Traits, base: "azureblob://" + azuretest.Account + "/state/k.example.com", env: map[string]string{"AZURE_ENVIRONMENT": "AzurePublicCloud"},
		public: func(rw http.ResponseWriter, r *http.Request) {
			p := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(at) }, Transport: server.HTTP.Transport, ErrorLog: log.New(io.Discard, "", 0)}
			p.ServeHTTP(rw, r)
		},
		metadata: func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Metadata") == "true" && r.URL.Path == "/metadata/identity/oauth2/token" {
				_, _ = fmt.Fprintf(rw, `{"access_token":%q,"expires_in":"3599"}`, azuretest.AccessToken(r.FormValue("resource"))) // the test would fail
			}
		}}
	if o.store, err = (store.Backends{azureblob.Backend(server.Config())}).Open(w.Context(), o.base); err != nil {
		w.Fatal(err)
	}
	return o
}

// swiftStore is a container of OpenStack's, for which the machine has a login in a file.
func swiftStore(w *world) ownStore {
	server := swifttest.Start(w)
	server.Container(w, "state", "")
	o := ownStore{traits: openstack.Platform().Traits, base: "swift://state/k.example.com", env: map[string]string{"OS_AUTH_URL": server.Identity(w), "OS_REGION_NAME": swifttest.Region},
		public: http.NotFound, metadata: http.NotFound}
	var err error
	if o.store, err = (store.Backends{swift.Backend(swift.Config{Login: func(ctx context.Context) (swift.Session, error) { return server.Login("owner")(ctx) }})}).Open(w.Context(), o.base); err != nil {
		w.Fatal(err)
	}
	if err := os.MkdirAll("/etc/kubernetes", 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile("/etc/kubernetes/cloud.config", []byte("[global]\napplication-credential-id=\"owner\"\napplication-credential-secret=\"secret\"\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	return o
}
