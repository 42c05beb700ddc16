package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/labels"
)

const (
	// requestPeriod is the time between two requests of the application's client.
	requestPeriod = 20 * time.Millisecond
	// requestTime is how long one may take.
	requestTime = 5 * time.Second
	// lookPeriod is how often the client asks which nodes take requests.
	lookPeriod = 200 * time.Millisecond
	shopPort   = "30081"
)

// load is an application of four servers behind a Service, a client that asks it fifty
// times a second, and a writer to the API.
type load struct {
	w      *world
	api    *writer
	begun  time.Time
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	nodes  []string // addresses
	sent   int
	failed []string
}

// strain puts the cluster under load until the end of the test, or rest.
func (w *world) strain() *load {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/shop.yaml")
	w.kubectl("rollout", "status", "deployment/shop", "--timeout=5m")
	ctx, cancel := context.WithCancel(w.Context())
	l := &load{w: w, begun: time.Now(), cancel: cancel}
	w.Cleanup(l.stop)
	l.done.Go(func() { l.watch(ctx) })
	w.wait("an answer of the application at every node", clusterTime, func() error {
		for _, m := range w.machines(nodes) {
			if !slices.Contains(l.takers(), m.Address) {
				return fmt.Errorf("%s does not take requests", m.Name)
			}
		}
		return nil
	})
	l.done.Go(func() { l.send(ctx) })
	l.api = w.write()
	w.wait("writes under load", clusterTime, func() error { return l.api.acknowledged(int(calm / writePeriod / 2)) })
	return l
}

func (l *load) stop() {
	l.cancel()
	l.done.Wait()
}

// watch keeps the list of nodes that take requests. An API server that does not answer
// changes nothing, as with the load balancer of a cloud.
func (l *load) watch(ctx context.Context) {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = l.look(ctx)
		}
	}
}

// look asks which nodes take requests: those that are ready and from which load balancers
// are not kept away. As with the load balancer of a cloud, whose health check it has to pass
// first, a node that is new gets requests when it has answered one.
func (l *load) look(ctx context.Context) error {
	list, err := l.w.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var nodes []string
	known := l.takers()
	for _, n := range list.Items {
		if _, out := n.Labels[labels.NoLoadBalancer]; out || readySince(&n).IsZero() {
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

func (l *load) takers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.nodes)
}

// send asks the application again and again, each time over a connection of its own.
func (l *load) send(ctx context.Context) {
	tick := time.NewTicker(requestPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.done.Go(func() {
			err, node := errors.New("no node takes requests"), ""
			if nodes := l.takers(); len(nodes) > 0 {
				node = nodes[rand.IntN(len(nodes))]
				err = ask(context.WithoutCancel(ctx), node)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sent++
			if err != nil {
				l.failed = append(l.failed, fmt.Sprintf("at %s, node %s: %v", time.Since(l.begun).Round(time.Millisecond), node, err))
			}
		})
	}
}

// ask sends one request to the application at a node.
func ask(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(node, shopPort)+"/hostname", nil)
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

// rest ends the load, and judges what became of it since the time at which something began.
// No request may have failed, nothing that was written may be lost, and writes may have
// had no longer gap than the one given.
func (l *load) rest(what string, since time.Time, gap time.Duration) {
	l.w.Helper()
	l.stop()
	l.api.stop()
	out := l.w.judge(l.api, since)
	l.w.figures["requests of the application, "+what], l.w.figures["requests of the application that failed, "+what] = float64(l.sent), float64(len(l.failed))
	l.w.figures.seconds("longest time without a write, "+what, out.gap)
	if len(l.failed) > 0 {
		l.w.Errorf("%d of %d requests of the application failed:\n%s", len(l.failed), l.sent, strings.Join(l.failed[:min(20, len(l.failed))], "\n"))
	}
	if out.failed > 0 || out.gap > gap {
		l.w.Errorf("%d writes failed for good, and the longest time without one was %s", out.failed, out.gap)
	}
}
