// Package loadtest simulates clients of an application, who connect as through the load balancer of a
// cloud: to the nodes to which it would send them, many times a second.
//
// It must not know what happens to the cluster meanwhile.
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
	// lookPeriod is the time between two checks of which nodes accept requests.
	lookPeriod = 200 * time.Millisecond
	// port is the port of the application at each node.
	port = "30081"
)

// Shop is the application, as manifests: four servers with a disruption budget, behind a Service. It is
// the Deployment "shop".
//
//go:embed shop.yaml
var Shop []byte

// Load is the clients of the application.
type Load struct {
	client    func() kubernetes.Interface
	startTime time.Time
	cancel    context.CancelFunc
	requested chan struct{}
	done      sync.WaitGroup

	mu     sync.Mutex
	nodes  []string // addresses
	sent   int
	failed []string
}

// Start begins to check which nodes accept requests, until the context ends or Stop is called. Each
// check calls client for the client of the API server.
func Start(ctx context.Context, client func() kubernetes.Interface) *Load {
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{client: client, startTime: time.Now(), cancel: cancel, requested: make(chan struct{})}
	l.done.Go(func() {
		every(ctx, lookPeriod, func() { _ = l.refreshNodes(ctx) }) // as with a load balancer, an API server that does not answer changes nothing
	})
	l.done.Go(func() {
		select {
		case <-l.requested:
			every(ctx, requestPeriod, func() { l.done.Go(func() { l.send(context.WithoutCancel(ctx)) }) })
		case <-ctx.Done():
		}
	})
	return l
}

// StartRequests begins to send requests to the application, fifty times a second, each over a new connection.
func (l *Load) StartRequests() { close(l.requested) }

// Stop stops everything that was started, and waits until it has stopped.
func (l *Load) Stop() {
	l.cancel()
	l.done.Wait()
}

// ReadyNodes returns the addresses of the nodes that accept requests.
func (l *Load) ReadyNodes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.nodes)
}

// Finish stops, and returns how many requests were sent, and how many failed; a failure fails the test.
func (l *Load) Finish(t testing.TB) (sent, failed int) {
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

// refreshNodes checks which nodes accept requests: those that are ready and not excluded from load
// balancers. As with a cloud's load balancer, whose health check a new node must pass first, a
// new node gets requests once it has answered one.
func (l *Load) refreshNodes(ctx context.Context) error {
	list, err := l.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var nodes []string
	known := l.ReadyNodes()
	for _, n := range list.Items {
		if _, out := n.Labels[labels.NoLoadBalancer]; out || !isReady(n) {
			continue
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && (slices.Contains(known, a.Address) || sendRequest(ctx, a.Address) == nil) {
				nodes = append(nodes, a.Address)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = nodes
	return nil
}

func isReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// send sends a request to the application at one of the nodes.
func (l *Load) send(ctx context.Context) {
	err, node := errors.New("no node takes requests"), ""
	if nodes := l.ReadyNodes(); len(nodes) > 0 {
		node = nodes[rand.IntN(len(nodes))]
		err = sendRequest(ctx, node)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("at %s, node %s: %v", time.Since(l.startTime).Round(time.Millisecond), node, err))
	}
}

// sendRequest sends one request to the application at a node.
func sendRequest(ctx context.Context, node string) error {
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
	r.Body.Close() //nolint:errcheck // only read
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}
