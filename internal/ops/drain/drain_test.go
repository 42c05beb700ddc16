package drain

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/test/kubetest"
)

// world is an API server without kubelets or controllers. Each sleep advances its clock, and then
// removes pods that are terminating.
type world struct {
	*testing.T
	kubernetes.Interface
	client *kubeclient.Client
	now    time.Time
	asleep func() // called at each sleep
}

func (w *world) drainer() *Drainer {
	return &Drainer{Client: w.client, Now: func() time.Time { return w.now }, Sleep: func(ctx context.Context, d time.Duration) error {
		w.now = w.now.Add(d)
		w.bury()
		if w.asleep != nil {
			w.asleep()
		}
		return ctx.Err()
	}}
}

// bury does what kubelets do with terminating pods.
func (w *world) bury() {
	list, err := w.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	none := int64(0)
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil {
			w.must(w.CoreV1().Pods("default").Delete(w.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
		}
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pod creates a running, ready pod.
func (w *world) pod(name, node, app string, owner ...metav1.OwnerReference) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}, OwnerReferences: owner},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	p, err := w.CoreV1().Pods("default").Create(w.Context(), p, metav1.CreateOptions{})
	w.must(err)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = w.CoreV1().Pods("default").UpdateStatus(w.Context(), p, metav1.UpdateOptions{})
	w.must(err)
}

// change changes the status of a pod.
func (w *world) change(name string, change func(*corev1.Pod)) {
	w.Helper()
	p, err := w.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	change(p)
	_, err = w.CoreV1().Pods("default").UpdateStatus(w.Context(), p, metav1.UpdateOptions{})
	w.must(err)
}

// budget creates a budget that allows some evictions now, as its controller would have recorded.
func (w *world) budget(app string, allowed int32) {
	w.Helper()
	budgets := w.PolicyV1().PodDisruptionBudgets("default")
	one := intstr.FromInt32(1)
	b, err := budgets.Create(w.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}, metav1.CreateOptions{})
	w.must(err)
	w.allow(b, allowed)
}

func (w *world) allow(b *policyv1.PodDisruptionBudget, allowed int32) {
	w.Helper()
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	_, err := w.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(w.Context(), b, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) on(node string) []string {
	w.Helper()
	list, err := w.CoreV1().Pods("").List(w.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	w.must(err)
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	return out
}

func controller(kind, name string) metav1.OwnerReference {
	yes := true
	version := "apps/v1"
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: "1", Controller: &yes}
}

func TestDrain(t *testing.T) {
	config := kubetest.Start(t)
	all, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	on := func(f func(t *testing.T, w *world)) func(*testing.T) {
		return func(t *testing.T) { f(t, &world{T: t, Interface: all, client: client, now: time.Now()}) }
	}
	t.Run("cordon and uncordon", on(testCordon))
	t.Run("what a drain leaves", on(testLeaves))
	t.Run("finished, orphaned and foreign pods", on(testFinished))
	t.Run("a pod has its time to end", on(testGrace))
	t.Run("a namespace that is being deleted", on(testNamespace))
	t.Run("a budget that blocks for a while", on(testWaits))
	t.Run("a budget that blocks for good", on(testLate))
	t.Run("a node whose kubelet is dead", on(testDead))
	t.Run("cut off", on(testCut))
	t.Run("what is seen before", on(testLook))
}

func testCordon(t *testing.T, w *world) {
	d := w.drainer()
	n, err := w.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	w.must(err)
	for range 2 { // both are idempotent
		w.must(d.Cordon(t.Context(), n.Name))
	}
	n, err = w.CoreV1().Nodes().Get(t.Context(), "c", metav1.GetOptions{})
	w.must(err)
	if _, away := n.Labels[labels.NoLoadBalancer]; !n.Spec.Unschedulable || !away {
		t.Errorf("cordoned: %+v, %v", n.Spec, n.Labels)
	}
	for range 2 {
		w.must(d.Uncordon(t.Context(), n.Name))
	}
	n, err = w.CoreV1().Nodes().Get(t.Context(), "c", metav1.GetOptions{})
	w.must(err)
	if _, away := n.Labels[labels.NoLoadBalancer]; n.Spec.Unschedulable || away {
		t.Errorf("uncordoned: %+v, %v", n.Spec, n.Labels)
	}
	w.must(d.Cordon(t.Context(), "nobody"))
}

func testLeaves(t *testing.T, w *world) {
	_, err := w.AppsV1().DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}}}, metav1.CreateOptions{})
	w.must(err)
	w.pod("plain", "a", "plain", controller("ReplicaSet", "plain"))
	w.pod("alone", "a", "alone")
	w.pod("daemon", "a", "daemon", controller("DaemonSet", "everywhere"))
	w.pod("elsewhere", "b", "plain", controller("ReplicaSet", "plain"))
	var told []string
	w.must(w.drainer().Drain(t.Context(), "a", Options{On: func(p Pod) { told = append(told, p.Name+" "+string(p.State)) }}))
	if got := w.on("a"); !slices.Equal(got, []string{"daemon"}) {
		t.Errorf("left are %v", got)
	}
	if got := w.on("b"); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("elsewhere are %v", got)
	}
	slices.Sort(told)
	if want := []string{"alone evicted", "alone gone", "plain evicted", "plain gone"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// testFinished drains finished pods that look like those that stay.
func testFinished(t *testing.T, w *world) {
	foreign := controller("DaemonSet", "f-own")
	foreign.APIVersion = "example.com/v1"
	w.pod("f-orphan", "f", "f", controller("DaemonSet", "f-gone"))
	w.pod("f-foreign", "f", "f", foreign)
	w.pod("f-finished", "f", "f", controller("DaemonSet", "everywhere"))
	w.change("f-finished", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	w.pod("f-daemon", "f", "f", controller("DaemonSet", "everywhere"))
	static := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "f-static", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec: corev1.PodSpec{NodeName: "f", Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	_, err := w.CoreV1().Pods("default").Create(t.Context(), static, metav1.CreateOptions{})
	w.must(err)
	w.must(w.drainer().Drain(t.Context(), "f", Options{Timeout: time.Minute}))
	if got := w.on("f"); !slices.Equal(got, []string{"f-daemon", "f-static"}) {
		t.Errorf("left are %v", got)
	}
}

// testGrace drains a pod with local data and a long grace period.
func testGrace(t *testing.T, w *world) {
	seconds := int64(123)
	_, err := w.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Spec: corev1.PodSpec{NodeName: "g", TerminationGracePeriodSeconds: &seconds, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}, metav1.CreateOptions{})
	w.must(err)
	w.change("slow", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	var given *int64
	d := w.drainer()
	bury := d.Sleep
	d.Sleep = func(ctx context.Context, pause time.Duration) error {
		if p, err := w.CoreV1().Pods("default").Get(ctx, "slow", metav1.GetOptions{}); err == nil && p.DeletionTimestamp != nil {
			given = p.DeletionGracePeriodSeconds
		}
		return bury(ctx, pause)
	}
	w.must(d.Drain(t.Context(), "g", Options{Timeout: time.Minute}))
	if given == nil || *given != seconds {
		t.Errorf("the pod has %v s to end, want %d", given, seconds)
	}
}

// testNamespace drains a pod of a namespace that is being deleted, in which the API server refuses
// evictions.
func testNamespace(t *testing.T, w *world) {
	_, err := w.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}, metav1.CreateOptions{})
	w.must(err)
	pods := w.CoreV1().Pods("ending")
	_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}, metav1.CreateOptions{})
	w.must(err)
	w.must(w.CoreV1().Namespaces().Delete(t.Context(), "ending", metav1.DeleteOptions{}))
	slept, none := 0, int64(0)
	w.asleep = func() {
		if slept++; slept == 3 { // what the namespace controller does
			w.must(pods.Delete(t.Context(), "last", metav1.DeleteOptions{GracePeriodSeconds: &none}))
		}
	}
	var told []string
	w.must(w.drainer().Drain(t.Context(), "n", Options{Timeout: time.Minute, On: func(p Pod) { told = append(told, string(p.State)+" "+p.Why) }}))
	if len(told) != 2 || !strings.Contains(told[0], "being terminated") || told[1] != "gone " {
		t.Errorf("told %q", told)
	}
}

func testWaits(t *testing.T, w *world) {
	w.pod("waits", "w", "waits", controller("ReplicaSet", "waits"))
	w.budget("waits", 0)
	d := w.drainer()
	slept := 0
	w.asleep = func() {
		if slept++; slept == 12 {
			b, err := w.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "waits", metav1.GetOptions{})
			w.must(err)
			w.allow(b, 1)
		}
	}
	var told []Pod
	w.must(d.Drain(t.Context(), "w", Options{Timeout: time.Minute, On: func(p Pod) { told = append(told, p) }}))
	if len(told) != 3 || told[0].State != Blocked || told[1].State != Evicted || told[2].State != Gone || told[0].Left != 1 || told[2].Left != 0 {
		t.Fatalf("told %+v", told)
	}
	if !strings.Contains(told[0].Why, "disruption budget waits") {
		t.Errorf("it waits because %q", told[0].Why)
	}
	if slept < 15 || slept > 18 { // five seconds between two attempts
		t.Errorf("slept %d s", slept)
	}
}

func testLate(t *testing.T, w *world) {
	w.pod("late", "l", "late", controller("ReplicaSet", "late"))
	w.budget("late", 0)
	err := w.drainer().Drain(t.Context(), "l", Options{Timeout: 10 * time.Second})
	if !fault.Is(err, fault.NotYet) || fault.Remedy(err) == "" {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "default/late: ") || !strings.Contains(text, "disruption budget late") {
		t.Errorf("got %s", text)
	}
	if got := w.on("l"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("on the node are %v", got)
	}
}

func testDead(t *testing.T, w *world) {
	_, err := w.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}}, metav1.CreateOptions{})
	w.must(err)
	w.pod("stuck", "dead", "stuck", controller("ReplicaSet", "stuck"))
	d := w.drainer()
	d.Sleep = func(ctx context.Context, pause time.Duration) error { // no kubelet terminates the pod
		w.now = w.now.Add(pause)
		return ctx.Err()
	}
	w.must(d.Drain(t.Context(), "dead", Options{Timeout: 5 * time.Minute}))
	if got := w.on("dead"); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("on the node are %v", got)
	}
	began := w.now
	w.must(d.Drain(t.Context(), "dead", Options{Timeout: 5 * time.Minute, Dead: true}))
	if w.now != began {
		t.Errorf("a node that is known to be dead took %v", w.now.Sub(began))
	}
	w.bury()
}

func testCut(t *testing.T, w *world) {
	w.pod("cut", "x", "cut", controller("ReplicaSet", "cut"))
	w.budget("cut", 0)
	ctx, cancel := context.WithCancel(t.Context())
	w.asleep = cancel
	if err := w.drainer().Drain(ctx, "x", Options{Timeout: time.Minute}); err == nil || fault.Is(err, fault.NotYet) {
		t.Errorf("got %v", err)
	}
}

func testLook(t *testing.T, w *world) {
	w.pod("seen", "s", "seen")
	w.budget("seen", 0)
	seen, err := Observe(t.Context(), w.client, []string{"s"}, time.Minute)
	w.must(err)
	var got []string
	for _, b := range Blockers(seen) {
		got = append(got, b.Kind+" "+b.Name)
	}
	if want := []string{"budget default/seen", "unmanaged default/seen"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
