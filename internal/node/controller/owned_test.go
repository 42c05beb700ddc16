package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/labels"
)

func taints(t *testing.T, in ...string) []corev1.Taint {
	t.Helper()
	out, err := parseTaints(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitNode waits until a node has exactly these labels, among the test's labels, and these taints.
func awaitNode(t *testing.T, nodes corev1client.NodeInterface, name string, wantLabels map[string]string, wantTaints ...string) {
	t.Helper()
	wantTaints = append(wantTaints, "node.kubernetes.io/not-ready:NoSchedule") // set by the API server
	slices.Sort(wantTaints)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for _, k := range []string{"a", "b", "own"} {
			if v, ok := n.Labels[k]; ok {
				have[k] = v
			}
		}
		now := texts(n.Spec.Taints)
		slices.Sort(now)
		if fmt.Sprint(have) == fmt.Sprint(wantLabels) && slices.Equal(now, wantTaints) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has the labels %v and the taints %v, want %v and %v", name, have, now, wantLabels, wantTaints)
		}
	}
}

// testChangesFollow changes a group with existing nodes.
func testChangesFollow(t *testing.T, config *rest.Config) {
	nodes := nodesOf(t, config)
	g := &groups{byNode: map[string]string{"live": "live"}, labels: map[string]map[string]string{"live": {"a": "1", "b": "1"}}, taints: taints(t, "k=1:NoSchedule", "gone:NoExecute", "startup=x:NoSchedule")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "live", Labels: map[string]string{"own": "kept"}}, Spec: corev1.NodeSpec{Taints: taints(t, "foreign=1:NoSchedule")}}
	if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tick := make(chan struct{})
	l := &Labeller{Nodes: nodes, Groups: g, Now: time.Now, Log: slog.New(slog.DiscardHandler), Sleep: func(ctx context.Context, _ time.Duration) error {
		select {
		case <-tick:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	change := func(labels map[string]string, list ...string) {
		g.mu.Lock()
		g.labels["live"], g.taints = labels, taints(t, list...)
		g.mu.Unlock()
		tick <- struct{}{}
	}
	awaitNode(t, nodes, "live", map[string]string{"a": "1", "b": "1", "own": "kept"}, "foreign=1:NoSchedule", "k=1:NoSchedule", "gone:NoExecute", "startup=x:NoSchedule")
	// another controller removes the taint that kept pods away until the node was prepared
	n, err := nodes.Get(t.Context(), "live", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "startup" })
	if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	change(map[string]string{"a": "2"}, "k=2:NoSchedule", "new:PreferNoSchedule", "startup=x:NoSchedule")
	awaitNode(t, nodes, "live", map[string]string{"a": "2", "own": "kept"}, "foreign=1:NoSchedule", "k=2:NoSchedule", "new:PreferNoSchedule")
	change(nil)
	awaitNode(t, nodes, "live", map[string]string{"own": "kept"}, "foreign=1:NoSchedule")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A kubelet may change its node's annotations: they alone do not prove that a label belonged to the group.
func TestAKubeletCannotHaveMarksRemoved(t *testing.T) {
	forged := ownedMarks{Labels: []string{"node-restriction.kubernetes.io/tier"}, Taints: []string{"quarantine:NoSchedule"}}.text()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"node-restriction.kubernetes.io/tier": "low"}, Annotations: map[string]string{labels.Owned: forged}},
		Spec: corev1.NodeSpec{Taints: taints(t, "quarantine:NoSchedule")}}
	for name, vouched := range map[string]string{"no label vouches": "", "the label is of another text": authenticator(n, ownedMarks{}.text()),
		"the label is of another node": authenticator(&corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, forged)} {
		n.Labels[labels.Owned] = vouched
		p := patchOf(n, Marks{}, time.Now())
		if _, there := p.Metadata.Labels["node-restriction.kubernetes.io/tier"]; there || p.Spec != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	n.Labels[labels.Owned] = authenticator(n, forged)
	if p := patchOf(n, Marks{}, time.Now()); len(p.Metadata.Labels) != 2 || p.Spec == nil {
		t.Errorf("what a label vouches for stays: %+v", p)
	}
}

// Nodes that existed before anything was recorded keep their taints.
func TestOldNodesAreTakenOver(t *testing.T) {
	want := Marks{Taints: taints(t, "startup=x:NoExecute")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", CreationTimestamp: metav1.Time{Time: time.Now().Add(-time.Hour)}}}
	if p := patchOf(n, want, time.Now()); p.Spec != nil || p.Metadata.Annotations[labels.Owned] == "" {
		t.Errorf("%+v", p)
	}
	n.CreationTimestamp.Time = time.Now()
	if p := patchOf(n, want, time.Now()); p.Spec == nil {
		t.Error("a node that has just joined does not have the taint of its group")
	}
}

func TestTaintsThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "key", "=value:NoSchedule", "key:"} {
		if _, err := parseTaints([]string{text}); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
