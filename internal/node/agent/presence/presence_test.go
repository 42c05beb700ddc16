package presence_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/node/agent/ownnode"
	"kops.local/kops/internal/node/agent/presence"
	"kops.local/kops/internal/node/controller/routes"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kubetest"
)

// systemd is a machine's fake systemd, in which the kubelet runs and is restarted.
type systemd struct {
	host.Offline
	state   host.UnitState
	restart int
}

func (s *systemd) States(context.Context, []string) (map[string]host.UnitState, error) {
	return map[string]host.UnitState{"kubelet.service": s.state}, nil
}

func (s *systemd) Start(_ context.Context, unit string, anew bool) error {
	if unit == "kubelet.service" && anew {
		s.restart++
	}
	return nil
}

type machine struct {
	*systemd
	check    presence.Check
	now      time.Time
	messages []string
}

func newMachine(t *testing.T, node, server string) *machine {
	m := &machine{now: time.Unix(1e9, 0)}
	m.systemd = &systemd{state: host.UnitState{Running: true, Started: m.now.Add(-time.Hour)}}
	m.check = presence.Check{Root: t.TempDir(), OwnNode: ownnode.New(node, server, nil), Systemd: m.systemd,
		Now: func() time.Time { return m.now }, Log: func(s string) { m.messages = append(m.messages, s) }}
	return m
}

// runCheck runs one check, half a minute after the previous one.
func (m *machine) runCheck(t *testing.T) {
	t.Helper()
	if _, err := m.check.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.now = m.now.Add(30 * time.Second)
}

// TestAKubeletWithoutANodeIsRestarted deletes nodes and pods on a real API server.
func TestAKubeletWithoutANodeIsRestarted(t *testing.T) {
	config := kubetest.Start(t)
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	server, tls, err := host.ReadKubeconfig(kubetest.Kubeconfig(t, config))
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "n", server)
	m.check.OwnNode = ownnode.New("n", server, tls)
	create := func(cidr string) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}}}
		if _, err := core.Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(name, ip string, hostNetwork bool) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: corev1.PodSpec{NodeName: "n", HostNetwork: hostNetwork, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		made, err := core.Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		if err == nil {
			made.Status.PodIP, made.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
			_, err = core.Pods("default").UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cni := filepath.Join(m.check.Root, "etc/cni/net.d")
	if err := os.MkdirAll(cni, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{routes.ConflistName, "10-containerd-net.conflist", "99-other.conflist"} {
		if err := os.WriteFile(filepath.Join(cni, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	configs := func(want ...string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(cni, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			files[i] = filepath.Base(f)
		}
		if !slices.Equal(files, want) {
			t.Errorf("configurations of the network: %v, not %v", files, want)
		}
	}
	create("100.96.1.0/24")
	pod("stray", "100.96.1.7", false)
	pod("of-the-host", "100.96.1.8", true)
	pod("elsewhere", "10.9.8.7", false)
	m.runCheck(t)
	m.runCheck(t)
	if m.restart != 0 || len(m.messages) != 0 {
		t.Fatalf("though the node is there: %v", m.messages)
	}
	if err := core.Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.runCheck(t)
	if m.restart != 0 {
		t.Error("one absence is enough")
	}
	configs("10-containerd-net.conflist", routes.ConflistName, "99-other.conflist")
	m.runCheck(t)
	if m.restart != 1 {
		t.Fatalf("the kubelet was started %d times", m.restart)
	}
	configs("99-other.conflist")
	m.state.Started = m.now.Add(-30 * time.Second)
	m.runCheck(t)
	if m.restart != 1 {
		t.Error("a kubelet that has just started is started again")
	}
	create("100.96.5.0/24")
	pod("new", "100.96.5.2", false)
	m.runCheck(t)
	m.runCheck(t)
	left, err := core.Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range left.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"elsewhere", "new", "of-the-host"}) || len(m.messages) != 2 {
		t.Errorf("pods %v, told %q", names, m.messages)
	}
}

func TestOnlyTheAPIServerDecides(t *testing.T) {
	answer := http.NotFound
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer s.Close()
	m := newMachine(t, "n", s.URL)
	for name, a := range map[string]http.HandlerFunc{
		"the 404 of something else": http.NotFound,
		"503":                       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"403":                       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
	} {
		answer = a
		for range 5 {
			if _, err := m.check.Once(t.Context()); err == nil {
				t.Errorf("%s is an answer", name)
			}
			m.now = m.now.Add(time.Hour)
		}
	}
	s.Close()
	if _, err := m.check.Once(t.Context()); err == nil || m.restart != 0 {
		t.Errorf("%d starts, %v", m.restart, err)
	}
}

func TestAKubeletThatIsOffStaysOff(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","reason":"NotFound"}`))
	}))
	defer s.Close()
	m := newMachine(t, "n", s.URL)
	m.state.Running = false
	for range 4 {
		m.runCheck(t)
	}
	if m.restart != 0 {
		t.Error("it was started")
	}
	m.state.Running = true
	m.runCheck(t)
	m.runCheck(t)
	if m.restart != 1 {
		t.Errorf("one that runs was started %d times", m.restart)
	}
	if _, err := os.Stat(filepath.Join(m.check.Root, "run/kops-presence/absent")); err == nil {
		t.Error("the absence is remembered")
	}
}

func TestAMachineThatHasNotJoinedHasNothingToCheck(t *testing.T) {
	c, err := ownnode.Open(t.TempDir(), "/kubeconfig")
	if c != nil || err != nil {
		t.Errorf("%v %v", c, err)
	}
}
