package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// machineNames are the existing machines; nil means that they cannot be listed.
type machineNames []string

func (l machineNames) ListTerminated(_ context.Context, nodes []*corev1.Node) ([]string, error) {
	if l == nil {
		return nil, errors.New("no such folder")
	}
	var out []string
	for _, n := range nodes {
		if !slices.Contains(l, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

func (l machineNames) ListExisting(_ context.Context, nodes []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !slices.Contains(l, n) }), nil
}

// lifecycle returns the Lifecycle of a cluster with these machines.
func lifecycle(c kubernetes.Interface, now time.Time, machines Machines) *Lifecycle {
	return &Lifecycle{Nodes: c.CoreV1().Nodes(), Pods: c.CoreV1(), Machines: machines, Clock: stoppedClock(now), Log: slog.New(slog.DiscardHandler),
		Dead: &Dead{ConfigMaps: c.CoreV1().ConfigMaps("kube-system"), Now: func() time.Time { return now }}}
}

// stoppedClock is a clock that does not advance.
type stoppedClock time.Time

func (s stoppedClock) Now() time.Time                           { return time.Time(s) }
func (stoppedClock) Sleep(context.Context, time.Duration) error { return context.Canceled }

func TestNodesAreDeletedWithTheirMachines(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	node := func(name string, age time.Duration, ready corev1.ConditionStatus) runtime.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	all := func() []runtime.Object {
		return []runtime.Object{
			node("cp-1", time.Hour, corev1.ConditionTrue), node("off", time.Hour, corev1.ConditionUnknown),
			node("old", time.Hour, corev1.ConditionTrue), node("young", 10*time.Second, corev1.ConditionTrue),
			node("young-off", time.Second, corev1.ConditionUnknown), node("failed", time.Second, corev1.ConditionFalse),
		}
	}
	for name, tt := range map[string]struct {
		machines machineNames
		left     []string
		says     string
	}{
		"all exist":           {machineNames{"cp-1", "off", "old", "young", "young-off", "failed"}, []string{"cp-1", "failed", "off", "old", "young", "young-off"}, ""},
		"some are gone":       {machineNames{"cp-1", "off"}, []string{"cp-1", "off", "young"}, ""},
		"it cannot be listed": {nil, []string{"cp-1", "failed", "off", "old", "young", "young-off"}, "no such folder"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(all()...)
			nodes := client.CoreV1().Nodes()
			l := lifecycle(client, now, tt.machines)
			if err := l.Once(t.Context()); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
			list, err := nodes.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, n := range list.Items {
				left = append(left, n.Name)
			}
			if slices.Sort(left); !slices.Equal(left, tt.left) {
				t.Errorf("left are %v, not %v", left, tt.left)
			}
		})
	}
}

func TestANodeThatCannotBeRemovedIsReported(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	client.PrependReactor("delete", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		refused := a.(clienttesting.DeleteAction).GetName() == "a"
		return refused, nil, errors.New("the API server is busy")
	})
	l := lifecycle(client, time.Now(), machineNames{"cp-1"})
	if err := l.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the node a: the API server is busy") {
		t.Errorf("got %v", err)
	}
	if list, err := l.Nodes.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("left are %v: %v", list.Items, err)
	}
	if err := l.Run(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPodsAreDeletedWithTheirNode(t *testing.T) {
	pod := func(name, node string) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}},
		pod("stays", "cp-1"), pod("a", "gone"), pod("b", "gone"))
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) { // the fake does not support field selectors
		if got := a.(clienttesting.ListAction).GetListRestrictions().Fields.String(); got != "spec.nodeName=gone" {
			return false, nil, nil
		}
		return true, &corev1.PodList{Items: []corev1.Pod{*pod("a", "gone").(*corev1.Pod), *pod("b", "gone").(*corev1.Pod)}}, nil
	})
	client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		delete := a.(clienttesting.DeleteActionImpl)
		if grace := delete.DeleteOptions.GracePeriodSeconds; grace == nil || *grace != 0 {
			t.Errorf("the pod %s has time to stop, and nobody to do it", delete.Name)
		}
		return delete.Name == "a", nil, errors.New("the API server is busy")
	})
	l := lifecycle(client, time.Now(), machineNames{"cp-1"})
	if err := l.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "kube-system/a of the node gone, which is gone: the API server is busy") {
		t.Errorf("got %v", err)
	}
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("left are %v: %v", list.Items, err)
	}
}

// TestPodsAreDeletedIfOthersDeletedTheirNode covers a rolling update that deletes the node of a
// terminated machine: the pods on it would keep their endpoints until Kubernetes collects
// them.
func TestPodsAreDeletedIfOthersDeletedTheirNode(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", UID: "1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", UID: "2"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "w-1"}})
	l := lifecycle(client, time.Now(), machineNames{"cp-1", "w-1"})
	if err := l.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.Machines = machineNames{"cp-1"}
	if err := l.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left are %v: %v", list.Items, err)
	}
}
