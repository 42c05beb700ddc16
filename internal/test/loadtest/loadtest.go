// Package loadtest is clients of an application, who come as through the load balancer of a
// cloud: to the nodes that it would send them to, many times a second.
//
// It must not know what is done to the cluster meanwhile.
package loadtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/contract/labels"
)

const (
	// requestPeriod is the time between two requests.
	requestPeriod = 20 * time.Millisecond
	// requestTime is how long one may take.
	requestTime = 5 * time.Second
	// lookPeriod is how often it is asked which nodes take requests.
	lookPeriod = 200 * time.Millisecond
	// port is the port of the application at each node.
	port = "30081"
)

// Shop is the application, as manifests: four servers with a budget, behind a Service. It is
// the Deployment "shop".
//
//go:embed shop.yaml
var Shop []byte

// Load is the clients of the application.
type Load struct {
	client func() kubernetes.Interface
	begun  time.Time
	cancel context.CancelFunc
	asking chan struct{}
	done   sync.WaitGroup

	mu     sync.Mutex
	nodes  []string // addresses
	sent   int
	failed []string
}

// Start begins to look which nodes take requests, until the context ends or Stop. The API
// server is asked through what client returns at that time.
func Start(ctx context.Context, client func() kubernetes.Interface) *Load {
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{client: client, begun: time.Now(), cancel: cancel, asking: make(chan struct{})}
	l.done.Go(func() {
		every(ctx, lookPeriod, func() { _ = l.look(ctx) }) // as with a load balancer, an API server that does not answer changes nothing
	})
	l.done.Go(func() {
		select {
		case <-l.asking:
			every(ctx, requestPeriod, func() { l.done.Go(func() { l.send(context.WithoutCancel(ctx)) }) })
		case <-ctx.Done():
		}
	})
	return l
}

// Ask begins to ask the application, fifty times a second, each time over a connection of its own.
func (l *Load) Ask() { close(l.asking) }

// Stop ends all that was begun, and waits for it.
func (l *Load) Stop() {
	l.cancel()
	l.done.Wait()
}

// Takers are the addresses of the nodes that take requests.
func (l *Load) Takers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.nodes)
}

// Rest stops, and says how many requests were sent, and how many failed, which none may have.
func (l *Load) Rest(t testing.TB) (sent, failed int) {
	t.Helper()
	l.Stop()
	if len(l.failed) > 0 {
		t.Errorf("%d of %d requests of the application failed:\n%s", len(l.failed), l.sent, strings.Join(l.failed[:min(20, len(l.failed))], "\n"))
	}
	return l.sent, len(l.failed)
}

func every(ctx context.Context, period time.Duration, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// look asks which nodes take requests: those that are ready and from which load balancers
// are not kept away. As with the load balancer of a cloud, whose health check it has to pass
// first, a node that is new gets requests when it has answered one.
func (l *Load) look(ctx context.Context) error {
	list, err := l.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var nodes []string
	known := l.Takers()
	for _, n := range list.Items {
		if _, out := n.Labels[labels.NoLoadBalancer]; out || !ready(n) {
			continue
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && (slices.Contains(known, a.Address) || ask(ctx, a.Address) == nil) {
				nodes = append(nodes, a.Address)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = nodes
	return nil
}

func ready(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// send asks the application at one of the nodes.
func (l *Load) send(ctx context.Context) {
	err, node := errors.New("no node takes requests"), ""
	if nodes := l.Takers(); len(nodes) > 0 {
		node = nodes[rand.IntN(len(nodes))]
		err = ask(ctx, node)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("at %s, node %s: %v", time.Since(l.begun).Round(time.Millisecond), node, err))
	}
}

// ask sends one request to the application at a node.
func ask(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(node, port)+"/hostname", nil)
	if err != nil {
		return err
	}
	r, err := c.Do(req)
	if err != nil {
		return err
	}
	r.Body.Close() //nolint:errcheck // it was only read
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}
