package local

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/ops/roll/inplace"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
)

// TestInPlace: a worker and a control plane are changed in place. Kubelet, containerd and the API
// server are restarted, and everything else continues.
func TestInPlace(t *testing.T) {
	localtest.ClusterTurn(t, 2, 4)
	w := newWorld(t)
	w.create("--node-count", "1")
	w.kubectl("apply", "-f", "testdata/counter.yaml")
	w.kubectl("wait", "--for=condition=Ready", "pod/counter", "--timeout=50s")
	worker, server := w.machines(nodes)[0], slices.DeleteFunc(w.machines(""), func(m machine.Machine) bool { return m.Group == nodes })[0]
	for _, m := range []machine.Machine{worker, server} {
		w.wait("the node of "+m.Name+" says what it runs", clusterTime, func() error { return w.checkReportedVersion(m) })
	}
	w.must("edit", "cluster", cluster, "--set", "spec.kubelet.maxPods=57", "--set", "spec.containerd.logLevel=warn", "--set", "spec.kubeAPIServer.maxRequestsInflight=555")
	w.must("edit", "instancegroup", nodes, "--name", cluster, "--set", "spec.nodeLabels[example.com/live]=yes", "--set", "spec.taints=example.com/live=yes:PreferNoSchedule")
	w.must("update", "cluster", cluster, "--yes")
	changed := time.Now()
	before, count := w.containers(), w.currentCount()
	w.changeInPlace(server, "ControlPlane")
	w.changeInPlace(worker, "Node")

	for _, m := range []machine.Machine{worker, server} {
		if got := w.node(m).Status.Capacity.Pods().Value(); got != 57 {
			t.Errorf("the node of %s takes %d pods", m.Name, got)
		}
	}
	if command := w.kubectl("get", "pods", "-n", "kube-system", "-l", "k8s-app=kube-apiserver", "-o", "jsonpath={.items[*].spec.containers[0].command}"); !strings.Contains(command, "--max-requests-inflight=555") {
		t.Errorf("the API server is %s", command)
	}
	after := w.containers()
	maps.DeleteFunc(before, func(pod, _ string) bool { return strings.HasPrefix(pod, "kube-apiserver-") })
	for pod, ids := range before {
		if after[pod] != ids {
			t.Errorf("the containers of %s were %s, and are %s", pod, ids, after[pod])
		}
	}
	if now, least := w.currentCount(), count+int(time.Since(changed).Seconds()*5); now < least {
		t.Errorf("the pod counted to %d, and then only to %d, not %d", count, now, least)
	}
	w.wait("the label and the taint of the group are on its node", clusterTime, func() error { return w.checkChangeApplied(worker, true) })
	w.figures.seconds("a changed label and taint, to the node", time.Since(changed))
	w.must("edit", "instancegroup", nodes, "--name", cluster, "--unset", "spec.nodeLabels", "--unset", "spec.taints")
	w.must("update", "cluster", cluster, "--yes")
	w.wait("they are gone", clusterTime, func() error { return w.checkChangeApplied(worker, false) })
	w.delete()
}

func (w *world) node(m machine.Machine) *corev1.Node {
	w.Helper()
	n, err := w.client().CoreV1().Nodes().Get(w.Context(), m.Name, metav1.GetOptions{})
	w.ok(err)
	return n
}

// config returns the configuration hash of a machine's group.
func (w *world) config(m machine.Machine, role string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.state(), cluster, layout.NodeConfig(role, m.Group)))
	w.ok(err)
	return nodeconfig.Hash(text)
}

func (w *world) checkReportedVersion(m machine.Machine) error {
	r, there, err := labels.Read[labels.Running](w.node(m).Annotations, labels.NodeConfig)
	if err == nil && (!there || r.Hash == "" || len(r.Files) == 0 && m.Group != nodes) {
		err = fmt.Errorf("it says %+v", r)
	}
	return err
}

// changeInPlace has a machine changed in place, and checks its report of the change.
func (w *world) changeInPlace(m machine.Machine, role string) {
	w.Helper()
	hash, asked := w.config(m, role), time.Now()
	_, err := inplace.Request(w.Context(), w.client().CoreV1().Nodes(), m.Name, hash)
	w.ok(err)
	w.wait("a change in place of "+m.Name, clusterTime, func() error {
		n, err := w.client().CoreV1().Nodes().Get(w.Context(), m.Name, metav1.GetOptions{})
		if err != nil {
			return err // the API server may be starting
		}
		done, err := inplace.Result(n)
		if err == nil && !done {
			err = errors.New("it is under way")
		}
		return err
	})
	w.figures.seconds("a change in place of a machine with the role "+role+", asked to done", time.Since(asked))
	r, _, err := labels.Read[labels.Running](w.node(m).Annotations, labels.NodeConfig)
	if err != nil || r.Hash != hash {
		w.Errorf("%s says that it runs %s, not %s: %v", m.Name, r.Hash, hash, err)
	}
}

// containers returns the container IDs of each pod.
func (w *world) containers() map[string]string {
	w.Helper()
	pods, err := w.client().CoreV1().Pods("").List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	out := map[string]string{}
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			out[p.Name] += c.ContainerID + " "
		}
	}
	return out
}

// currentCount returns the pod's current count.
func (w *world) currentCount() int {
	w.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(w.kubectl("logs", "counter", "--tail=1")))
	w.ok(err)
	return n
}

// checkChangeApplied returns nil if a node has the label and the taint of the change, or no longer has them if want is false.
func (w *world) checkChangeApplied(m machine.Machine, want bool) error {
	n := w.node(m)
	_, label := n.Labels["example.com/live"]
	taint := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/live" })
	if label != want || taint != want {
		return fmt.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
	}
	return nil
}
