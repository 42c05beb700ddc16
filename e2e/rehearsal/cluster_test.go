package rehearsal

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
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

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

const cluster = "cluster.example.com"

// readmeCommands returns the commands of the README's chapter on clusters in a cloud, one per line.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## A cluster in a cloud\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README has no chapter on clusters in a cloud")
	}
	var out []string
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// TestTheChapter runs the README's chapter on clusters in a cloud unchanged. In between, a
// worker and the only control plane are killed.
func TestTheChapter(t *testing.T) {
	skipUnlessPicked(t, "aws", 0, 3)
	w := newWorld(t, "aws", "cilium", "s3://my-state-store")
	w.bucket("my-state-store")
	// The editor increases the size of a group by one.
	w.env = append(w.env, `EDITOR=sed -i -e 's/\(minSize\|maxSize\): 2/\1: 3/'`)
	exports, updates := "", 0
	var begun time.Time
	for _, line := range readmeCommands(t) {
		if strings.HasPrefix(line, "export ") {
			exports = line + "; "
			continue
		}
		started := time.Now()
		out := w.must(exports + line)
		switch {
		case strings.Contains(line, "update cluster") && strings.Contains(line, "--yes"):
			if updates++; updates == 1 {
				begun = time.Now()
				t.Logf("FIGURE the first update: %s", time.Since(started).Round(100*time.Millisecond))
				w.checkUnchanged(exports)
			} else {
				w.nodes(4)
			}
		case strings.Contains(line, "validate cluster"):
			t.Logf("FIGURE 1 + 2 from the update to validated: %s", time.Since(begun).Round(100*time.Millisecond))
			w.serves()
			w.checkChecked()
			w.note()
			w.killInstance(exports, "worker", w.nodesWithRole("node")[0])
			w.killInstance(exports, "control plane", w.nodesWithRole("control-plane")[0])
			w.noted()
		case strings.Contains(line, "delete cluster") && !strings.Contains(line, "--yes") && !strings.Contains(out, "Must specify --yes"):
			t.Errorf("the preview of the deletion:\n%s", out)
		}
	}
	w.waitUntilGone("my-state-store")
}

// waitUntilGone checks that no instance is left, and that some buckets are empty.
func (w *world) waitUntilGone(buckets ...string) {
	w.Helper()
	w.wait("no instance is left", func() error {
		if left := w.machines(); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	for _, b := range buckets {
		if left := w.objects(b); left != "" {
			w.Errorf("the deletion has left in the bucket %s:\n%s", b, left)
		}
	}
}

// checkUnchanged checks that an update right after another has nothing to do.
func (w *world) checkUnchanged(exports string) {
	w.Helper()
	begun := time.Now()
	if out := w.must(exports + "kops update cluster " + cluster + " --yes"); !strings.Contains(out, "No changes") {
		w.Errorf("an update right after an update:\n%s", out)
	}
	w.Logf("FIGURE the second update, which sends nothing: %s", time.Since(begun).Round(100*time.Millisecond))
}

// newHTTPClient returns an HTTP client for the services of the rehearsal.
func (w *world) newHTTPClient() *http.Client {
	w.Helper()
	text, err := os.ReadFile(inWorkplace("stage/rehearsal/authority.pem"))
	w.ok(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer().DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

func (w *world) query(method, url, body string) string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, url, strings.NewReader(body))
	w.ok(err)
	return w.send(r)
}

func (w *world) send(r *http.Request) string {
	w.Helper()
	answer, err := w.newHTTPClient().Do(r)
	w.ok(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	w.ok(err)
	if answer.StatusCode >= 300 {
		w.Fatalf("%s %s: %s\n%s", r.Method, r.URL, answer.Status, text)
	}
	return string(text)
}

func (w *world) bucket(name string) {
	w.Helper()
	w.query(http.MethodPut, "https://"+name+".s3.us-east-1.amazonaws.com/", "")
}

// objects lists the keys in a bucket.
func (w *world) objects(bucket string) string {
	w.Helper()
	text := w.query(http.MethodGet, "https://"+bucket+".s3.us-east-1.amazonaws.com/?list-type=2", "")
	var out []string
	for part := range strings.SplitSeq(text, "<Key>") {
		if key, _, ok := strings.Cut(part, "</Key>"); ok {
			out = append(out, key)
		}
	}
	return strings.Join(out, "\n")
}

// nodes waits until the given number of nodes is ready, each with an instance.
func (w *world) nodes(size int) []corev1.Node {
	w.Helper()
	var out []corev1.Node
	w.wait(fmt.Sprintf("%d nodes", size), func() error {
		list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		machines := w.machines()
		for _, n := range list.Items {
			if !slices.Contains(machines, n.Name) {
				return fmt.Errorf("the node %s has no instance", n.Name)
			}
			if readySince(n).IsZero() {
				return fmt.Errorf("the node %s is not ready", n.Name)
			}
		}
		if out = list.Items; len(out) != size {
			return fmt.Errorf("there are %d nodes", len(out))
		}
		return nil
	})
	return out
}

// readySince returns when a node became ready; zero if it is not.
func readySince(n corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// serves runs two servers, and checks them from every side.
func (w *world) serves() {
	w.Helper()
	file, err := filepath.Abs("testdata/web.yaml")
	w.ok(err)
	w.must("kubectl apply -f " + file)
	var pods []corev1.Pod
	w.wait("two servers", func() (err error) {
		pods, err = w.servers(2)
		return err
	})
	if out := w.must("kubectl logs " + pods[0].Name); !strings.Contains(out, "Started HTTP server on port 8080") {
		w.Errorf("kubectl logs shows %q", out)
	}
	w.wait("the Service, by its names, from each server", func() error {
		for _, p := range pods {
			for _, name := range []string{"web", "web.default.svc.cluster.local"} {
				if err := w.dial(p.Name, name, 2); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w.wait("a connection to the API from a pod", func() error {
		_, err := w.try("kubectl exec " + pods[0].Name + " -- /agnhost connect kubernetes.default.svc.cluster.local:443 --timeout=5s")
		return err
	})
}

// servers returns the two servers, once both are ready, on at least the given number of nodes.
func (w *world) servers(nodes int) ([]corev1.Pod, error) {
	list, err := w.api().CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return nil, err
	}
	machines, on := w.machines(), map[string]bool{}
	for _, p := range list.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
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

// dial makes a pod call the Service many times; the given number of servers must answer.
func (w *world) dial(pod, name string, want int) error {
	params := map[string]string{"host": name, "port": "80", "protocol": "http", "request": "hostName", "tries": "20"}
	text, err := w.api().CoreV1().Pods("default").ProxyGet("http", pod, "8080", "dial", params).DoRaw(w.Context())
	if err != nil {
		return err
	}
	var answer struct{ Responses, Errors []string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	slices.Sort(answer.Responses)
	if got := slices.Compact(answer.Responses); len(got) != want || len(answer.Errors) > 0 {
		return fmt.Errorf("from %s to %s: %v answered; errors: %v", pod, name, got, answer.Errors)
	}
	return nil
}

// kill terminates an instance immediately, like a power failure.
func (w *world) kill(instance string) {
	w.Helper()
	h, err := machine.NewHost(site.Site{Root: inWorkplace("stage"), Cluster: "rehearsal"})
	w.ok(err)
	w.ok(h.Group(instance).Kill(w.Context()))
}

// checkChecked checks that each instance has a source/destination check, because pods' packets are in
// packets of nodes.
func (w *world) checkChecked() {
	w.Helper()
	bridge := site.Site{Root: inWorkplace("stage"), Cluster: "rehearsal"}.Bridge()
	out, err := exec.CommandContext(w.Context(), "nft", "list", "table", "bridge", bridge).CombinedOutput()
	if n := strings.Count(string(out), "oifname"); err != nil || n != len(w.machines()) {
		w.Errorf("the addresses of %d of %d instances are checked: %v\n%s", n, len(w.machines()), err, out)
	}
}

// killInstance kills an instance: its group creates another, with the volumes of the first.
func (w *world) killInstance(exports, what, doomed string) {
	w.Helper()
	before := w.machines()
	begun := time.Now()
	w.kill(doomed)
	var launched time.Time
	fresh := ""
	w.wait("another "+what, func() error {
		now := w.machines()
		i := slices.IndexFunc(now, func(m string) bool { return !slices.Contains(before, m) })
		if i < 0 || slices.Contains(now, doomed) {
			return fmt.Errorf("the instances are %v", now)
		}
		fresh = now[i]
		if launched.IsZero() {
			launched = time.Now()
		}
		return nil
	})
	for _, n := range w.nodes(len(before)) {
		if n.Name == fresh {
			w.Logf("FIGURE a %s, from its start to ready: %s", what, readySince(n).Sub(launched).Round(time.Second))
		}
	}
	w.must(exports + "kops validate cluster " + cluster + " --wait 8m --interval 1s")
	w.Logf("FIGURE a killed %s, until the cluster is valid again: %s", what, time.Since(begun).Round(time.Second))
	w.wait("two servers again", func() error {
		_, err := w.servers(1) // a dead node's server may have moved to another node that already has one
		return err
	})
}

// nodesWithRole returns the nodes of a role.
func (w *world) nodesWithRole(role string) []string {
	w.Helper()
	list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/" + role})
	w.ok(err)
	var out []string
	for _, n := range list.Items {
		out = append(out, n.Name)
	}
	return out
}

// note stores something in the cluster, and noted finds it.
func (w *world) note() {
	w.Helper()
	_, err := w.api().CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}, Data: map[string]string{"is": "kept"}}, metav1.CreateOptions{})
	w.ok(err)
}

func (w *world) noted() {
	w.Helper()
	m, err := w.api().CoreV1().ConfigMaps("default").Get(w.Context(), "note", metav1.GetOptions{})
	if err != nil || m.Data["is"] != "kept" {
		w.Errorf("what was in the cluster before: %v, %v", m.Data, err)
	}
}
