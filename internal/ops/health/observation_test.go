package health

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/test/kubetest"
	"kops.local/kops/internal/test/testkeys"
)

func open(t *testing.T, c *rest.Config) *API {
	t.Helper()
	a, err := Open(c, api.DNSPublic)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func observe(t *testing.T, c *rest.Config) Observation {
	t.Helper()
	s, err := open(t, c).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestObserveARealAPIServer(t *testing.T) {
	config := kubetest.Start(t)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	made := node("cp-0", "control-plane")
	n, err := clients.CoreV1().Nodes().Create(ctx, &made, metav1.CreateOptions{})
	if err == nil {
		n.Status = made.Status
		_, err = clients.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"apps"} {
		if _, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []corev1.Pod{pod("kube-system/plain", "plain", "cp-0", ""), pod("kube-system/kube-apiserver-cp-0", "kube-apiserver", "cp-0", clusterCritical),
		pod("apps/web", "web", "cp-0", ""), pod("apps/agent", "agent", "cp-0", nodeCritical)} {
		status := p.Status
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "c"}}
		got, err := clients.CoreV1().Pods(p.Namespace).Create(ctx, &p, metav1.CreateOptions{})
		if err == nil {
			got.Status = status
			_, err = clients.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, got, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	serves := &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discovery.LabelServiceName: "kubernetes"}},
		AddressType: discovery.AddressTypeIPv4, Endpoints: []discovery.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	if _, err := clients.DiscoveryV1().EndpointSlices("default").Create(ctx, serves, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	s := observe(t, config)
	if len(s.Serving) != 1 || s.Serving[0].String() != "10.0.0.1" {
		t.Errorf("API servers serve at %v", s.Serving)
	}
	var pods []string
	for _, p := range s.Pods {
		pods = append(pods, p.Namespace+"/"+p.Name+" "+string(p.Status.Phase))
	}
	if got := strings.Join(pods, ", "); got != "apps/agent Running, kube-system/kube-apiserver-cp-0 Running, kube-system/plain Running" {
		t.Errorf("pods %s", got)
	}
	if s.Problem != nil || len(s.Unready) != 0 || len(s.Nodes) != 1 || Unready(&s.Nodes[0]) != "" {
		t.Errorf("seen %+v", s)
	}
	if _, err := open(t, config).Log(ctx, "apps", "web", "c", 5, false); err == nil || !strings.Contains(err.Error(), "read the log of apps/web") {
		t.Errorf("the log of a pod that nobody runs: %v", err)
	}

	_, otherCA := authority(t)
	for _, c := range []struct {
		name, want string
		do         func(*rest.Config)
	}{
		{"another authority", "it presents a certificate that the cluster's certificate authority did not issue; check", func(c *rest.Config) { c.CAData = otherCA }},
		{"another name", "its certificate is not for that name", func(c *rest.Config) { c.ServerName = "other" }},
		{"no credentials", "it does not accept the credentials; write new ones: kops export", func(c *rest.Config) { c.BearerToken, c.CertData, c.KeyData = "wrong", nil, nil }},
		{"nobody in particular", "the credentials lack a permission", func(c *rest.Config) { c.CertData, c.KeyData = nil, nil }},
		{"nothing there", "nothing listens there: connection refused; if the cluster is starting", func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }},
	} {
		bad := rest.CopyConfig(config)
		c.do(bad)
		if s := observe(t, bad); s.Problem == nil || !strings.Contains(s.Problem.Text(), c.want) || s.Problem.Name != bad.Host {
			t.Errorf("%s: %+v, want %q", c.name, s.Problem, c.want)
		}
	}
}

// authority creates a keyset with a key of its own, unlike those of tests, and its certificate.
func authority(t *testing.T) (*pki.Keyset, []byte) {
	t.Helper()
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }})
	if err != nil {
		t.Fatal(err)
	}
	return all[pki.KubernetesCA], []byte(all[pki.KubernetesCA].Bundle())
}

func TestAServerThatIsNotReady(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n") //nolint:errcheck // a test
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","items":[]}`) //nolint:errcheck // a test
	}))
	defer s.Close()
	if got := observe(t, &rest.Config{Host: s.URL}); got.Problem != nil || len(got.Unready) != 1 || got.Unready[0] != "etcd" {
		t.Errorf("%+v", got)
	}
	s.Config.Handler = http.NotFoundHandler()
	if got := observe(t, &rest.Config{Host: s.URL}); got.Problem == nil {
		t.Error("what is no API server is taken for one")
	}
	if got := observe(t, &rest.Config{Host: strings.Replace(s.URL, "http:", "https:", 1)}); got.Problem == nil || !strings.Contains(got.Problem.Message, "it does not speak TLS") {
		t.Errorf("plain HTTP: %+v", got.Problem)
	}
}

func TestAPlaceholderStopsTheObservation(t *testing.T) {
	a := open(t, &rest.Config{Host: "https://api.a.example.com"})
	a.lookUp = func(_ context.Context, host string) ([]string, error) {
		if host != "api.a.example.com" {
			return nil, errors.New("another host")
		}
		return []string{"203.0.113.123"}, nil
	}
	s, err := a.Observe(t.Context())
	if err != nil || s.Problem == nil || s.Problem.Kind != KindDNS || s.Problem.Name != "apiserver" || !strings.Contains(s.Problem.Message, "203.0.113.123") {
		t.Errorf("%+v, %v", s.Problem, err)
	}
}

func TestFromKubeconfig(t *testing.T) {
	now := time.Now()
	ca, bundle := authority(t)
	pair, err := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: testkeys.Source()}.Admin(ca, "jane", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.Key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	write := func(context string, user *clientapi.AuthInfo) string {
		k := clientapi.NewConfig()
		k.Clusters["a"] = &clientapi.Cluster{Server: "https://a", CertificateAuthorityData: bundle}
		k.AuthInfos["a"] = user
		k.Contexts[context] = &clientapi.Context{Cluster: "a", AuthInfo: "a"}
		file := filepath.Join(t.TempDir(), "config")
		if err := clientcmd.WriteToFile(*k, file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	admin := &clientapi.AuthInfo{ClientCertificateData: pki.EncodeCertificate(pair.Certificate), ClientKeyData: key}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		now        time.Time
		want       string
		class      fault.Class
	}{
		{"good", write("a", admin), now, "", ""},
		{"expired", write("a", admin), now.Add(2 * time.Hour), "its certificate for kubecfg-jane expired at ", fault.Denied},
		{"a token", write("a", &clientapi.AuthInfo{Token: "t"}), now, "", ""},
		{"no credentials", write("a", &clientapi.AuthInfo{}), now, "it has no credentials for the cluster", fault.Denied},
		{"no file", "/none", now, "there is no kubeconfig file /none", fault.Gone},
		{"no context", write("b", admin), now, "has no context a", fault.Gone},
		{"no kubeconfig", broken, now, "read the kubeconfig file", fault.Permanent},
	} {
		got, err := FromKubeconfig(c.file, "a", "", c.now)
		if c.want == "" && (err != nil || got.Host != "https://a") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != c.class || fault.Remedy(err) == "") {
			t.Errorf("%s: %+v, %v (%s; %s)", c.name, got, err, fault.Of(err), fault.Remedy(err))
		}
	}
	if got, err := FromKubeconfig(write("a", admin), "a", "https://other", now); err != nil || got.Host != "https://other" {
		t.Errorf("another server: %+v, %v", got, err)
	}
}

// A text that is reported once a second during a wait must not change with the local port.
func TestAProblemOmitsTheLocalAddress(t *testing.T) {
	at := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	reset := &net.OpError{Op: "read", Net: "tcp", Source: at(40000), Addr: at(443), Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	err := fmt.Errorf("ask: %w", &url.Error{Op: "Get", URL: "https://127.0.0.1/readyz", Err: reset})
	v := Check(World{API: Observation{Server: "s", Problem: problem("s", "", err)}})
	if got := v.Failures[0].Message; got != "it cannot be reached: read tcp 127.0.0.1:443: read: connection reset by peer" {
		t.Errorf("got %q", got)
	}
}

// A cluster without DNS has no zone: its API has the name of its load balancer.
func TestAnUnknownNameSaysWhatToCheck(t *testing.T) {
	err := &url.Error{Op: "Get", Err: &net.DNSError{Err: "no such host", Name: "api.a.example.com", IsNotFound: true}}
	for dns, want := range map[api.DNSType]string{api.DNSPublic: "check its DNS zone", api.DNSNone: "check that it exists (kops update cluster)"} {
		if p := problem("s", dns, err); !strings.Contains(p.Remedy, want) || dns == api.DNSNone && strings.Contains(p.Remedy, "zone") {
			t.Errorf("%s: got %q", dns, p.Remedy)
		}
	}
}
