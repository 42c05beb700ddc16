package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Seen is what an API server shows.
type Seen struct {
	// Server is its URL.
	Server string
	// Problem says why it cannot be asked; the rest is then empty.
	Problem *Failure
	// Unready are its own checks that fail.
	Unready []string
	Nodes   []corev1.Node
	// Serving are the addresses at which API servers serve, by the Service kubernetes; empty when that is not known.
	Serving []netip.Addr
	// Pods are the pods of kube-system, and the critical ones of other namespaces.
	Pods []corev1.Pod
}

// API asks the API server of a cluster. It is safe for concurrent use.
type API struct {
	client *rest.RESTClient
	http   *http.Client
	server string
	lookUp func(ctx context.Context, host string) ([]string, error)
}

// requestTime bounds one request, so that a server that accepts and says nothing is noticed.
const requestTime = 20 * time.Second

// pageSize is how many objects one answer holds at most.
const pageSize = 500

// Open returns a client for the server of a config; it makes no request. It knows
// only the kinds of objects of the core group, which keeps the
// program small.
func Open(c *rest.Config) (*API, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the Kubernetes types: %w", err)
	}
	c = rest.CopyConfig(c)
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes, c.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/json"
	c.Timeout, c.QPS, c.UserAgent, c.WarningHandler = requestTime, -1, "kops", rest.NoWarnings{}
	plain, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("use the credentials for the API: %w", err)
	}
	client, err := rest.RESTClientForConfigAndClient(c, plain)
	if err != nil {
		return nil, fmt.Errorf("use the address %s of the API: %w", c.Host, err)
	}
	return &API{client: client, http: plain, server: c.Host, lookUp: net.DefaultResolver.LookupHost}, nil
}

// Counts reports whether a pod is among those that Seen has.
func Counts(p *corev1.Pod) bool { return p.Namespace == metav1.NamespaceSystem || critical(p) }

// Server reports the health of the API server itself, without nodes and pods. The
// error is ctx's.
func (a *API) Server(ctx context.Context) (Seen, error) {
	unready, err := a.unready(ctx)
	if err != nil {
		return Seen{Server: a.server, Problem: problem(a.server, err)}, ctx.Err()
	}
	return Seen{Server: a.server, Unready: unready}, ctx.Err()
}

// Look asks for everything that Check needs, once. Any obstacle is in the
// result. The error is ctx's.
func (a *API) Look(ctx context.Context) (s Seen, err error) {
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
		s = Seen{Server: a.server, Problem: problem(a.server, err)}
	}
	return s, ctx.Err()
}

// placeholders are the addresses that names have until the control plane
// publishes its own.
func placeholders() []string { return []string{"203.0.113.123", "fd00:dead:add::"} }

// placeholder reports a name whose address is not the API's yet. A name that has
// none fails later, when the API is asked.
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

// unready lists the server's own checks that fail. The server says so with the
// status of an error, so that its answer is read here and not by the client.
func (a *API) unready(ctx context.Context) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.client.Get().AbsPath("/readyz").Param("verbose", "").URL().String(), nil)
	if err != nil {
		return nil, fmt.Errorf("check whether the API is ready: %w", err)
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("check whether the API is ready: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("check whether the API is ready: %w", err)
	}
	var out []string
	for l := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(l, "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			out = append(out, name)
		}
	}
	if len(out) == 0 && answer.StatusCode != http.StatusOK {
		return nil, apierrors.NewGenericServerResponse(answer.StatusCode, "get", schema.GroupResource{}, "", line(string(body)), 0, true)
	}
	return out, nil
}

// Nodes lists the nodes.
func (a *API) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var out []corev1.Node
	for next := ""; ; {
		var list corev1.NodeList
		if err := a.page("nodes", next).Do(ctx).Into(&list); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		out = append(out, list.Items...)
		if next = list.Continue; next == "" {
			return out, nil
		}
	}
}

func (a *API) pods(ctx context.Context) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for next := ""; ; {
		var list corev1.PodList
		if err := a.page("pods", next).Do(ctx).Into(&list); err != nil {
			return nil, fmt.Errorf("list the pods: %w", err)
		}
		for _, p := range list.Items {
			if Counts(&p) {
				out = append(out, p)
			}
		}
		if next = list.Continue; next == "" {
			return out, nil
		}
	}
}

// serving lists the addresses at which API servers serve; none if the user may not read them.
func (a *API) serving(ctx context.Context) (out []netip.Addr) {
	text, err := a.client.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices").
		Param("labelSelector", "kubernetes.io/service-name=kubernetes").SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil
	}
	var list struct {
		Items []struct {
			Endpoints []struct{ Addresses []string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
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

// page asks for some objects, after those that were had.
func (a *API) page(resource, next string) *rest.Request {
	r := a.client.Get().Resource(resource).Param("limit", fmt.Sprint(pageSize))
	if next != "" {
		r = r.Param("continue", next)
	}
	return r
}

// Log returns the last lines that a container wrote, of its previous life when
// that is asked for.
func (a *API) Log(ctx context.Context, namespace, pod, container string, lines int, previous bool) ([]string, error) {
	text, err := a.client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		Param("container", container).Param("tailLines", fmt.Sprint(lines)).Param("previous", fmt.Sprint(previous)).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%s: %w", namespace, pod, err)
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n"), nil
}
