package local

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/site"
)

// TestLimits: a pod that writes endlessly fills its machine's disk and is evicted, one that uses up
// memory is killed; the host is hardly affected, and the cluster continues.
func TestLimits(t *testing.T) {
	localtest.ClusterTurn(t, 0, 4)
	w := newWorld(t)
	w.create("--node-count", "1", "--node-size", "1cpu-1gib", "--node-volume-size", "2",
		"--set", "spec.kubelet.evictionPressureTransitionPeriod=5s") // otherwise the node stays unschedulable for five minutes
	w.kubectl("apply", "-f", "testdata/greedy.yaml")
	pod := func(name string) (p *corev1.Pod) {
		w.Helper()
		p, err := w.client().CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
		w.ok(err)
		return p
	}
	node := w.machines(nodes)[0]
	taken := func() int64 { return w.disk(w.site.Path(site.Machines, node.Name)) } // on the host's disk
	most := taken()
	w.wait("the pod that fills the disk is evicted", clusterTime, func() error {
		most = max(most, taken())
		if s := pod("writer").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" {
			return fmt.Errorf("it is %s: %s %s", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
	if most > 2<<30+1<<20 || most < 3<<29 {
		w.Errorf("a machine with a disk of 2 GiB, which was filled, took %d MiB of the host's", most>>20)
	}
	w.wait("the pod that eats memory is killed", clusterTime, func() error {
		p := pod("eater")
		for _, c := range p.Status.ContainerStatuses {
			if end := c.State.Terminated; end != nil && end.ExitCode == 137 { // by SIGKILL
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
	})
	if now := w.machines(nodes); len(now) != 1 || now[0].Name != node.Name {
		w.Errorf("the machine was %s; now there are %v", node.Name, namesOf(now))
	}
	w.kubectl("delete", "-f", "testdata/greedy.yaml")
	w.wait("the host has its space back", clusterTime, func() error {
		if now := taken(); now > 1<<30 {
			return fmt.Errorf("the machine has %d MiB", now>>20)
		}
		return nil
	})
	w.waitUntilValid()
	w.delete()
}
