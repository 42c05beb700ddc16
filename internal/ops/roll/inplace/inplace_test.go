package inplace_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/roll/inplace"
	"kops.local/kops/internal/test/kubetest"
)

// A request and its results, with a real API server.
func TestARequestAndItsResult(t *testing.T) {
	core, err := corev1client.NewForConfig(kubetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	nodes := core.Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inplace.Result(node); !fault.Is(err, fault.Gone) {
		t.Errorf("a node that was asked nothing: %v", err)
	}
	answer := func(r labels.Applied) *corev1.Node {
		t.Helper()
		if node, err = nodes.Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if r.Nonce != "" {
			node.Annotations[labels.ApplyResult] = labels.Write(r)
		}
		if node, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return node
	}
	ask := func(hash string) string {
		t.Helper()
		nonce, err := inplace.Request(t.Context(), nodes, "n", hash)
		if err != nil || nonce == "" {
			t.Fatal(nonce, err)
		}
		return nonce
	}
	first := ask("one")
	if done, err := inplace.Result(answer(labels.Applied{})); done || err != nil {
		t.Errorf("before the machine has answered: %v %v", done, err)
	}
	if again := ask("one"); again != first {
		t.Errorf("a request that is under way was made anew: %s, then %s", first, again)
	}
	done, err := inplace.Result(answer(labels.Applied{Nonce: first, Error: "no room", Phase: "files"}))
	if done || !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "the node n fails in the phase files: no room") {
		t.Errorf("a failure: %v %v", done, err)
	}
	if done, err := inplace.Result(answer(labels.Applied{Nonce: first, Done: true})); !done || err != nil {
		t.Errorf("done: %v %v", done, err)
	}
	second, third := ask("one"), ask("two")
	if second == first || third == second {
		t.Errorf("a request after one that is done, or of another hash, has the nonce of the one before: %s, %s, %s", first, second, third)
	}
	if done, err := inplace.Result(answer(labels.Applied{})); done || err != nil {
		t.Errorf("the result of the request before counts: %v %v", done, err)
	}
	if _, err := inplace.Request(t.Context(), nodes, "absent", "one"); err == nil {
		t.Error("a node that is not there was asked")
	}
}
