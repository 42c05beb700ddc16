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
)

// TestHetzner creates a cluster on Hetzner Cloud of a control plane and two workers, from its user data
// alone. A worker and the only control plane are killed, and their servers are deleted: an update creates
// each again, with the volumes of etcd and all data. A change that only new servers have is rolled through
// the workers once, with one more server at a time, and, if KOPS_E2E=whole is set, through the control
// plane.
func TestHetzner(t *testing.T) {
	skipUnlessPicked(t, "hetzner", 0, 1)
	w := newWorld(t, "hetzner", "flannel", "hos://kops-rehearsal")
	w.live(life{cloud: "Hetzner", create: "--cloud hetzner --zones fsn1 --networking flannel", groups: [2]string{"nodes-fsn1", "control-plane-fsn1"},
		change: "spec.machineType=cpx22", field: "spec.machineType", recreate: w.recreateServer, check: func() {
			w.checkChecked()
			w.checkNoSecretIsShown()
		}})
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

// recreateServer waits until the server of a machine that was killed is off, deletes it, as its owner would,
// and checks that an update creates another one, whose node takes the place of the old one.
func (w *world) recreateServer(what, doomed string, _ time.Time) {
	w.Helper()
	var id int64
	w.wait("the server of the "+what+" to be off", func() error {
		var all struct {
			Servers []struct {
				ID     int64
				Status string
			}
		}
		text := w.hetzner(http.MethodGet, "servers?name="+doomed)
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return err
		}
		if len(all.Servers) != 1 || all.Servers[0].Status != "off" {
			return fmt.Errorf("the servers are %s", text)
		}
		id = all.Servers[0].ID
		return nil
	})
	w.hetzner(http.MethodDelete, fmt.Sprint("servers/", id))
	if out := w.must("kops update cluster " + cluster + " --yes"); strings.Contains(out, "No changes need to be applied") {
		w.Errorf("the update creates no %s:\n%s", what, out)
	}
	w.wait("only nodes with a server", func() error {
		list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 3 || slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name == doomed }) {
			return fmt.Errorf("there are %d nodes, with %s or without", len(list.Items), doomed)
		}
		return nil
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
