package routes

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/test/kubetest"
)

// sharedTable is a table that both the agent and the test use.
type sharedTable struct {
	mu sync.Mutex
	table
}

func (s *sharedTable) Routes() ([]Route, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Routes()
}
func (s *sharedTable) Set(r Route) error { s.mu.Lock(); defer s.mu.Unlock(); return s.table.Set(r) }
func (s *sharedTable) Remove(r Route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Remove(r)
}

func TestTheAgentFollowsARealAPIServer(t *testing.T) {
	core, err := corev1client.NewForConfig(kubetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	k := &sharedTable{table: table{routes: map[netip.Prefix]netip.Addr{}}}
	a := agent(t, k)
	a.Nodes = core.Nodes()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	create := func(n *corev1.Node) {
		t.Helper()
		status := n.Status
		made, err := core.Nodes().Create(t.Context(), n, metav1.CreateOptions{})
		if err == nil {
			made.Status = status
			_, err = core.Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	routes := func() int { all, _ := k.Routes(); return len(all) - len(a.Network.Bounds()) }
	configuration := func() string {
		text, _ := os.ReadFile(filepath.Join(a.CNIFolder, ConflistName)) // does not exist yet
		return string(text)
	}
	create(node("self", nil, "10.0.0.1"))
	create(node("b", []string{"100.96.1.0/24"}, "10.0.0.2"))
	eventually("no route to the other node's pods", func() bool { return routes() == 1 })
	if text := configuration(); text != "" {
		t.Errorf("without a range there is a configuration: %s", text)
	}
	self, err := core.Nodes().Get(t.Context(), "self", metav1.GetOptions{})
	if err == nil {
		self.Spec.PodCIDR, self.Spec.PodCIDRs = "100.96.0.0/24", []string{"100.96.0.0/24"}
		_, err = core.Nodes().Update(t.Context(), self, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	given := time.Now()
	eventually("no configuration of the node's range", func() bool { return strings.Contains(configuration(), "100.96.0.0/24") })
	t.Logf("the configuration was there %s after the range", time.Since(given).Round(time.Millisecond))
	if err := core.Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the route to a node that is gone stays", func() bool { return routes() == 0 })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
