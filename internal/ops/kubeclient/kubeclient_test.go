package kubeclient_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/test/kubetest"
)

// server is an API server, with the client under test and the clientset of Kubernetes.
type server struct {
	*testing.T
	*kubeclient.Client
	all kubernetes.Interface
}

func TestClient(t *testing.T) {
	config := kubetest.Start(t)
	all, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*server){"objects": objects, "evictions": evictions, "metadata": metadata, "resources": resources} {
		t.Run(name, func(t *testing.T) { test(&server{t, c, all}) })
	}
}

func (s *server) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// objects reads, watches, changes and deletes nodes.
func objects(s *server) {
	for _, name := range []string{"a", "b", "c"} {
		_, err := s.all.CoreV1().Nodes().Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}, metav1.CreateOptions{})
		s.must(err)
	}
	page, err := s.Nodes().List(s.Context(), metav1.ListOptions{Limit: 2})
	s.must(err)
	rest, err := s.Nodes().List(s.Context(), metav1.ListOptions{Limit: 2, Continue: page.Continue})
	s.must(err)
	if len(page.Items) != 2 || len(rest.Items) != 1 || rest.Items[0].Name != "c" {
		s.Errorf("the pages have %d and %d nodes", len(page.Items), len(rest.Items))
	}
	if some, err := s.Nodes().List(s.Context(), metav1.ListOptions{LabelSelector: "name=b"}); err != nil || len(some.Items) != 1 || some.Items[0].Name != "b" {
		s.Errorf("by the label of b: %v, %v", some.Items, err)
	}

	w, err := s.Nodes().Watch(s.Context(), metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	s.must(err)
	defer w.Stop()
	n, err := s.Nodes().Get(s.Context(), "a", metav1.GetOptions{})
	s.must(err)
	old := n.DeepCopy()
	n.Spec.Unschedulable = true
	if n, err = s.Nodes().Update(s.Context(), n, metav1.UpdateOptions{FieldManager: "test"}); err != nil || !n.Spec.Unschedulable || n.ManagedFields[len(n.ManagedFields)-1].Manager != "test" {
		s.Errorf("updated: %+v, %v", n, err)
	}
	if _, err := s.Nodes().Update(s.Context(), old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		s.Errorf("the update of an old version: %v", err)
	}
	if n, err = s.Nodes().Patch(s.Context(), "a", types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{}); err != nil || n.Spec.Unschedulable {
		s.Errorf("patched: %+v, %v", n, err)
	}
	err = s.Nodes().Delete(s.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
	if !apierrors.IsConflict(err) {
		s.Errorf("the delete of a node of another UID: %v", err)
	}
	s.must(s.Nodes().Delete(s.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))}))
	if _, err := s.Nodes().Get(s.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("get what is deleted: %v", err)
	}
	for _, want := range []watch.EventType{watch.Modified, watch.Modified, watch.Deleted} {
		e := <-w.ResultChan()
		if n, ok := e.Object.(*corev1.Node); e.Type != want || !ok || n.Name != "a" {
			s.Errorf("the watch has %s of %T, want %s", e.Type, e.Object, want)
		}
	}
}

func evictions(s *server) {
	pod := func(name string) {
		_, err := s.all.CoreV1().Pods("default").Create(s.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}, metav1.CreateOptions{})
		s.must(err)
		_, err = s.all.CoreV1().Pods("default").Patch(s.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		s.must(err)
	}
	evict := func(name string) error {
		return s.Evict(s.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	}
	pod("free")
	pod("kept")
	budgets := s.all.PolicyV1().PodDisruptionBudgets("default")
	b, err := budgets.Create(s.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "kept"}}}}, metav1.CreateOptions{})
	s.must(err)
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	_, err = budgets.UpdateStatus(s.Context(), b, metav1.UpdateOptions{})
	s.must(err)
	s.must(evict("free"))
	if err := evict("kept"); !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		s.Errorf("against its budget: %v", err)
	}
	pods, err := s.Pods("").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	if len(pods.Items) != 1 || pods.Items[0].Name != "kept" {
		s.Errorf("there are %+v", pods.Items)
	}
	if _, err := s.Logs("default", "kept", &corev1.PodLogOptions{Container: "none"}).Stream(s.Context()); err == nil || !strings.Contains(err.Error(), "container none is not valid for pod kept") {
		s.Errorf("the log of a container that does not exist: %v", err)
	}
}

func metadata(s *server) {
	_, err := s.all.CoreV1().ConfigMaps("default").Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	s.must(err)
	r := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	list, err := s.Metadata(r, "").List(s.Context(), metav1.ListOptions{FieldSelector: "metadata.name=m"})
	s.must(err)
	if len(list.Items) != 1 || list.Items[0].Namespace != "default" || list.ResourceVersion == "" {
		s.Errorf("there is %+v", list)
	}
	o, err := s.Metadata(r, "default").Patch(s.Context(), "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil || o.Labels["a"] != "b" {
		s.Errorf("patched: %+v, %v", o, err)
	}
}

// resources compares the discovered resources with those that client-go discovers.
func resources(s *server) {
	found, err := s.Resources(s.Context())
	s.must(err)
	_, all, err := s.all.Discovery().ServerGroupsAndResources()
	s.must(err)
	preferred, err := discovery.ServerPreferredResources(s.all.Discovery())
	s.must(err)
	names := func(lists []*metav1.APIResourceList, once bool) (out []string) {
		seen := map[string]bool{}
		for _, l := range lists {
			group, _, _ := strings.Cut("/"+l.GroupVersion, "/v")
			for _, r := range l.APIResources {
				if key := group + "/" + r.Name; !once || !seen[key] && !strings.Contains(r.Name, "/") {
					seen[key] = true
					out = append(out, l.GroupVersion+" "+r.Name+" "+r.Verbs.String())
				}
			}
		}
		slices.Sort(out)
		return out
	}
	if got, want := names(found, false), names(all, false); !slices.Equal(got, want) {
		s.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := names(found, true), names(preferred, false); !slices.Equal(got, want) {
		s.Errorf("first are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if v, err := s.ServerVersion(s.Context()); err != nil || v.Major != "1" {
		s.Errorf("the version is %+v, %v", v, err)
	}
}

// TestForms checks the response formats that a client requests, and others that it can read.
func TestForms(t *testing.T) {
	var accepted []string
	answers := map[string]string{
		"/apis/example.com/v1/widgets": `{"apiVersion":"example.com/v1","kind":"WidgetList","items":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":1}]}`,
		"/api/v1/nodes":                `{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n"}}]}`,
		"/apis": `{"apiVersion":"v1","kind":"APIGroupList","groups":[{"name":"gone.example.com","versions":[{"groupVersion":"gone.example.com/v1","version":"v1"}],
			"preferredVersion":{"groupVersion":"gone.example.com/v1","version":"v1"}}]}`,
		"/api/v1": `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","verbs":["list"]}]}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted = append(accepted, r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "application/json")
		if answers[r.URL.Path] == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer api.Close()
	c, err := kubeclient.New(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	widgets, err := c.Metadata(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(widgets.Items) != 1 || widgets.Items[0].Name != "w" {
		t.Errorf("from a server that answers with whole objects: %+v, %v", widgets, err)
	}
	nodes, err := c.Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "n" {
		t.Errorf("from a server without protobuf: %+v, %v", nodes, err)
	}
	want := []string{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		"application/vnd.kubernetes.protobuf,application/json"}
	if !slices.Equal(accepted, want) {
		t.Errorf("it accepts\n%s", strings.Join(accepted, "\n"))
	}
	if found, err := c.Resources(t.Context()); err != nil || len(found) != 1 || found[0].GroupVersion != "v1" {
		t.Errorf("while one server does not answer: %+v, %v", found, err)
	}
	api.Close()
	if _, err := c.Resources(t.Context()); err == nil {
		t.Error("it finds resources without a server")
	}
}
