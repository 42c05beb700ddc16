package rotate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

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

func TestPodsThatAreStartedAnew(t *testing.T) {
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
		}), // its time is told in seconds
		pod("ended", time.Hour, "Job/ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	}, sets, now)
	if got := fmt.Sprint(owners); got != "[daemonset/net in a deployment/web in a statefulset/db in a]" {
		t.Errorf("started anew: %s", got)
	}
	if got := strings.Join(left, " "); got != "a/bare a/lone-x a/once" {
		t.Errorf("left: %s", got)
	}
}

// Pods that wait to be deleted are evicted, one while all others are ready.
func TestPodsThatWaitToBeDeleted(t *testing.T) {
	before := time.Now().Add(-time.Minute)
	yes := true
	pod := func(node string, since time.Time, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "net-" + node, CreationTimestamp: metav1.NewTime(since), OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "net", Controller: &yes}}},
			Spec:   corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	long := before.Add(-time.Hour)
	client := fake.NewClientset(pod("1", long, corev1.ConditionTrue), pod("2", long, corev1.ConditionFalse), pod("3", long, corev1.ConditionTrue),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "net"}, Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3}})
	var evicted []string
	client.PrependReactor("create", "pods/eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
		evicted = append(evicted, a.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName())
		return true, nil, client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "a", evicted[len(evicted)-1])
	})
	owner := rotate.Owner{Kind: "DaemonSet", Namespace: "a", Name: "net"}
	if waits, err := rotate.Restart(t.Context(), client, owner, before); err != nil || !waits {
		t.Fatalf("it waits to be deleted: %v, %v", waits, err)
	}
	looks := 0
	sleep := func(context.Context, time.Duration) error { // the DaemonSet's controller, which needs two looks for each
		if looks++; looks%3 == 1 && len(evicted) != looks/3+1 {
			t.Errorf("after %d looks %v were evicted", looks, evicted)
		}
		last := strings.TrimPrefix(evicted[len(evicted)-1], "net-")
		switch looks % 3 {
		case 2:
			return client.Tracker().Add(pod(last, time.Now(), corev1.ConditionFalse))
		case 0:
			return client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod(last, time.Now(), corev1.ConditionTrue), "a")
		}
		return nil
	}
	owners := []rotate.Owner{owner}
	if err := rotate.Wait(t.Context(), client, owners, owners, before, time.Hour, time.Now, sleep); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(evicted, " "); got != "net-2 net-1 net-3" { // one that serves nobody goes first
		t.Errorf("evicted: %s", got)
	}
}

// After a restore everything is written again: the old key encrypted the restored objects.
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
	}
	for names, want := range map[string]string{
		"secrets": "secrets", "secrets deployments.apps": "deployments.apps secrets", "*.": "pods secrets", "*.apps": "deployments.apps", "*.*": "deployments.apps pods secrets",
		"*.none": "", "widgets.example.com": "!the API server serves no resource widgets.example.com",
	} {
		got, err := rotate.Resources(served, strings.Fields(names))
		var text []string
		for _, r := range got {
			text = append(text, r.GroupResource().String())
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

// The new key alone can read objects of a former key once they are rewritten.
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
	client := func(c *rest.Config) kubernetes.Interface {
		out, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const many = 1100 // three pages
	before := client(server("before", key1))
	for n := range many {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", n)}, StringData: map[string]string{"a": fmt.Sprint(n)}}
		if _, err := before.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	both := server("both", key2+", "+key1)
	writing, err := metadata.NewForConfig(both)
	if err != nil {
		t.Fatal(err)
	}
	served, err := rotate.Served(client(both).Discovery())
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
	after := client(server("after", key2))
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
