package agent_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	kopscontroller "kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store/clusterstore"
)

func isReady(context.Context) error { return nil }

// changedConfig returns a node configuration with a different maximum number of pods.
func (w *world) changedConfig(config []byte, maxPods int32) []byte {
	w.Helper()
	c, err := nodeconfig.Parse(config)
	if err != nil {
		w.Fatal(err)
	}
	c.KubeletConfig.MaxPods = &maxPods
	text, err := c.Encode()
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// stores replaces the group's configuration in the store.
func (w *world) stores(text []byte) {
	for url := range w.store {
		if strings.HasSuffix(url, "nodeupconfig.yaml") {
			w.store[url] = text
		}
	}
}

func (w *world) runningLabels() labels.Running {
	w.Helper()
	r, _, err := labels.Read[labels.Running](map[string]string{"": w.read(paths.Running)}, "")
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// system returns the changed files except nodeup's own records.
func system(files []string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "/var/lib/kops/") || strings.HasPrefix(f, "/run/") })
}

// A worker that is a ready member takes a new configuration from a real kops-controller, and only
// its kubelet is restarted.
func TestAWorkerIsChangedInPlace(t *testing.T) {
	w := newControl(t)
	a := w.agent()
	a.Join = w.join
	w.check(a.Converge(t.Context(), w.boot))
	w.nodes.state = kopscontroller.NodeReady
	before, next := w.texts(), w.changedConfig(w.config, 17)
	if phase, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), isReady); err == nil || phase != agent.PhaseConfigure || !strings.Contains(err.Error(), "but the machine wants "+nodeconfig.Hash(next)) {
		t.Errorf("a configuration that is not there: %s: %v", phase, err)
	}
	if got := changedFiles(before, w.texts()); len(got) > 0 {
		t.Errorf("it changed %v all the same", got)
	}
	w.put("igconfig/node/nodes/nodeupconfig.yaml", next)
	phase, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), isReady)
	if err != nil || phase != "" {
		t.Fatalf("%s: %v", phase, err)
	}
	after := w.texts()
	if got, want := system(changedFiles(before, after)), []string{"/etc/systemd/system/kubelet.service", "/var/lib/kubelet/kubelet.conf"}; !slices.Equal(got, want) {
		t.Errorf("changed are %v, want %v", got, want)
	}
	if !strings.Contains(after["/var/lib/kubelet/kubelet.conf"], "maxPods: 17") || w.runningLabels().Hash != nodeconfig.Hash(next) || !w.lastReport().Done {
		t.Errorf("it runs %+v", w.runningLabels())
	}
	if phase, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), isReady); err != nil || len(system(changedFiles(after, w.texts()))) > 0 {
		t.Errorf("a second time: %s: %v, changed are %v", phase, err, changedFiles(after, w.texts()))
	}
	broken := errors.New("a pod does not start")
	if phase, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), func(context.Context) error { return broken }); phase != agent.PhaseReady || !errors.Is(err, broken) || w.lastReport().Done {
		t.Errorf("%s: %v", phase, err)
	}
}

// A control-plane machine keeps using the configuration that it was told to take, also after
// a restart, and also when the cluster's configuration is newer by then.
func TestAControlPlaneIsChangedInPlace(t *testing.T) {
	w := newWorld(t, controlPlane)
	a := w.agent()
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	first := w.runningLabels()
	next := w.changedConfig(w.config, 17)
	w.stores(next)
	for url, text := range w.store {
		if strings.HasSuffix(url, "kube-apiserver-healthcheck.yaml") {
			w.store[url] = append(bytes.Clone(text), "# changed\n"...)
		}
	}
	// its turn has not come: after a restart it keeps its configuration
	if err := a.Converge(t.Context(), w.boot); err != nil || w.runningLabels().Hash != first.Hash {
		t.Errorf("a start before its turn: %v, it runs %s", err, w.runningLabels().Hash)
	}
	if _, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), isReady); err != nil {
		t.Fatal(err)
	}
	const key = "manifests/static/kube-apiserver-healthcheck.yaml"
	if now := w.runningLabels(); now.Hash != nodeconfig.Hash(next) || now.Files[key] == first.Files[key] || now.Files[key] == "" {
		t.Errorf("it runs %+v, before %+v", now, first)
	}
	w.stores(w.changedConfig(w.config, 18))
	before := w.texts()
	if err := a.Converge(t.Context(), w.boot); err != nil || len(system(changedFiles(before, w.texts()))) > 0 {
		t.Errorf("the next start: %v, changed are %v", err, changedFiles(before, w.texts()))
	}
	if !strings.Contains(w.read("/var/lib/kubelet/kubelet.conf"), "maxPods: 17") {
		t.Error("it does not go by what it was told to take")
	}
	// the boot configuration of another start takes precedence over what it was told before
	boot, err := nodeconfig.ParseBoot(w.boot)
	if err != nil {
		t.Fatal(err)
	}
	boot.NodeupConfigHash = nodeconfig.Hash(w.changedConfig(w.config, 18))
	text, err := boot.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Converge(t.Context(), text); err != nil || !strings.Contains(w.read("/var/lib/kubelet/kubelet.conf"), "maxPods: 18") {
		t.Errorf("another boot configuration: %v", err)
	}
}

// A change that was interrupted resumes when the machine starts again.
func TestAChangeThatWasCutOff(t *testing.T) {
	w := newWorld(t, controlPlane)
	a := w.agent()
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	first := w.runningLabels()
	next := w.changedConfig(w.config, 17)
	w.stores(next)
	taken := filepath.Join(w.root, "/var/lib/kubelet/kubelet.conf")
	if err := errors.Join(os.Remove(taken), os.MkdirAll(taken+"/by/a/folder", 0o755)); err != nil {
		t.Fatal(err)
	}
	phase, err := a.Apply(t.Context(), w.boot, nodeconfig.Hash(next), isReady)
	if err == nil || phase != agent.PhaseFiles || w.runningLabels().Hash != first.Hash {
		t.Fatalf("%s: %v, it runs %s", phase, err, w.runningLabels().Hash)
	}
	if err := os.RemoveAll(taken); err != nil {
		t.Fatal(err)
	}
	if err := a.Converge(t.Context(), w.boot); err != nil || w.runningLabels().Hash != nodeconfig.Hash(next) {
		t.Errorf("the next start: %v, it runs %s", err, w.runningLabels().Hash)
	}
}

// A control plane whose keys were replaced, and whose turn has not come, starts with its own keys.
func TestAControlPlaneStartsWithItsKeysBeforeItsTurn(t *testing.T) {
	w := newWorld(t, controlPlane)
	a := w.agent()
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	next, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer())
	if err != nil {
		t.Fatal(err)
	}
	both, err := pki.NewKeyset(pki.KubernetesCA, next[pki.KubernetesCA].Primary, append(slices.Clone(authorities()[pki.KubernetesCA].Items), next[pki.KubernetesCA].Items...)...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := clusterstore.EncodeKeyset(both)
	if err != nil {
		t.Fatal(err)
	}
	for url := range w.store {
		if strings.HasSuffix(url, "kubernetes-ca/keyset.yaml") {
			w.store[url] = text
		}
	}
	if err := a.Converge(t.Context(), w.boot); !fault.Is(err, fault.NotYet) { // the configuration does not name the key
		t.Errorf("with its own configuration in the store: %v", err)
	}
	w.stores(w.changedConfig(w.config, 17))
	before := w.texts()
	if err := a.Converge(t.Context(), w.boot); err != nil || len(system(changedFiles(before, w.texts()))) > 0 {
		t.Errorf("%v, changed are %v", err, changedFiles(before, w.texts()))
	}
}
