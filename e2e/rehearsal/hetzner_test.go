package rehearsal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// TestHetzner creates a cluster on Hetzner Cloud of a control plane and two workers, from its user data
// alone. A worker and the only control plane are killed, and their servers are deleted: an update creates
// each again, with the volumes of etcd and all data. A change that only new servers have is rolled through
// the workers once, with one more server at a time, and, if KOPS_E2E=whole is set, through the control
// plane.
func TestHetzner(t *testing.T) {
	localtest.ClusterTurn(t, 2, 4)
	planes := 0 // to roll
	if localtest.IsFull() {
		planes = 1
	}
	w := newWorld(t, "hetzner", "flannel", "hos://kops-rehearsal")
	kops := func(args string) string {
		t.Helper()
		return w.must("exec kops " + args)
	}
	kops("create cluster --cloud hetzner --zones fsn1 --networking flannel --node-count 2 " + cluster)
	begun := time.Now()
	kops("update cluster " + cluster + " --yes --admin")
	t.Logf("FIGURE Hetzner, the first update: %s", time.Since(begun).Round(100*time.Millisecond))
	w.checkUnchanged("")
	kops("validate cluster " + cluster + " --wait 10m --interval 1s")
	t.Logf("FIGURE Hetzner, 1 + 2 from the update to validated: %s", time.Since(begun).Round(100*time.Millisecond))
	w.nodes(3)
	w.serves()
	w.checkChecked()
	w.checkNoSecretIsShown()
	w.note()
	w.checkCreatedAgain("worker", w.nodesWithRole("node")[0], 3)
	w.checkCreatedAgain("control plane", w.nodesWithRole("control-plane")[0], 3)
	w.noted()

	before := w.machines()
	for _, g := range []string{"nodes-fsn1", "control-plane-fsn1"}[:1+planes] {
		kops("edit instancegroup " + g + " --name " + cluster + " --set spec.machineType=cpx22")
	}
	kops("update cluster " + cluster + " --yes")
	if out := kops("rolling-update cluster " + cluster); strings.Count(out, "spec.machineType") != 2+planes {
		t.Errorf("the preview of the roll:\n%s", out)
	}
	begun = time.Now()
	kops("rolling-update cluster " + cluster + " --yes --node-interval 1s --control-plane-interval 1s 2>&1")
	t.Logf("FIGURE Hetzner, %d + 2 rolled: %s", planes, time.Since(begun).Round(time.Second))
	w.nodes(3)
	if left := slices.DeleteFunc(w.machines(), func(m string) bool { return !slices.Contains(before, m) }); len(left) != 1-planes {
		t.Errorf("%v were not replaced", left)
	}
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "No rolling-update required") {
		t.Errorf("a rolling update of what is up to date:\n%s", out)
	}
	kops("validate cluster " + cluster + " --wait 8m --interval 1s")
	w.noted()
	kops("delete cluster " + cluster + " --yes")
	w.waitUntilGone()
	for _, kind := range []string{"servers", "volumes", "networks", "load_balancers", "firewalls", "ssh_keys"} {
		if out := w.hetzner(http.MethodGet, kind); strings.Contains(out, cluster) {
			t.Errorf("the deletion has left %s:\n%s", kind, out)
		}
	}
}

// hetzner sends a request to the API, with the token of the user's programs.
func (w *world) hetzner(method, path string) string {
	w.Helper()
	token := w.must(`printf %s "$HCLOUD_TOKEN"`)
	r, err := http.NewRequestWithContext(w.Context(), method, "https://api.hetzner.cloud/v1/"+path, http.NoBody)
	w.ok(err)
	r.Header.Set("Authorization", "Bearer "+token)
	return w.send(r)
}

// checkCreatedAgain kills a machine, whose server is off then. It deletes the server, as its owner would, and
// checks that an update creates another one, and that the cluster recovers.
func (w *world) checkCreatedAgain(what, doomed string, size int) {
	w.Helper()
	begun := time.Now()
	w.kill(doomed)
	var id int64
	w.wait("the server of the "+what+" to be off", func() error {
		var all struct {
			Servers []struct {
				ID     int64
				Status string
			}
		}
		text := w.hetzner(http.MethodGet, "servers?name="+doomed)
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all.Servers) != 1 || all.Servers[0].Status != "off" {
			return fmt.Errorf("the servers are %s, %v", text, err)
		}
		id = all.Servers[0].ID
		return nil
	})
	w.hetzner(http.MethodDelete, fmt.Sprint("servers/", id))
	if out := w.must("kops update cluster " + cluster + " --yes"); strings.Contains(out, "No changes") {
		w.Errorf("the update creates no %s:\n%s", what, out)
	}
	w.wait("only nodes with a server", func() error {
		list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != size || slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name == doomed }) {
			return fmt.Errorf("there are %d nodes, with %s or without", len(list.Items), doomed)
		}
		return nil
	})
	w.nodes(size)
	w.must("kops validate cluster " + cluster + " --wait 8m --interval 1s")
	w.Logf("FIGURE Hetzner, a killed %s, until the cluster is valid again: %s", what, time.Since(begun).Round(time.Second))
	w.wait("two servers again", func() error {
		_, err := w.servers(1)
		return err
	})
}

// checkNoSecretIsShown checks that neither the token nor the keys of the store are in pods, which more
// people may read than Secrets, nor the token in user data.
func (w *world) checkNoSecretIsShown() {
	w.Helper()
	token, key := w.must(`printf %s "$HCLOUD_TOKEN"`), w.must(`printf %s "$S3_SECRET_ACCESS_KEY"`)
	if out := w.must("kubectl get pods,configmaps,nodes,daemonsets,deployments -A -o json"); strings.Contains(out, token) || strings.Contains(out, key) {
		w.Error("a secret is in the pods or elsewhere in the open")
	}
	for _, m := range w.machines() {
		if log, err := w.rehearsal.Machines().Console(m); err != nil || strings.Contains(string(log), token) || strings.Contains(string(log), key) {
			w.Errorf("a secret is on the console of %s, %v", m, err)
		}
	}
}
