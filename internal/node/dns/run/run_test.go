package run

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/test/kubetest"
)

// zone is a provider with one zone.
type zone struct {
	mu       sync.Mutex
	have     dns.Content
	requests int
	changed  chan struct{}
}

func (z *zone) Zones(context.Context) ([]records.Zone, error) {
	return []records.Zone{{ID: "Z1", Name: "example.com"}}, nil
}

func (z *zone) Records(context.Context, records.Zone, []string) ([]records.Set, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.requests++
	var out []records.Set
	for _, s := range z.have {
		out = append(out, s)
	}
	return out, nil
}

func (z *zone) Apply(_ context.Context, _ records.Zone, changes []records.Change) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.requests++
	for _, c := range changes {
		z.have.Apply(c)
	}
	z.changed <- struct{}{}
	return nil
}

func (z *zone) text() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	var lines []string
	for _, s := range z.have {
		if s.Type != records.TXT {
			lines = append(lines, s.Name+" "+s.Type+" "+strings.Join(s.Values, ","))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// await waits until the zone has the wanted content.
func (z *zone) await(t *testing.T, want string) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for z.text() != want {
		select {
		case <-z.changed:
		case <-limit:
			t.Fatalf("the zone holds\n%s\nwant\n%s", z.text(), want)
		}
	}
}

// addMachine adds a node, and a pod on it that is named in the zone.
func addMachine(t *testing.T, core corev1client.CoreV1Interface, name, ip string) {
	t.Helper()
	n, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labels.ControlPlane: ""}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	if _, err := core.Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := core.Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "apiserver-" + name, Annotations: map[string]string{dns.Internal: "api.internal.k.example.com"}},
		Spec:       corev1.PodSpec{NodeName: name, HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	if _, err := core.Pods("kube-system").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitEvent waits for an event of a Service that reports that its name is reserved.
func awaitEvent(t *testing.T, core corev1client.CoreV1Interface, s *corev1.Service) {
	t.Helper()
	w, err := core.Events(s.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "reason=NameNotPublished,involvedObject.uid=" + string(s.UID)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case e := <-w.ResultChan():
		if got, ok := e.Object.(*corev1.Event); !ok || !strings.Contains(got.Message, "api.internal.k.example.com is not published: it is reserved for the control plane") {
			t.Errorf("%+v", e.Object)
		}
	case <-time.After(30 * time.Second):
		t.Error("no event about the Service")
	}
}

// start runs the program until stop is called.
func start(t *testing.T, o Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var log bytes.Buffer
	o.Log = daemon.Logger(&log, 0)
	go func() { ended <- DNSController(ctx, o) }()
	return func() {
		cancel()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("%v\n%s", err, &log)
		}
	}
}

func TestAClusterIsPublished(t *testing.T) {
	config := kubetest.Start(t)
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "exists") {
		t.Fatal(err)
	}
	z := &zone{have: dns.Content{}, changed: make(chan struct{}, 1000)}
	foreign := records.NewSet("api.internal.xk.example.com", records.A, 60, "8.8.8.8")
	z.have[foreign.Key] = foreign
	const kept = "\napi.internal.xk.example.com A 8.8.8.8"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	o := Options{
		Cluster: "k.example.com", DNS: "test", Zones: []string{"*/*"}, Families: dns.Families{IPv4: true}, Ingress: true, Allowed: []string{"example.com"}, Interval: 50 * time.Millisecond,
		Listen: address, Kubeconfig: kubetest.Kubeconfig(t, config), Version: "test",
		Services: []Service{{"test", func(context.Context) (records.Provider, error) { return z, nil }}},
	}
	addMachine(t, core, "cp1", "10.0.0.1")
	stop := start(t, o)
	z.await(t, "api.internal.k.example.com A 10.0.0.1"+kept)
	addMachine(t, core, "cp2", "10.0.0.2")
	z.await(t, "api.internal.k.example.com A 10.0.0.1,10.0.0.2"+kept)
	for range 2 { // a Service with a load balancer is created, and deleted while the program does not run
		s, err := core.Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{dns.External: "shop.example.com"}},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.net"}}
		if _, err := core.Services("default").UpdateStatus(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		z.await(t, "api.internal.k.example.com A 10.0.0.1,10.0.0.2"+kept+"\nshop.example.com CNAME lb.example.net")
		stop()
		if err := core.Services("default").Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		stop = start(t, o)
		z.await(t, "api.internal.k.example.com A 10.0.0.1,10.0.0.2"+kept)
	}
	testTurnsAround(t, core, z, "api.internal.k.example.com A 10.0.0.1,10.0.0.2"+kept)
	s, err := core.Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "thief", Annotations: map[string]string{dns.Internal: "api.internal.k.example.com"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, core, s)
	// The machine is gone; its pod is still listed for a while.
	if err := core.Nodes().Delete(t.Context(), "cp1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	z.await(t, "api.internal.k.example.com A 10.0.0.2"+kept)
	answer, err := http.Get(fmt.Sprintf("http://%s/healthz", address))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v %v", answer, err)
	} else {
		_ = answer.Body.Close()
	}
	if err := core.Nodes().Delete(t.Context(), "cp2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	addMachine(t, core, "cp3", "10.0.0.3")
	z.await(t, "api.internal.k.example.com A 10.0.0.3"+kept)
	stop()
}

// testTurnsAround makes a Service external, and internal again; rest is what else is published.
func testTurnsAround(t *testing.T, core corev1client.CoreV1Interface, z *zone, rest string) {
	t.Helper()
	s, err := core.Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "turning"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []struct{ annotation, name, balancer string }{
		{dns.Internal, "web.example.com", "inside.example.net"},
		{dns.External, "www.example.com", "outside.example.net"},
		{dns.Internal, "web.example.com", "inside.example.net"},
		{dns.External, "web.example.com", "outside.example.net"},
		{dns.Internal, "web.example.com", "inside.example.net"},
	} {
		s.Annotations = map[string]string{now.annotation: now.name}
		if s, err = core.Services("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: now.balancer}}
		if s, err = core.Services("default").UpdateStatus(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		z.await(t, rest+"\n"+now.name+" CNAME "+now.balancer)
	}
	if err := core.Services("default").Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	z.await(t, rest)
}

func TestInvalidOptions(t *testing.T) {
	err := DNSController(t.Context(), Options{Zones: []string{"*"}, DNS: "x"})
	for _, want := range []string{"--cluster-name is required", "--internal-ipv4 or --internal-ipv6", "--update-interval", `--zone: got "*"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	err = DNSController(t.Context(), Options{Cluster: "k.example.com", Families: dns.Families{IPv4: true}, Interval: time.Second, DNS: "x", Services: []Service{{Name: "a"}, {Name: "b"}}})
	if err == nil || err.Error() != `--dns: got "x"; supported are a, b` {
		t.Error(err)
	}
}
