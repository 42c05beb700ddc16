package agent_test

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	kopscontroller "kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store/clusterstore"
)

const day = 24 * time.Hour

// texts returns the contents of the machine's files, without caches.
func (w *world) texts() map[string]string {
	out := map[string]string{}
	for _, f := range w.files() {
		path, _, _ := strings.Cut(f.Name, " ")
		if !strings.Contains(f.Name, " -> ") {
			out[path] = w.read(path)
		}
	}
	return out
}

// changedFiles lists the files that differ.
func changedFiles(before, after map[string]string) []string {
	var out []string
	for path, text := range after {
		if before[path] != text {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// A worker whose node is ready renews through kops-controller although its group's
// configuration has changed by now, and programs that read a certificate only at
// startup are restarted.
func TestAWorkerRenewsItsCertificates(t *testing.T) {
	w := newControl(t)
	a := w.agent()
	a.Join = w.join
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	w.nodes.state = kopscontroller.NodeReady
	begun := now()
	pass := func(d time.Duration) {
		at := func() time.Time { return begun.Add(d) }
		w.clock, w.its, w.machine.Now, a.Clock.Now = at, at, at, at
	}
	asked := 0
	count := func(at http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { asked++; at(rw, r) }
	}
	w.server.Config.Handler = count(w.server.Config.Handler.ServeHTTP)
	before := w.texts()
	pass(10 * day)
	if err := a.Renew(t.Context(), w.boot); err != nil || asked > 0 {
		t.Fatalf("long before the end it asked %d times: %v", asked, err)
	}
	if got := changedFiles(before, w.texts()); len(got) > 0 {
		t.Errorf("long before the end it wrote %v", got)
	}
	pass(22 * day)
	for _, restarted := range [][]string{{"/etc/systemd/system/kubelet.service"}, {"/etc/kubernetes/manifests/kube-proxy.manifest"}} {
		was := w.texts()
		if err := a.Renew(t.Context(), w.boot); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(changedFiles(was, w.texts()), func(f string) bool { return !strings.HasPrefix(f, "/etc/") })
		if !slices.Equal(got, restarted) {
			t.Errorf("started anew at once are %v, want %v", got, restarted)
		}
	}
	after := w.texts()
	want := []string{"/etc/kubernetes/manifests/kube-proxy.manifest", "/etc/systemd/system/kubelet.service", "/srv/kubernetes/kubelet-server.crt", "/srv/kubernetes/kubelet-server.key",
		"/var/lib/kube-proxy/kubeconfig", "/var/lib/kubelet/kubeconfig"}
	if got := changedFiles(before, after); !slices.Equal(got, want) || asked != 3 {
		t.Errorf("asked %d times, and wrote %v, want %v", asked, got, want)
	}
	if held := agent.KubeletCertificate(w.root)(); held == nil || held.Leaf.NotAfter.Before(begun.Add((22+24)*day)) {
		t.Errorf("the kubelet's certificate is %+v", held)
	}
	if err := a.Renew(t.Context(), w.boot); err != nil || len(changedFiles(after, w.texts())) > 0 {
		t.Errorf("the next renewal wrote %v: %v", changedFiles(after, w.texts()), err)
	}

	// a machine that was off for months comes back, and its node still exists
	w.nodes.state = kopscontroller.NodeNotReady
	pass(100 * day)
	if err := a.Renew(t.Context(), w.boot); err != nil || !slices.Equal(changedFiles(after, w.texts()), want) {
		t.Errorf("after months it wrote %v: %v", changedFiles(after, w.texts()), err)
	}
	// a machine that has lost its disk is refused
	w.write("/var/lib/kubelet/kubeconfig", "")
	if err := a.Renew(t.Context(), w.boot); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "kubectl delete node "+w.host.NodeName) {
		t.Errorf("without its certificate: %v", err)
	}
}

// A control plane renews with the keys that it was started with, whichever keys sign by now.
func TestAControlPlaneRenewsItsCertificates(t *testing.T) {
	w := newWorld(t, controlPlane)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	ca := authorities()[pki.KubernetesCA]
	later := issuer()
	next, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, later)
	if err != nil {
		t.Fatal(err)
	}
	both, err := pki.NewKeyset(pki.KubernetesCA, next[pki.KubernetesCA].Primary, append(slices.Clone(ca.Items), next[pki.KubernetesCA].Items...)...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := clusterstore.EncodeKeyset(both)
	if err != nil {
		t.Fatal(err)
	}
	for url := range w.store {
		switch {
		case strings.HasSuffix(url, "kubernetes-ca/keyset.yaml"):
			w.store[url] = text
		case strings.HasSuffix(url, "nodeupconfig.yaml"):
			w.store[url] = append(bytes.Clone(w.store[url]), "# of another day\n"...)
		}
	}
	before := w.texts()
	a := w.agent()
	at := func() time.Time { return now().Add(400 * day) }
	a.Clock.Now, a.Issuer.Now, w.machine.Now = at, at, at
	for range 5 { // one component is restarted each time
		was := w.texts()
		if err := a.Renew(t.Context(), w.boot); err != nil {
			t.Fatal(err)
		}
		started := slices.DeleteFunc(changedFiles(was, w.texts()), func(f string) bool {
			return !strings.HasPrefix(f, "/etc/kubernetes/manifests/") && f != "/etc/systemd/system/kubelet.service"
		})
		if len(started) != 1 {
			t.Errorf("started anew at once are %v", started)
		}
	}
	done := w.texts()
	if err := a.Renew(t.Context(), w.boot); err != nil || len(changedFiles(done, w.texts())) > 0 {
		t.Errorf("after all have had their turns it wrote %v: %v", changedFiles(done, w.texts()), err)
	}
	for _, c := range w.lastReport().Certificates {
		if c.Ends.Before(at().Add(455 * day)) {
			t.Errorf("the report says that %s ends at %s", c.File, c.Ends)
		}
	}
	if n := len(w.lastReport().Certificates); n < 12 {
		t.Errorf("the report has %d certificates", n)
	}
	got := changedFiles(before, w.texts())
	for _, path := range []string{"/etc/systemd/system/kubelet.service", "/etc/kubernetes/manifests/kube-controller-manager.manifest", "/etc/kubernetes/manifests/kube-scheduler.manifest",
		"/srv/kubernetes/kube-apiserver/server.crt", "/srv/kubernetes/kube-apiserver/etcd-client.crt", "/etc/kubernetes/kops-controller/kops-controller.crt"} {
		if !slices.Contains(got, path) {
			t.Errorf("%s is as before; changed are %v", path, got)
		}
	}
	for _, path := range got {
		if strings.Contains(path, "etcd-manager") || strings.HasSuffix(path, "/ca.crt") || strings.HasSuffix(path, "hosts") {
			t.Errorf("%s has nothing to do with it", path)
		}
	}
	c, err := pki.ParseCertificate([]byte(w.read("/srv/kubernetes/kubelet-server.crt")))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSignatureFrom(ca.Signer().Certificate); err != nil || c.NotAfter.Before(at().Add(455*day)) {
		t.Errorf("it ends at %s: %v", c.NotAfter, err)
	}
	maps.DeleteFunc(before, func(path, _ string) bool { return !strings.HasPrefix(path, "/var/lib/kops/") })
	if got := changedFiles(before, w.texts()); slices.Contains(got, "/var/lib/kops/nodeupconfig.yaml") {
		t.Error("the configuration of the last run was replaced")
	}
}

func TestRenewalFailures(t *testing.T) {
	w := newWorld(t, worker)
	if err := w.agent().Renew(t.Context(), w.boot); !fault.Is(err, fault.Gone) || !strings.Contains(fault.Remedy(err), "kops rolling-update cluster --yes") {
		t.Errorf("a machine without a configuration: %v", err)
	}
}
