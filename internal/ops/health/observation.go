package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/kubeclient"
)

// Observation is what an API server reports.
type Observation struct {
	// Server is its URL.
	Server string
	// Problem says why it cannot be queried; the other fields are then empty.
	Problem *Failure
	// Unready lists its own checks that fail.
	Unready []string
	Nodes   []corev1.Node
	// Serving are the addresses at which API servers serve, from the Service kubernetes; empty if
	// they are not known.
	Serving []netip.Addr
	// Pods are the pods of kube-system, and the critical ones of other namespaces.
	Pods []corev1.Pod
}

// API queries the API server of a cluster. It is safe for concurrent use.
type API struct {
	client *kubeclient.Client
	server string
	dns    api.DNSType
	lookUp func(ctx context.Context, host string) ([]string, error)
}

// requestTime limits one request, so that a server that accepts connections but does not respond is
// noticed.
const requestTime = 20 * time.Second

// Open returns a client for the server of a config, which has a name in a zone unless the cluster has
// none. It sends no request.
func Open(c *rest.Config, dns api.DNSType) (*API, error) {
	c = rest.CopyConfig(c)
	c.Timeout = requestTime
	client, err := kubeclient.New(c)
	return &API{client: client, server: c.Host, dns: dns, lookUp: net.DefaultResolver.LookupHost}, err
}

// IsObserved reports whether an Observation includes a pod.
func IsObserved(p *corev1.Pod) bool { return p.Namespace == metav1.NamespaceSystem || critical(p) }

// Server reports the health of the API server itself, without nodes and pods. The
// error is ctx's.
func (a *API) Server(ctx context.Context) (Observation, error) {
	unready, err := a.unready(ctx)
	if err != nil {
		return Observation{Server: a.server, Problem: problem(a.server, a.dns, err)}, ctx.Err()
	}
	return Observation{Server: a.server, Unready: unready}, ctx.Err()
}

// Observe queries everything that Check needs, once. Any obstacle is in the result. The error is
// ctx's.
func (a *API) Observe(ctx context.Context) (s Observation, err error) {
	s.Server = a.server
	if s.Problem = a.placeholder(ctx); s.Problem != nil {
		return s, ctx.Err()
	}
	s.Unready, err = a.unready(ctx)
	if err == nil {
		var g errgroup.Group
		g.Go(func() (err error) { s.Nodes, err = a.Nodes(ctx); return err })
		g.Go(func() (err error) { s.Pods, err = a.pods(ctx); return err })
		g.Go(func() error { s.Serving = a.serving(ctx); return nil })
		err = g.Wait()
	}
	if err != nil {
		s = Observation{Server: a.server, Problem: problem(a.server, a.dns, err)}
	}
	return s, ctx.Err()
}

// placeholders returns the addresses to which names resolve until the control plane publishes its
// own.
func placeholders() []string { return []string{"203.0.113.123", "fd00:dead:add::"} }

// placeholder reports a name that does not resolve to the API's address yet. A name without an
// address fails later, when the API is queried.
func (a *API) placeholder(ctx context.Context) *Failure {
	u, err := url.Parse(a.server)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return nil
	}
	addresses, err := a.lookUp(ctx, u.Hostname())
	if err != nil || !slices.ContainsFunc(addresses, func(x string) bool { return slices.Contains(placeholders(), x) }) {
		return nil
	}
	return &Failure{Kind: KindDNS, Name: "apiserver",
		Message: fmt.Sprintf("the name %s still has the placeholder address %s, which the control plane replaces when it is up", u.Hostname(), strings.Join(addresses, ", ")),
		Remedy:  "wait some minutes (option:Wait 10m); if it stays, check the control plane's machines: kops doctor"}
}

// unready lists the server's own checks that fail.
func (a *API) unready(ctx context.Context) ([]string, error) {
	text, status, err := a.client.Text(ctx, "/readyz", "verbose")
	if err != nil {
		return nil, fmt.Errorf("check whether the API is ready: %w", err)
	}
	var out []string
	for l := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(l, "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			out = append(out, name)
		}
	}
	if len(out) == 0 && status != http.StatusOK {
		return nil, apierrors.NewGenericServerResponse(status, "get", schema.GroupResource{}, "", lastLine(text), 0, true)
	}
	return out, nil
}

// Nodes lists the nodes.
func (a *API) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var out []corev1.Node
	for page, err := range a.client.Nodes().Pages(ctx, metav1.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		out = append(out, page.Items...)
	}
	return out, nil
}

// pods lists the pods that count.
func (a *API) pods(ctx context.Context) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for page, err := range a.client.Pods("").Pages(ctx, metav1.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the pods: %w", err)
		}
		for _, p := range page.Items {
			if IsObserved(&p) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// serving lists the addresses at which API servers serve; it is empty if the user may not read
// them.
func (a *API) serving(ctx context.Context) (out []netip.Addr) {
	list, err := a.client.EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			for _, address := range e.Addresses {
				if ip, err := netip.ParseAddr(address); err == nil {
					out = append(out, ip)
				}
			}
		}
	}
	return out
}

// Log returns the last lines that a container wrote, or that its previous instance wrote.
func (a *API) Log(ctx context.Context, namespace, pod, container string, lines int, previous bool) ([]string, error) {
	tail := int64(lines)
	text, err := a.client.Logs(namespace, pod, &corev1.PodLogOptions{Container: container, TailLines: &tail, Previous: previous}).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%s: %w", namespace, pod, err)
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n"), nil
}
