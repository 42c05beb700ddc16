// Package kubeclient reads and changes the objects of a cluster, as typed values.
//
// It does what k8s.io/client-go/kubernetes does, for the few kinds that kops needs. That package
// contains the types of every Kubernetes API, and each program that imports it registers all of
// them when it starts. Here they are registered when a client is created.
package kubeclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// Client sends requests to one API server. It is safe for concurrent use. Create one with New.
type Client struct {
	rest       *rest.RESTClient
	parameters runtime.ParameterCodec
}

// New returns a client for the server of a config. It sends no request. The client limits the rate
// of requests only if the config has a limit, and ignores the warnings of the server.
func New(config *rest.Config) (*Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("register the Kubernetes types: %w", err)
	}
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.QPS, c.UserAgent, c.WarningHandler = cmp.Or(c.QPS, -1), "kops", rest.NoWarnings{}
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("use the address %s of the API: %w", c.Host, err)
	}
	return &Client{client, runtime.NewParameterCodec(scheme)}, nil
}

// newScheme returns the types of the API groups that a Client knows. The core group comes first:
// its version is used for options, which every group has.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	groups := runtime.NewSchemeBuilder(corev1.AddToScheme, admissionv1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme,
		coordinationv1.AddToScheme, discoveryv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme)
	return scheme, groups.AddToScheme(scheme)
}

// pathTime is the timeout of a request from Path.
const pathTime = 30 * time.Second

// Path returns a GET request for a path, such as /readyz, that is not a Resource's.
func (c *Client) Path(path string) *rest.Request { return c.rest.Get().AbsPath(path).Timeout(pathTime) }

// Text sends a GET request for a path such as /readyz?verbose, and returns the first megabyte of the
// response's text and its status. A status of failure is not an error.
func (c *Client) Text(ctx context.Context, path, query string) (text string, status int, err error) {
	at := c.rest.Get().AbsPath(path).URL()
	at.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", 0, err
	}
	answer, err := c.rest.Client.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return string(body), answer.StatusCode, err
}

// ServerVersion returns the version of the API server.
func (c *Client) ServerVersion(ctx context.Context) (v version.Info, err error) {
	text, err := c.Path("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}

// Evict requests the eviction of a pod, which the API server refuses while a disruption budget
// forbids it.
func (c *Client) Evict(ctx context.Context, e *policyv1.Eviction) error {
	return c.rest.Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").Body(e).Do(ctx).Error()
}

// Logs returns a request for the log of a container.
func (c *Client) Logs(namespace, pod string, o *corev1.PodLogOptions) *rest.Request {
	return c.rest.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").VersionedParams(o, c.parameters)
}

// CloseIdleConnections makes the next request open a new connection, which may reach another server
// behind the same address.
func (c *Client) CloseIdleConnections() {
	if c.rest.Client != nil {
		utilnet.CloseIdleConnectionsFor(c.rest.Client.Transport)
	}
}
