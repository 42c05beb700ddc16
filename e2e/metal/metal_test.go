package metal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// member is a machine of the test, and the instance group that it is enrolled in.
type member struct{ name, group string }

func members() []member {
	return []member{{"cp1", "control-plane-main-1"}, {"cp2", "control-plane-main-2"}, {"cp3", "control-plane-main-3"}, {"node1", "nodes-main"}, {"node2", "nodes-main"}}
}

// downloadSettings are settings of machines that download from the bundle of this host. nodeup detects
// that they are containers of the host.
func downloadSettings() []string {
	return []string{"--set", "spec.assets.fileRepository=" + mirror, "--set", "spec.kubeDNS.coreDNSImage=registry.k8s.io/coredns/coredns:v1.14.3"}
}

// TestMachinesOverSSH enrolls machines over SSH as three control planes and two workers, changes them in
// place, and replaces a worker and a control plane that are lost.
func TestMachinesOverSSH(t *testing.T) {
	localtest.ClusterTurn(t, 2, 4)
	w := newWorld(t)
	w.createNetwork()
	begun := time.Now()
	text := w.must(w.kops, slices.Concat([]string{"create", "cluster", cluster, "--cloud", "metal", "--zones", "main", "--control-plane-count", "3", "--node-count", "2",
		"--networking", "kubenet", "--dry-run", "-o", "yaml"}, downloadSettings())...)
	text = strings.Replace(text, "\nspec:\n", "\nspec:\n  containerd: {registryMirrors: {'*': ["+mirror+"]}}\n", 1)
	w.ok(os.WriteFile(w.path("cluster.yaml"), []byte(text), 0o600))
	w.must(w.kops, "create", "-f", w.path("cluster.yaml"))
	for _, m := range members() {
		w.enroll(m)
	}
	enrolled := time.Now()
	w.update("--admin")
	w.waitUntilValid()
	t.Logf("FIGURE machines made and enrolled: %s; from the update to ready: %s", enrolled.Sub(begun).Round(time.Second), time.Since(enrolled).Round(time.Second))
	w.serves("before")
	if out := w.must(w.kops, "update", "cluster", cluster, "--facts", w.path("facts.yaml")); !strings.Contains(out, "No changes") {
		t.Errorf("an update right after is not empty:\n%s", out)
	}

	w.changeInPlace()

	// A worker is lost, and another machine replaces it under another name.
	w.replace(member{"node2", "nodes-main"}, member{"node3", "nodes-main"})
	// The control plane host that was enrolled first is lost, on which the etcd managers share
	// their folder, and another replaces it; in full runs, another host before it, too.
	if localtest.IsFull() {
		w.replace(member{"cp2", "control-plane-main-2"}, member{"cp4", "control-plane-main-2"})
	}
	w.replace(member{"cp1", "control-plane-main-1"}, member{"cp5", "control-plane-main-1"})
	w.serves("after")

	w.must(w.kops, "delete", "cluster", cluster, "--yes")
	w.checkReleased()
}

// changeInPlace changes a setting of all kubelets, which a rolling update makes each host apply in place:
// without SSH logins, and without a restart of a container.
func (w *world) changeInPlace() {
	w.Helper()
	w.must(w.kops, "edit", "cluster", cluster, "--set", "spec.kubelet.maxPods=99", "--set", "spec.masterKubelet.maxPods=99")
	w.update()
	before := w.containers()
	begun := time.Now()
	roll := []string{"rolling-update", "cluster", cluster, "--node-interval", "1s", "--control-plane-interval", "1s"}
	if out := w.must(w.kops, roll...); !strings.Contains(out, "spec.kubelet.maxPods") {
		w.Errorf("the preview of a rolling update:\n%s", out)
	}
	w.must(w.kops, append(roll, "--yes")...)
	if out := w.must(w.kops, roll...); !strings.Contains(out, "No rolling-update required") {
		w.Errorf("a rolling update right after another:\n%s", out)
	}
	if after := w.containers(); !maps.Equal(before, after) {
		w.Errorf("containers were started anew: %v, then %v", before, after)
	}
	w.wait("all kubelets have the new setting", func() error {
		list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if p := n.Status.Capacity.Pods().Value(); p != 99 {
				return fmt.Errorf("%s takes %d pods", n.Name, p)
			}
		}
		return nil
	})
	w.waitUntilValid()
	w.Logf("FIGURE a setting of five hosts changed in place: %s", time.Since(begun).Round(time.Second))
}

// containers returns the container IDs of each pod.
func (w *world) containers() map[string]string {
	w.Helper()
	pods, err := w.api().CoreV1().Pods("").List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	out := map[string]string{}
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			out[p.Name] += c.ContainerID + " "
		}
	}
	return out
}

// checkReleased checks that nothing of the cluster is left on the machines.
func (w *world) checkReleased() {
	w.Helper()
	all, err := w.host.List()
	w.ok(err)
	for _, m := range all {
		out, err := w.try("ssh", "-i", w.path("home/.ssh/id_ed25519"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "root@"+m.Address,
			"ps -eo comm; ls -d /etc/kubernetes/* /mnt/disks/* /var/lib/kubelet "+w.path("state")+"/* 2>/dev/null || true")
		w.ok(err)
		for line := range strings.Lines(out) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "kube") || strings.HasPrefix(line, "etcd") || strings.HasPrefix(line, "containerd") || strings.HasPrefix(line, "/") && line != "/etc/kubernetes/kops" {
				w.Errorf("%s still has %s", m.Name, line)
			}
		}
	}
}

// enroll creates a machine and enrolls it, by the fingerprint on its console.
func (w *world) enroll(m member) {
	w.Helper()
	address, fingerprint := w.machine(m.name)
	flags := []string{"toolbox", "enroll", "--cluster", cluster, "--instance-group", m.group, "--host", address, "--register-only"}
	if out, err := w.try(w.kops, flags...); err == nil || !strings.Contains(err.Error(), "its host key is not known") {
		w.Errorf("a machine that is not known was enrolled: %s%v", out, err)
	}
	w.must(w.kops, append(flags, "--host-key", fingerprint)...)
}

func (w *world) update(flags ...string) {
	w.Helper()
	w.must(w.kops, append([]string{"update", "cluster", cluster, "--yes", "--prune", "--facts", w.path("facts.yaml")}, flags...)...)
}

// waitUntilValid waits until kops reports the cluster ready.
func (w *world) waitUntilValid() {
	w.Helper()
	w.must(w.kops, "validate", "cluster", cluster, "--wait", clusterTime.String(), "--interval", "1s")
}

// replace loses a machine and replaces it with another.
func (w *world) replace(lost, found member) {
	w.Helper()
	w.destroy(lost.name)
	begun := time.Now()
	if out, err := w.try(w.kops, "update", "cluster", cluster, "--facts", w.path("facts.yaml")); err == nil || !strings.Contains(err.Error(), "kops delete host "+lost.name+" --lost") {
		w.Errorf("a lost host is not told: %s%v", out, err)
	}
	w.must(w.kops, "delete", "host", lost.name, "--name", cluster, "--lost", "--yes")
	w.enroll(found)
	w.update()
	w.wait("the node of "+lost.name+" is gone", func() error {
		list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		if slices.Contains(names, lost.name) || !slices.Contains(names, found.name) {
			return fmt.Errorf("the nodes are %v", names)
		}
		return nil
	})
	w.waitUntilValid()
	w.Logf("FIGURE %s lost, %s ready in its place: %s", lost.name, found.name, time.Since(begun).Round(time.Second))
}

// serves waits until a pod on each worker has completed.
func (w *world) serves(name string) {
	w.Helper()
	client := w.api()
	list, err := client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/node"})
	w.ok(err)
	if len(list.Items) != 2 {
		w.Errorf("there are %d workers", len(list.Items))
	}
	pods := client.CoreV1().Pods("default")
	for _, n := range list.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + n.Name}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure,
			NodeSelector: map[string]string{"kubernetes.io/hostname": n.Name},
			Containers:   []corev1.Container{{Name: "c", Image: agnhost, Args: []string{"connect", "--timeout=5s", "10.199.7.1:3989"}}}}}
		w.wait("the service account of pods", func() error {
			_, err := pods.Create(w.Context(), pod, metav1.CreateOptions{})
			return err
		})
	}
	for _, n := range list.Items {
		w.wait("a pod on "+n.Name, func() error {
			p, err := pods.Get(w.Context(), name+"-"+n.Name, metav1.GetOptions{})
			if err == nil && p.Status.Phase != corev1.PodSucceeded {
				err = errors.New(string(p.Status.Phase))
			}
			return err
		})
	}
}
