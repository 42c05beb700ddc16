package agent_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/test/kubetest"
)

// keyMaterial returns the API server's flags that name files of keys and
// certificates, with the paths at which this process sees those files.
func (w *world) keyMaterial() []string {
	w.Helper()
	var p corev1.Pod
	if err := yaml.Unmarshal([]byte(w.read("/etc/kubernetes/manifests/kube-apiserver.manifest")), &p); err != nil {
		w.Fatal(err)
	}
	var out []string
	c := p.Spec.Containers[0]
	for _, arg := range append(c.Command, c.Args...) {
		name, file, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(file, "/srv/") && !strings.HasPrefix(name, "--etcd") {
			out = append(out, name+"="+w.root+file)
		}
	}
	return out
}

// administrator returns the client configuration that the machine's own kubectl uses.
func (w *world) administrator() *rest.Config {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.root+"/var/lib/kubectl/kubeconfig")
	if err != nil {
		w.Fatal(err)
	}
	return config
}

// A real API server that was started 400 days ago serves the certificate that a renewal has
// issued, without a restart.
func TestARunningAPIServerShowsItsRenewedCertificate(t *testing.T) {
	kubetest.Programs(t)
	w := newWorld(t, controlPlane)
	a := w.agent()
	at := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	a.Clock.Now, a.Issuer.Now, w.machine.Now = at(-400*day), at(-400*day), at(-400*day)
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	server := kubetest.ServeConfig(t, w.administrator(), append(w.keyMaterial(), "--etcd-servers="+kubetest.Etcd(t))...)
	held := func() string {
		c, err := pki.ParseCertificate([]byte(w.read("/srv/kubernetes/kube-apiserver/server.crt")))
		if err != nil {
			t.Fatal(err)
		}
		return c.SerialNumber.String()
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute) // it rereads the file once a minute if it gets no change notification
	defer stop()
	shown := func() string {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test only looks at its certificate
		c, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(server.Host, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // nothing was written
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := held()
	if got := shown(); got != before {
		t.Fatalf("it shows %s, and the file holds %s", got, before)
	}
	a.Clock.Now, a.Issuer.Now, w.machine.Now = time.Now, time.Now, time.Now
	pod := w.read("/etc/kubernetes/manifests/kube-apiserver.manifest")
	if err := a.Renew(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	renewed := held()
	if renewed == before || w.read("/etc/kubernetes/manifests/kube-apiserver.manifest") != pod {
		t.Fatal("the certificate was not renewed, or the API server's pod is another")
	}
	for shown() != renewed {
		if ctx.Err() != nil {
			t.Fatal("it does not show the certificate of the file")
		}
	}
	config := w.administrator()
	config.Host = server.Host
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Host+"/api/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // the body is not read
	if res.StatusCode != http.StatusOK {
		t.Errorf("it answers kubectl, whose certificate is new too, with %s", res.Status)
	}
}
