package local

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
)

// networkTurns is the number of runs in which each pod network takes one turn. What a network needs is
// built in its turn, which takes Cilium some 7 minutes of processor time.
const networkTurns = 12

// TestCilium: VXLAN, without kube-proxy, as new clusters of every cloud have it.
func TestCilium(t *testing.T) {
	localtest.ClusterTurn(t, 0, networkTurns)
	w := newWorld(t)
	w.addNetwork("cilium")
	w.create("--networking", "cilium", "--node-count", "2")
	w.serve()
	w.measureAgents("cilium-agent")
	w.checkHooks()
	w.checkPolicies("TIMEOUT")
	w.checkCiliumPolicies()
	w.restartAgents("cilium", "cilium-agent")
	w.checkUnchanged()
	w.delete()
}

// TestCiliumNative: routes instead of a tunnel, and kube-proxy.
func TestCiliumNative(t *testing.T) {
	localtest.ClusterTurn(t, 3, networkTurns)
	w := newWorld(t)
	w.addNetwork("cilium")
	w.create("--networking", "cilium", "--node-count", "2", "--set", "spec.networking.cilium.tunnel=disabled",
		"--set", "spec.networking.cilium.enableNodePort=false", "--set", "spec.kubeProxy.enabled=true")
	w.serve()
	w.checkPolicies("TIMEOUT")
	w.delete()
}

// TestFlannel: a tunnel of flannel, which has no policies.
func TestFlannel(t *testing.T) {
	localtest.ClusterTurn(t, 6, networkTurns)
	w := newWorld(t)
	w.addNetwork("flannel")
	w.create("--networking", "flannel", "--node-count", "2")
	w.serve()
	w.measureAgents("flanneld")
	w.restartAgents("flannel", "flanneld")
	w.delete()
}

// TestKubeRouter: policies and routes, beside kube-proxy.
func TestKubeRouter(t *testing.T) {
	localtest.ClusterTurn(t, 9, networkTurns)
	w := newWorld(t)
	w.addNetwork("kube-router")
	w.create("--networking", "kube-router", "--node-count", "2")
	w.serve()
	w.measureAgents("kube-router")
	w.checkPolicies("REFUSED")
	w.restartAgents("kube-router", "kube-router")
	w.delete()
}

// TestChangeToCilium changes the pod network of a running cluster.
func TestChangeToCilium(t *testing.T) {
	localtest.ClusterTurn(t, 11, networkTurns)
	w := newWorld(t)
	w.addNetwork("cilium")
	w.create("--node-count", "2")
	w.serve()
	begun, before := time.Now(), w.machines("")
	w.must("edit", "cluster", cluster, "--unset", "spec.networking.kubenet", "--set", "spec.networking.cilium.enableNodePort=true", "--set", "spec.kubeProxy.enabled=false")
	w.must("update", "cluster", cluster, "--yes")
	w.must("rolling-update", "cluster", cluster, "--yes", "--node-interval", "1s", "--control-plane-interval", "1s", "--force")
	w.waitUntilValid()
	w.figures.seconds("change of the network of 3 machines", time.Since(begun))
	w.checkReplaced(namesOf(before), 3)
	w.waitUntilServed(2)
	for _, m := range w.machines("") {
		if links, err := w.machine.RunInside(w.Context(), m.Name, "ip", "-brief", "link"); err != nil || strings.Contains(string(links), "cni0") {
			t.Errorf("%s still has the bridge: %v\n%s", m.Name, err, links)
		}
	}
	w.delete()
}

// addNetwork builds a pod network, unless it was built before, and adds its images to the bundle.
func (w *world) addNetwork(name string) {
	w.Helper()
	start := time.Now()
	c := exec.CommandContext(w.Context(), "go", "run", ".", "-network", name, "-only", name+map[string]string{"flannel": ",flannel-cni-plugin"}[name], newerKubernetes)
	c.Dir = "../../tools/kubernetes"
	if out, err := c.CombinedOutput(); err != nil {
		w.Fatalf("build %s: %v\n%s", name, err, out)
	}
	w.figures.seconds("agents of "+name+", built", time.Since(start))
	w.must("bundle", "create", "--own", filepath.Dir(w.tools.kops), "--dir", w.tools.bundle, "--networking", name, "--offline")
}

// serve runs servers on both workers, and checks that they are reached from pods on the same and on
// another node, by the Service's address and its name, and at every node.
func (w *world) serve() {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/web.yaml")
	w.waitUntilServed(2)
	w.eachPair(func(from, to corev1.Pod) {
		if err := w.connect(from.Name, to.Status.PodIP+":8080"); err != nil {
			w.Errorf("from %s on %s to %s on %s: %v", from.Name, from.Spec.NodeName, to.Name, to.Spec.NodeName, err)
		}
	})
}

// eachPair calls do for each two servers.
func (w *world) eachPair(do func(from, to corev1.Pod)) {
	w.Helper()
	web, err := w.servers(2)
	w.ok(err)
	for _, from := range web {
		for _, to := range web {
			do(from, to)
		}
	}
}

// connect connects from a pod to an address.
func (w *world) connect(pod, address string) error {
	r := w.exec(w.Context(), time.Minute, w.tools.ctl, "exec", pod, "--", "/agnhost", "connect", address, "--timeout=3s")
	if r.code != 0 {
		return fmt.Errorf("%s%s", r.out, r.err)
	}
	return nil
}

// expectConnection waits until a pod can connect to an address, or until it cannot; why is then the expected reason, such as TIMEOUT.
func (w *world) expectConnection(pod, address, why string) {
	w.Helper()
	w.wait(fmt.Sprintf("%s to %s: %q", pod, address, why), 2*time.Minute, func() error {
		err := w.connect(pod, address)
		switch {
		case why == "":
			return err
		case err == nil:
			return fmt.Errorf("it connects")
		case !strings.Contains(err.Error(), why):
			return err
		}
		return nil
	})
}

// checkPolicies: only pods with a label reach the servers, on both nodes; others see their connections end as refused says.
func (w *world) checkPolicies(refused string) {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/policy.yaml")
	w.kubectl("wait", "pod/friend", "pod/stranger", "--for=condition=Ready", "--timeout=60s")
	web, err := w.servers(2)
	w.ok(err)
	for _, p := range web {
		w.expectConnection("stranger", p.Status.PodIP+":8080", refused)
		w.expectConnection("friend", p.Status.PodIP+":8080", "")
	}
	w.kubectl("delete", "networkpolicy", "web")
	w.expectConnection("stranger", web[0].Status.PodIP+":8080", "")
}

// checkCiliumPolicies: a rule that denies, and rules by DNS names; a rule for HTTP is rejected.
func (w *world) checkCiliumPolicies() {
	w.Helper()
	web, err := w.servers(2)
	w.ok(err)
	if r := w.exec(w.Context(), time.Minute, w.tools.ctl, "apply", "-f", "testdata/http.yaml"); r.code == 0 || !strings.Contains(r.err, "this needs Envoy") {
		w.Errorf("a policy with rules for HTTP: %d\n%s%s", r.code, r.out, r.err)
	}
	w.kubectl("apply", "-f", "testdata/deny.yaml")
	w.expectConnection("stranger", web[0].Status.PodIP+":8080", "TIMEOUT")
	w.expectConnection("friend", web[0].Status.PodIP+":8080", "")
	w.kubectl("delete", "ciliumnetworkpolicy", "web")

	network, err := netip.MustParseAddr(w.machines("")[0].Address).Prefix(24)
	w.ok(err)
	host := network.Addr().Next().String() // the host's address in the cluster's network is the first
	text, err := os.ReadFile("testdata/names.yaml")
	w.ok(err)
	file := filepath.Join(w.TempDir(), "names.yaml")
	w.ok(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "HOST", host)), 0o600))
	port := ":" + strconv.Itoa(localcloud.MirrorPort)
	w.expectConnection("stranger", host+port, "")
	w.kubectl("apply", "-f", file)
	w.expectConnection("stranger", host+port, "TIMEOUT")                          // its name was not looked up
	w.expectConnection("stranger", "web.default.svc.cluster.local.:80", "DNS")    // a forbidden name
	w.expectConnection("stranger", "outside.default.svc.cluster.local."+port, "") // a name of the rule
	w.expectConnection("stranger", host+port, "")                                 // its address, from now on
	w.expectConnection("stranger", web[0].Status.PodIP+":8080", "TIMEOUT")        // another
	w.kubectl("delete", "ciliumnetworkpolicy", "names")
}

// restartAgents restarts all agents under load, and no request fails.
func (w *world) restartAgents(label, program string) {
	w.Helper()
	namespace, key := "kube-system", "k8s-app"
	if label == "flannel" {
		namespace, key = "kube-flannel", "app"
	}
	before := w.processesOf(program)
	l := w.startLoad()
	begun := time.Now()
	w.kubectl("delete", "pods", "--namespace", namespace, "--selector", key+"="+label)
	w.wait("other agents on all nodes", clusterTime, func() error {
		now := w.processesOf(program)
		for name, pid := range now {
			if pid == 0 || pid == before[name] {
				return fmt.Errorf("%s has none, or the old one", name)
			}
		}
		return nil
	})
	w.waitUntilValid()
	l.waitForWrites()
	l.stopAndCheck("agents restarted", begun, longestGap)
	w.waitUntilServed(2)
}

// processesOf returns the process of a program on each machine, or 0.
func (w *world) processesOf(program string) map[string]int {
	w.Helper()
	out := map[string]int{}
	for _, m := range w.machines("") {
		out[m.Name] = 0
		pids, err := w.machine.Group(m.Name).Processes()
		w.ok(err)
		for _, pid := range pids {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == program {
				out[m.Name] = pid
			}
		}
	}
	return out
}

// measureAgents measures the memory of an agent, which runs on every machine.
func (w *world) measureAgents(program string) {
	w.Helper()
	for name, pid := range w.processesOf(program) {
		if pid == 0 {
			w.Errorf("no %s runs on %s", program, name)
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		w.ok(err)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				w.ok(err)
				if mb := float64(kib) * 1024 / 1e6; mb > w.figures["resident memory of "+program+" MB"] {
					w.figures["resident memory of "+program+" MB"] = mb
				}
			}
		}
	}
}

// checkHooks: an agent's programs are attached to its machine's control group, and to none that has
// other processes of this host.
func (w *world) checkHooks() {
	w.Helper()
	for _, t := range w.machine.Trees {
		if !t.Unified {
			continue
		}
		if n := w.hooks(t.Dir); n > 0 {
			w.Errorf("%d programs are attached to all processes of this host, at %s", n, t.Dir)
		}
		w.eachMachine(func(m machine.Machine) {
			dir, found := filepath.Join(t.Dir, w.machine.Group(m.Name).Path), 0
			for at := filepath.Dir(dir); at != t.Dir; at = filepath.Dir(at) {
				if n := w.hooks(at); n > 0 {
					w.Errorf("%d programs are attached above %s, at %s", n, m.Name, at)
				}
			}
			w.ok(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					found += w.hooks(path)
				}
				return nil // groups come and go
			}))
			if found == 0 {
				w.Errorf("no program is attached within %s", dir)
			}
		})
	}
}

func (w *world) eachMachine(do func(machine.Machine)) {
	w.Helper()
	for _, m := range w.machines("") {
		do(m)
	}
}

// hooks returns how many programs are attached to a control group itself for connections to IPv4 addresses.
func (w *world) hooks(dir string) int {
	w.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0 // it has gone
	}
	defer unix.Close(fd)
	query := struct { // of union bpf_attr
		target, kind, flags, attachFlags uint32
		programs                         uint64
		count, _                         uint32
		_                                [4]uint64
	}{target: uint32(fd), kind: unix.BPF_CGROUP_INET4_CONNECT}
	if _, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&query)), unsafe.Sizeof(query)); e != 0 && e != unix.ENOSPC {
		w.Fatalf("query the programs of %s: %v", dir, e)
	}
	return int(query.count)
}
