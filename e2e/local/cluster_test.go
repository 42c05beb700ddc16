package local

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform/local/machine"
)

// nodes is the group of workers of a new cluster.
const nodes = "nodes-local"

// create creates a cluster, waits until it is ready, and measures both.
func (w *world) create(args ...string) {
	w.Helper()
	start := time.Now()
	r := w.must(append([]string{"create", "cluster", "--cloud", "local", cluster, "--yes"}, args...)...)
	w.figures.seconds("the command that creates the cluster", r.took)
	v := w.waitUntilValid()
	w.figures.seconds("created to ready", time.Since(start))
	w.measureStarts()
	if all := w.machines(""); len(v.Nodes) != len(all) {
		w.Errorf("the cluster was found ready with %d nodes, and has %d machines", len(v.Nodes), len(all))
	}
}

// waitUntilValid waits until kops reports the cluster ready.
func (w *world) waitUntilValid() health.Validation {
	w.Helper()
	r := w.must("validate", "cluster", cluster, "--wait", clusterTime.String(), "--interval", "500ms", "-o", "json")
	said := strings.Split(strings.TrimSpace(r.err), "\n")
	w.Logf("the cluster is ready: after %s\n%s", r.took.Round(time.Millisecond), strings.Join(said[max(0, len(said)-6):], "\n"))
	var v health.Validation
	w.ok(json.Unmarshal([]byte(r.out), &v))
	return v
}

// delete deletes the cluster and checks that nothing is left of it.
func (w *world) delete() {
	w.Helper()
	r := w.must("delete", "cluster", cluster)
	for _, want := range []string{"local_network", "local_machine_group", "Must specify --yes"} {
		if !strings.Contains(r.out, want) {
			w.Errorf("the preview of the deletion lacks %q:\n%s", want, r.out)
		}
	}
	if len(w.machines("")) == 0 {
		w.Error("the preview of the deletion has deleted machines")
	}
	r = w.must("delete", "cluster", cluster, "--yes")
	w.figures.seconds("delete the cluster", r.took)
	w.checkNothingLeft()
}

// checkUnchanged checks that the cluster matches its objects: neither a preview nor an update
// has anything to do.
func (w *world) checkUnchanged() {
	w.Helper()
	before := w.machines("")
	r := w.must("update", "cluster", cluster, "--detailed-exitcode")
	w.figures.seconds("preview without changes", r.took)
	if !strings.Contains(r.out, "No changes need to be applied") {
		w.Errorf("a preview has changes:\n%s", r.out)
	}
	r = w.must("update", "cluster", cluster, "--yes")
	w.figures.seconds("update without changes", r.took)
	if after := w.machines(""); !slices.Equal(namesOf(before), namesOf(after)) {
		w.Errorf("an update without changes replaced machines: %v, then %v", namesOf(before), namesOf(after))
	}
	if r = w.must("update", "cluster", cluster); !strings.Contains(r.out, "No changes need to be applied") {
		w.Errorf("a preview after an update has changes:\n%s", r.out)
	}
}

// machines returns the running machines of a group; of all groups if it is "".
func (w *world) machines(group string) []machine.Machine {
	w.Helper()
	all, err := w.machine.List()
	w.ok(err)
	return slices.DeleteFunc(all, func(m machine.Machine) bool { return !m.Running || group != "" && m.Group != group })
}

// controlPlanes and workers return the running machines of each kind.
func (w *world) controlPlanes() []machine.Machine {
	w.Helper()
	return slices.DeleteFunc(w.machines(""), func(m machine.Machine) bool { return m.Labels["role"] != "control-plane" })
}

func (w *world) workers() []machine.Machine {
	w.Helper()
	return slices.DeleteFunc(w.machines(""), func(m machine.Machine) bool { return m.Labels["role"] == "control-plane" })
}

func namesOf(machines []machine.Machine) []string {
	var out []string
	for _, m := range machines {
		out = append(out, m.Name)
	}
	return out
}

// kill terminates a machine immediately, like a power failure.
func (w *world) kill(name string) {
	w.Helper()
	w.ok(w.machine.Group(name).Kill(w.Context()))
}

// waitUntilJoined waits until a group has the given number of machines whose nodes are ready, and the
// cluster has no nodes of other machines.
func (w *world) waitUntilJoined(group string, size int) []machine.Machine {
	w.Helper()
	var out []machine.Machine
	w.wait(fmt.Sprintf("%d nodes of %s", size, group), clusterTime, func() error {
		out = w.machines(group)
		list, err := w.client().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(out) != size {
			return fmt.Errorf("the machines are %v", namesOf(out))
		}
		all := namesOf(w.machines(""))
		var ready []string
		for _, n := range list.Items {
			if !slices.Contains(all, n.Name) {
				return fmt.Errorf("the node %s has no machine; the machines are %v", n.Name, all)
			}
			if !readySince(&n).IsZero() {
				ready = append(ready, n.Name)
			}
		}
		for _, name := range namesOf(out) {
			if !slices.Contains(ready, name) {
				return fmt.Errorf("%s is not ready", name)
			}
		}
		return nil
	})
	return out
}

// TestCluster creates a cluster, serves an application, scales and replaces its machines, and deletes it.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	w.create("--node-count", "2")
	w.checkUnchanged()
	w.deploy()
	w.measureMachines()
	w.scale()
	w.replaceDead()
	w.exportAccess()
	w.delete()
}

// deploy runs the servers of testdata, and checks them from every side.
func (w *world) deploy() {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/web.yaml")
	web := w.waitUntilServed(2)
	if out := w.kubectl("logs", web[0].Name); !strings.Contains(out, "Started HTTP server on port 8080") {
		w.Errorf("kubectl logs shows %q", out)
	}
	connect := func(name string) result {
		return w.exec(w.Context(), time.Minute, w.tools.ctl, "exec", web[0].Name, "--", "/agnhost", "connect", name+".default.svc.cluster.local:443", "--timeout=5s")
	}
	w.wait("a connection to the API from a pod", clusterTime, func() error {
		if r := connect("kubernetes"); r.code != 0 {
			return fmt.Errorf("exit %d, %s%s", r.code, r.out, r.err)
		}
		return nil
	})
	w.wait("an answer that a name does not exist", clusterTime, func() error {
		if r := connect("none"); r.code == 0 || !strings.Contains(r.out+r.err, "DNS") {
			return fmt.Errorf("exit %d, %s%s", r.code, r.out, r.err)
		}
		return nil
	})
	w.checkPacketsRefused(web[0].Spec.NodeName)
	w.wait("calls of the API with the token of a pod", clusterTime, func() error {
		out := w.kubectl("logs", "caller")
		if strings.Contains(out, "status=failed") {
			w.Fatalf("the API refuses a pod:\n%s", out)
		}
		if strings.Count(out, "calling /healthz") < 2 { // the first had been answered by then
			return errors.New("it has not called yet")
		}
		return nil
	})
}

// checkPacketsRefused checks that packets to an address without a pod leave neither a machine nor this host.
func (w *world) checkPacketsRefused(name string) {
	w.Helper()
	way := []string{"ip", "route", "get", "100.127.255.77"} // no node has the last pod range
	out, err := exec.CommandContext(w.Context(), way[0], way[1:]...).CombinedOutput()
	if err == nil {
		w.Errorf("the host sends packets to nobody's pod %s", out)
	}
	if inside, err := w.machine.RunInside(w.Context(), name, way...); err == nil {
		w.Errorf("%s sends packets to nobody's pod %s", name, inside)
	} else if !strings.Contains(err.Error()+string(inside), "No route to host") || !strings.Contains(string(out), "No route to host") {
		w.Errorf("packets to nobody's pod: on the host %s, on %s %v %s", out, name, err, inside)
	}
}

// waitUntilServed waits until two servers run on the given number of workers, and until each pod and
// the host reach both through the Service.
func (w *world) waitUntilServed(workers int) (web []corev1.Pod) {
	w.Helper()
	w.waitForServers(workers)
	w.wait("the Service, from its pods and at every node", clusterTime, func() (err error) {
		if web, err = w.servers(workers); err != nil { // they may have changed by now
			return err
		}
		want := podNames(web)
		for _, p := range web {
			for _, name := range []string{"web", "web.default.svc.cluster.local"} {
				if err := w.dial(p.Name, name, want); err != nil {
					return fmt.Errorf("as %s from %s: %w", name, p.Name, err)
				}
			}
		}
		for _, m := range w.machines("") {
			if err := nodePort(m.Address, want); err != nil {
				return fmt.Errorf("the NodePort of %s: %w", m.Name, err)
			}
		}
		return nil
	})
	return web
}

// waitForServers waits until two servers run, on at least the given number of nodes.
func (w *world) waitForServers(nodes int) []corev1.Pod {
	w.Helper()
	var web []corev1.Pod
	took := w.wait("two servers", clusterTime, func() (err error) {
		web, err = w.servers(nodes)
		return err
	})
	if _, again := w.figures["two servers after apply s"]; !again {
		w.figures.seconds("two servers after apply", took)
	}
	return web
}

// servers returns the two servers, once both are ready, on at least the given number of nodes.
func (w *world) servers(nodes int) ([]corev1.Pod, error) {
	list, err := w.client().CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return nil, err
	}
	machines := namesOf(w.machines(""))
	on := map[string]bool{}
	for _, p := range list.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || p.DeletionTimestamp != nil || !slices.Contains(machines, p.Spec.NodeName) {
			return nil, fmt.Errorf("the pod %s on %q is not ready: %s", p.Name, p.Spec.NodeName, p.Status.Phase)
		}
		on[p.Spec.NodeName] = true
	}
	if len(list.Items) != 2 || len(on) < nodes {
		return nil, fmt.Errorf("%d pods are on %d nodes", len(list.Items), len(on))
	}
	return list.Items, nil
}

// podNames returns the names of pods, sorted.
func podNames(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

// dial makes a pod call the Service many times, and compares the servers that answered.
func (w *world) dial(pod, name string, want []string) error {
	params := map[string]string{"host": name, "port": "80", "protocol": "http", "request": "hostName", "tries": "20"}
	text, err := w.client().CoreV1().Pods("default").ProxyGet("http", pod, "8080", "dial", params).DoRaw(w.Context())
	if err != nil {
		return err
	}
	var answer struct{ Responses, Errors []string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	slices.Sort(answer.Responses)
	if got := slices.Compact(answer.Responses); !slices.Equal(got, want) || len(answer.Errors) > 0 {
		return fmt.Errorf("answers came from %v and not from %v; errors: %v", got, want, answer.Errors)
	}
	return nil
}

// nodePort calls the Service at a node many times from the host, and compares the servers that answered.
func nodePort(address string, want []string) error {
	c := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var got []string
	for range 20 {
		r, err := c.Get("http://" + net.JoinHostPort(address, "30080") + "/hostname")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close() //nolint:errcheck // only read
		if err != nil {
			return err
		}
		got = append(got, string(text))
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		return fmt.Errorf("answers came from %v and not from %v", got, want)
	}
	return nil
}

// scale adds a worker by `kops edit` and removes one by `kops replace`.
func (w *world) scale() {
	w.Helper()
	was := w.must("get", "instancegroups", nodes, "--name", cluster, "-o", "yaml").out
	file := filepath.Join(workplace, "home", "group.yaml")
	w.ok(os.WriteFile(file, []byte(was), 0o600))
	w.must("edit", "instancegroup", nodes, "--name", cluster, "--set", "spec.maxSize=3", "--set", "spec.minSize=3")
	if r := w.must("update", "cluster", cluster); !strings.Contains(r.out, "local_machine_group/"+nodes) || strings.Contains(r.out, "local_network/") {
		w.Errorf("the preview of a change of size:\n%s", r.out)
	}
	start := time.Now()
	w.must("update", "cluster", cluster, "--yes")
	w.waitUntilJoined(nodes, 3)
	w.figures.seconds("a worker more, to ready", time.Since(start))
	w.waitUntilValid()

	w.must("replace", "-f", file)
	start = time.Now()
	w.must("update", "cluster", cluster, "--yes")
	w.waitUntilJoined(nodes, 2)
	w.figures.seconds("a worker less, until its Node is gone", time.Since(start))
	w.waitUntilValid()
	w.checkUnchanged()
	w.waitUntilServed(2)
}

// replaceDead kills a worker with a server on it.
func (w *world) replaceDead() {
	w.Helper()
	doomed := w.waitForServers(2)[0].Spec.NodeName
	start := time.Now()
	w.kill(doomed)
	w.wait("the machine that replaces "+doomed, clusterTime, func() error {
		if now := namesOf(w.machines(nodes)); len(now) != 2 || slices.Contains(now, doomed) {
			return fmt.Errorf("the machines are %v", now)
		}
		return nil
	})
	w.waitUntilJoined(nodes, 2)
	w.figures.seconds("a killed worker is replaced, its Node gone", time.Since(start))
	// The dead worker's pod may have moved to the other worker before the new one existed.
	if web := w.waitUntilServed(1); web[0].Spec.NodeName == web[1].Spec.NodeName {
		w.kubectl("delete", "pod", web[0].Name)
		w.waitUntilServed(2)
	}
	w.figures.seconds("a killed worker's pods serve again", time.Since(start))
	w.waitUntilValid()
	w.checkUnchanged()
}

// exportAccess writes the cluster into a file that already contains another cluster.
func (w *world) exportAccess() {
	w.Helper()
	file := filepath.Join(workplace, "home", "other")
	other := clientcmdapi.NewConfig()
	other.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other.example.com"}
	other.Contexts["other"] = &clientcmdapi.Context{Cluster: "other"}
	other.CurrentContext = "other"
	w.ok(clientcmd.WriteToFile(*other, file))
	w.must("export", "kubeconfig", cluster, "--admin=1h", "--kubeconfig", file)
	got, err := clientcmd.LoadFromFile(file)
	w.ok(err)
	if got.Clusters["other"] == nil || got.Contexts["other"] == nil || got.CurrentContext != cluster {
		w.Errorf("the file has the clusters %v and the current context %s", got.Clusters, got.CurrentContext)
	}
	if left := validFor(w, got); left < 50*time.Minute || left > time.Hour+time.Minute {
		w.Errorf("a certificate for an hour is valid for %s", left)
	}
	w.kubectl("--kubeconfig", file, "get", "nodes")
}

// validFor returns the remaining validity of the certificate of the cluster's user.
func validFor(w *world, c *clientcmdapi.Config) time.Duration {
	w.Helper()
	user := c.AuthInfos[c.Contexts[cluster].AuthInfo]
	block, _ := pem.Decode(user.ClientCertificateData)
	if block == nil {
		w.Fatal("the user has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	w.ok(err)
	return time.Until(cert.NotAfter)
}
