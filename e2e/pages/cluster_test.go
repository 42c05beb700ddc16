package pages

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/store"
)

// machine is an instance in a cloud.
type machine struct {
	name, group, provider string // provider is its identifier in Kubernetes; group may be unknown
	controlPlane          bool
}

// cluster stands in for the contents of a cluster: a real API server, in which each instance of the
// cloud is a ready node. No kubelet and no controller runs.
type cluster struct {
	testing.TB
	name     string
	state    store.Store // of the cluster's objects and keys
	machines func(context.Context) ([]machine, error)
	admin    *rest.Config // of the API server, whose keys are not the cluster's
	client   kubernetes.Interface
}

// serve starts a server at the cluster's own address, and returns the address: it presents a
// certificate of the cluster's authority and requests one. It simulates nodes until the test ends.
func (c *cluster) serve() string {
	c.Helper()
	transport, err := rest.TransportFor(c.admin)
	if err != nil {
		c.Fatal(err)
	}
	c.client = kubernetes.NewForConfigOrDie(c.admin)
	at, err := url.Parse(c.admin.Host)
	if err != nil {
		c.Fatal(err)
	}
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at); r.Out.Header.Del("Authorization") }, Transport: transport, FlushInterval: -1, ErrorLog: discardLogger(),
	})
	front.TLS = &tls.Config{NextProtos: []string{"http/1.1"}, GetConfigForClient: c.identity}
	front.Config.ErrorLog = discardLogger()
	front.StartTLS()
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			c.simulate(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(700 * time.Millisecond):
			}
		}
	}()
	c.Cleanup(func() { stop(); <-stopped; c.empty(); front.CloseClientConnections(); front.Close() })
	return front.Listener.Addr().String()
}

// identity returns the API server's certificate and trusted authorities, from the keys currently in
// the state store.
func (c *cluster) identity(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	data, _, err := c.state.Get(hello.Context(), c.name+"/pki/private/kubernetes-ca/keyset.yaml")
	if err != nil {
		return nil, err
	}
	o, _, err := compat.DecodeOne[*api.Keyset](data, compat.Options{Lenient: true})
	if err != nil {
		return nil, err
	}
	o.Name = pki.KubernetesCA
	ca, err := pki.FromAPI(o)
	if err != nil {
		return nil, err
	}
	out, err := serverConfig(ca, "kubernetes-master", hello.ServerName, "api.internal."+c.name)
	if err != nil {
		return nil, err
	}
	out.ClientCAs, out.ClientAuth = newCertPool(ca), tls.RequireAndVerifyClientCert
	return out, nil
}

// serverConfig returns a configuration with a new certificate of an authority.
func serverConfig(ca *pki.Keyset, names ...string) (*tls.Config, error) {
	pair, err := pki.Issuer{Rand: rand.Reader, Now: time.Now}.Issue(pki.Request{Usage: pki.Server, CommonName: names[0], Names: names}, ca)
	if err != nil {
		return nil, err
	}
	key, err := pair.Key.PEM()
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}, err
}

// simulate simulates kubelets and controllers: nodes are added and removed with their machines, and
// deleted pods terminate. Failures, as when a page begins, are retried.
func (c *cluster) simulate(ctx context.Context) {
	machines, err := c.machines(ctx)
	if err != nil {
		return
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	gone := map[string]bool{}
	for _, n := range nodes.Items {
		gone[n.Name] = true
		c.apply(ctx, &n)
	}
	for _, m := range machines {
		if !gone[m.name] {
			c.join(ctx, m)
		}
		delete(gone, m.name)
	}
	for name := range gone {
		_ = c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	}
	c.endPods(ctx, gone)
	c.deploy(ctx)
}

// join creates a machine's node.
func (c *cluster) join(ctx context.Context, m machine) {
	role := labels.Node
	if m.controlPlane {
		role = labels.ControlPlane
	}
	version := "v" + c.version(ctx)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{role: "", api.LabelInstanceGroup: m.group, corev1.LabelHostname: m.name}},
		Spec:       corev1.NodeSpec{ProviderID: m.provider},
	}
	if text, _, err := c.state.Get(ctx, c.name+"/"+layout.NodeConfig(string(m.role()), m.group)); err == nil {
		node.Annotations = map[string]string{labels.NodeConfig: labels.Write(labels.Running{Hash: nodeconfig.Hash(text)})}
	}
	n, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return
	}
	now := metav1.Now()
	n.Status = corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}},
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: version, KubeProxyVersion: version, OperatingSystem: "linux", Architecture: "amd64"},
	}
	_, _ = c.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	if !m.controlPlane {
		return
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-manager-main", "etcd-manager-events"} {
		c.run(ctx, component, m.name)
	}
}

// role returns the role of the machine's group.
func (m machine) role() api.InstanceGroupRole {
	if m.controlPlane {
		return api.RoleControlPlane
	}
	return api.RoleNode
}

// apply makes a machine immediately apply a requested in-place change.
func (c *cluster) apply(ctx context.Context, n *corev1.Node) {
	want, asked, _ := labels.Read[labels.Apply](n.Annotations, labels.ApplyConfig)
	have, _, _ := labels.Read[labels.Applied](n.Annotations, labels.ApplyResult)
	if !asked || have.Nonce == want.Nonce {
		return
	}
	n.Annotations[labels.NodeConfig] = labels.Write(labels.Running{Hash: want.Hash})
	n.Annotations[labels.ApplyResult] = labels.Write(labels.Applied{Nonce: want.Nonce, Done: true})
	_, _ = c.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
}

// run simulates a component of the control plane on a node.
func (c *cluster) run(ctx context.Context, component, node string) {
	pods := c.client.CoreV1().Pods(metav1.NamespaceSystem)
	p, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: component + "-" + node, Labels: map[string]string{"k8s-app": component}, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: component, Image: component}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: component, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	_, _ = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
}

// endPods removes deleted pods, and pods whose node no longer exists.
func (c *cluster) endPods(ctx context.Context, gone map[string]bool) {
	all, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	now := int64(0)
	for _, p := range all.Items {
		if p.DeletionTimestamp != nil || gone[p.Spec.NodeName] {
			_ = c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
	}
}

// deploy makes every Deployment available.
func (c *cluster) deploy(ctx context.Context) {
	all, err := c.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, d := range all.Items {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status.ObservedGeneration, d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas = d.Generation, 1, 1, 1, 1
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"}}
		_, _ = c.client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{})
	}
}

var versionOf = regexp.MustCompile(`(?m)^  kubernetesVersion: v?(\S+)`)

// version returns the version in the cluster's spec.
func (c *cluster) version(ctx context.Context) string {
	data, _, err := c.state.Get(ctx, c.name+"/config")
	if err != nil {
		return "0.0.0"
	}
	return string(bytes.Trim(versionOf.FindSubmatch(data)[1], `"'`))
}

// empty removes the objects that a page has left in the API server.
func (c *cluster) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	now := int64(0)
	all, some := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: &now}
	for _, err := range []error{
		c.client.CoreV1().Nodes().DeleteCollection(ctx, some, all),
		c.client.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, some, all),
		c.client.AppsV1().Deployments(metav1.NamespaceDefault).DeleteCollection(ctx, some, all),
		c.deleteServices(ctx),
	} {
		if err != nil {
			c.Errorf("empty the API server: %v", err)
		}
	}
}

// deleteServices removes the Services of the namespace default, except the API's.
func (c *cluster) deleteServices(ctx context.Context) error {
	services := c.client.CoreV1().Services(metav1.NamespaceDefault)
	all, err := services.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=kubernetes"})
	if err != nil {
		return err
	}
	for _, s := range all.Items {
		err = errors.Join(err, services.Delete(ctx, s.Name, metav1.DeleteOptions{}))
	}
	return err
}
