package rotate_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/rotate"
	"kops.local/kops/internal/test/kubetest"
)

func TestStepsAreDoneInTheirOrder(t *testing.T) {
	for what, want := range map[string]string{
		rotate.CA:             "make trust pods promote reissue distrust forget backup done",
		rotate.Etcd:           "make trust promote reissue distrust forget backup done",
		rotate.ServiceAccount: "make trust promote reissue tokens distrust forget backup done",
		rotate.Encryption:     "make trust promote reissue rewrite distrust forget backup done",
		rotate.All:            "make trust pods promote reissue tokens rewrite distrust forget backup done",
	} {
		s := rotate.State{What: what, Step: rotate.Make}
		if what == rotate.Encryption || what == rotate.All {
			s.Key = "key"
		}
		got := []string{string(s.Step)}
		for n := 1; s.Step != rotate.Done && n < 20; n++ {
			s = s.Next(time.Unix(int64(n), 0))
			got = append(got, string(s.Step))
		}
		if strings.Join(got, " ") != want || s.Ended.IsZero() {
			t.Errorf("%s: %v, ended %v", what, got, s.Ended)
		}
	}
}

func TestKeysetsOfEachKind(t *testing.T) {
	there := []string{"kubernetes-ca", "service-account", "etcd-peers-ca-main", "apiserver-aggregator-ca", "etcd-clients-ca", "kubelet", "ca"}
	for what, want := range map[string]string{
		rotate.CA: "apiserver-aggregator-ca kubernetes-ca", rotate.Etcd: "etcd-clients-ca etcd-peers-ca-main", rotate.ServiceAccount: "service-account",
		rotate.Encryption: "", rotate.All: "apiserver-aggregator-ca etcd-clients-ca etcd-peers-ca-main kubernetes-ca service-account",
	} {
		if got := strings.Join(rotate.Keysets(what, there), " "); got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestPodsThatAreRestarted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	yes := true
	pod := func(name string, age time.Duration, owner string, change ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}
		if kind, of, ok := strings.Cut(owner, "/"); ok {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: of, Controller: &yes}}
		}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	sets := []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web-1", OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: &yes}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lone"}}}
	owners, left := rotate.Restarts([]corev1.Pod{
		pod("web-1-x", time.Hour, "ReplicaSet/web-1"), pod("web-1-y", time.Hour, "ReplicaSet/web-1"), pod("db-0", time.Hour, "StatefulSet/db"),
		pod("net", time.Hour, "DaemonSet/net"), pod("young", -time.Minute, "DaemonSet/young"), pod("bare", time.Hour, ""), pod("once", time.Hour, "Job/once"),
		pod("lone-x", time.Hour, "ReplicaSet/lone"),
		pod("static", time.Hour, "Node/n", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("no-token", time.Hour, "DaemonSet/quiet", func(p *corev1.Pod) { p.Spec.Volumes = nil }),
		pod("at-once", 0, "DaemonSet/at-once", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kops.k8s.io/keys": now.UTC().Format(time.RFC3339)}
		}), // its creation time is in whole seconds
		pod("ended", time.Hour, "Job/ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	}, sets, now)
	if got := fmt.Sprint(owners); got != "[daemonset/net in a deployment/web in a statefulset/db in a]" {
		t.Errorf("started anew: %s", got)
	}
	if got := strings.Join(left, " "); got != "a/bare a/lone-x a/once" {
		t.Errorf("left: %s", got)
	}
}

// Pods that are only replaced when deleted are evicted, one at a time while all others are ready.
func TestPodsThatWaitToBeDeleted(t *testing.T) {
	config := kubetest.Start(t)
	c := &cluster{t, newClientset(t, config)}
	c.daemonSet("net", 3)
	ready := map[string]corev1.ConditionStatus{"1": corev1.ConditionTrue, "2": corev1.ConditionFalse, "3": corev1.ConditionTrue}
	for node, status := range ready {
		c.pod(node, status, nil)
	}
	time.Sleep(1100 * time.Millisecond) // creation times of pods are in whole seconds
	before := time.Now()
	made := map[string]string{"kops.k8s.io/keys": before.UTC().Format(time.RFC3339)}

	var evicted []string
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if path, eviction := strings.CutSuffix(r.URL.Path, "/eviction"); eviction {
				evicted = append(evicted, path[strings.LastIndex(path, "/")+1:])
			}
			return next.RoundTrip(r)
		})
	})
	client := newClient(t, config)
	owner := rotate.Owner{Kind: "DaemonSet", Namespace: "default", Name: "net"}
	if waits, err := rotate.Restart(t.Context(), client, owner, before); err != nil || !waits {
		t.Fatalf("it waits to be deleted: %v, %v", waits, err)
	}
	looks := 0
	sleep := func(context.Context, time.Duration) error { // plays the DaemonSet's controller, which needs two rounds for each pod
		if looks++; looks%3 == 1 && len(evicted) != looks/3+1 {
			t.Errorf("after %d looks %v were evicted", looks, evicted)
		}
		last := strings.TrimPrefix(evicted[len(evicted)-1], "net-")
		switch looks % 3 {
		case 2:
			c.pod(last, corev1.ConditionFalse, made)
		case 0:
			c.status("net-"+last, corev1.ConditionTrue)
		}
		return nil
	}
	owners := []rotate.Owner{owner}
	if err := rotate.Wait(t.Context(), client, owners, owners, before, time.Hour, time.Now, sleep); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(evicted, " "); got != "net-2 net-1 net-3" { // the pod that is not ready goes first
		t.Errorf("evicted: %s", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cluster is an API server without controllers, which the test plays.
type cluster struct {
	*testing.T
	kubernetes.Interface
}

// daemonSet creates a DaemonSet that only replaces pods that are deleted.
func (c *cluster) daemonSet(name string, scheduled int32) {
	c.Helper()
	label := map[string]string{"app": name}
	sets := c.AppsV1().DaemonSets("default")
	d, err := sets.Create(c.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}, Selector: &metav1.LabelSelector{MatchLabels: label},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: label}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	d.Status.DesiredNumberScheduled = scheduled
	if _, err := sets.UpdateStatus(c.Context(), d, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// pod creates a pod of the DaemonSet net with a service account token. It is on no node, so that an
// eviction deletes it immediately.
func (c *cluster) pod(node string, ready corev1.ConditionStatus, annotations map[string]string) {
	c.Helper()
	yes := true
	_, err := c.CoreV1().Pods("default").Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "net-" + node, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "net", UID: "1", Controller: &yes}}},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}, Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.status("net-"+node, ready)
}

func (c *cluster) status(pod string, ready corev1.ConditionStatus) {
	c.Helper()
	pods := c.CoreV1().Pods("default")
	p, err := pods.Get(c.Context(), pod, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if _, err := pods.UpdateStatus(c.Context(), p, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func newClientset(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newClient(t *testing.T, c *rest.Config) *kubeclient.Client {
	t.Helper()
	out, err := kubeclient.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// After a restore everything is rewritten: the old key encrypted the restored objects.
func TestARotationIsRewound(t *testing.T) {
	for _, x := range []struct {
		step      rotate.Step
		key       string
		rewritten []string
		changed   bool
	}{
		{rotate.Rewrite, "k", []string{"secrets"}, true}, {rotate.Distrust, "k", []string{"secrets"}, true},
		{rotate.Rewrite, "k", nil, false}, {rotate.Promote, "k", nil, false}, {rotate.Forget, "k", []string{"secrets"}, false}, {rotate.Distrust, "", nil, false},
	} {
		s, changed := rotate.State{What: rotate.All, Step: x.step, Key: x.key, Rewritten: x.rewritten}.Rewind()
		if changed != x.changed || changed && (s.Step != rotate.Rewrite || len(s.Rewritten) > 0) || !changed && s.Step != x.step {
			t.Errorf("%+v: %+v, %t", x, s, changed)
		}
	}
}

func TestResourcesOfAConfiguration(t *testing.T) {
	verbs := metav1.Verbs{"list", "patch"}
	served := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Verbs: verbs}, {Name: "pods", Verbs: verbs}, {Name: "pods/log", Verbs: verbs}, {Name: "bindings", Verbs: metav1.Verbs{"create"}}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Verbs: verbs}}},
		{GroupVersion: "apps/v1beta1", APIResources: []metav1.APIResource{{Name: "deployments", Verbs: verbs}}}, // not preferred
	}
	for names, want := range map[string]string{
		"secrets": "secrets", "secrets deployments.apps": "deployments.apps secrets", "*.": "pods secrets", "*.apps": "deployments.apps", "*.*": "deployments.apps pods secrets",
		"*.none": "", "widgets.example.com": "!the API server serves no resource widgets.example.com",
	} {
		got, err := rotate.Resources(served, strings.Fields(names))
		var text []string
		for _, r := range got {
			text = append(text, r.GroupResource().String())
			if r.Version != "v1" {
				t.Errorf("%s: %s is in a version that the server does not prefer", names, r)
			}
		}
		slices.Sort(text)
		switch want, refused := strings.CutPrefix(want, "!"); {
		case refused && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", names, err)
		case !refused && (err != nil || strings.Join(text, " ") != want):
			t.Errorf("%s: %v, %v", names, text, err)
		}
	}
}

// Once rewritten, objects can be read with the new key alone.
func TestWhatIsStoredIsWrittenWithTheKeyThatWrites(t *testing.T) {
	const key1, key2 = "{name: one, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}", "{name: two, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=}"
	etcd := kubetest.Etcd(t)
	server := func(name, keys string) *rest.Config {
		file := filepath.Join(t.TempDir(), name+".yaml")
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{secretbox: {keys: [" + keys + "]}}]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := rest.CopyConfig(kubetest.Serve(t, "--etcd-servers="+etcd, "--encryption-provider-config="+file))
		c.QPS = -1
		return c
	}
	const many = 1100 // three pages
	before := newClientset(t, server("before", key1))
	for n := range many {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", n)}, StringData: map[string]string{"a": fmt.Sprint(n)}}
		if _, err := before.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	writing := newClient(t, server("both", key2+", "+key1))
	served, err := writing.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resources, err := rotate.Resources(served, []string{"secrets"})
	if err != nil || len(resources) != 1 || resources[0] != (schema.GroupVersionResource{Version: "v1", Resource: "secrets"}) {
		t.Fatalf("%v, %v", resources, err)
	}
	last := 0
	if err := rotate.Objects(t.Context(), writing, resources[0], func(done int) { last = max(last, done) }); err != nil || last < many {
		t.Fatalf("%d were written: %v", last, err)
	}
	after := newClientset(t, server("after", key2))
	list, err := after.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != many {
		t.Fatalf("with the new key alone %d are read: %v", len(list.Items), err)
	}
	for _, s := range list.Items {
		if "s-"+string(s.Data["a"]) != s.Name {
			t.Errorf("%s holds %s", s.Name, s.Data["a"])
		}
	}
	if _, err := before.CoreV1().Secrets("default").Get(t.Context(), "s-0", metav1.GetOptions{}); err == nil {
		t.Error("the old key alone reads them still")
	}
}
