package presence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/node/agent/ownnode"
	"kops.local/kops/internal/node/agent/presence"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/ops/roll/inplace"
	"kops.local/kops/internal/test/kubetest"
)

// startRecorder is a fake systemd that records which units are started.
type startRecorder struct {
	host.Offline
	units chan string
}

func (s startRecorder) Start(_ context.Context, unit string, _ bool) error {
	s.units <- unit
	return nil
}

// watchedMachine is a machine whose node is watched, on a real API server that restricts kubelets.
type watchedMachine struct {
	*testing.T
	root   string
	nodes  corev1client.NodeInterface
	starts chan string
	checks chan struct{} // each value triggers another check
}

func watch(t *testing.T) *watchedMachine {
	t.Helper()
	admin, kubelet := kubetest.ServeRestricted(t, "n")
	core, err := corev1client.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	w := &watchedMachine{T: t, root: t.TempDir(), nodes: core.Nodes(), starts: make(chan string, 100), checks: make(chan struct{}, 100)}
	text, err := os.ReadFile(kubetest.Kubeconfig(t, kubelet))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.root, "kubeconfig"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*presence.Check, error) {
		own, err := ownnode.Open(w.root, "kubeconfig")
		return &presence.Check{Root: w.root, OwnNode: own, Systemd: startRecorder{units: w.starts}, Now: time.Now, Log: func(string) {}}, err
	}
	pause := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.checks:
			return nil
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- presence.Keep(ctx, open, pause, func(err error) { // from a slow API server
			t.Log(err)
			w.triggerCheck()
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return w
}

func (w *watchedMachine) triggerCheck() { w.checks <- struct{}{} }

func (w *watchedMachine) create() {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}}}
	if _, err := w.nodes.Create(w.Context(), n, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// setRunning records what the machine runs.
func (w *watchedMachine) setRunning(r labels.Running) {
	w.Helper()
	at := filepath.Join(w.root, paths.Running)
	held := filepath.Join(w.root, report.File)
	// The record is written last, because the node may report it at once.
	if err := errors.Join(os.MkdirAll(filepath.Dir(held), 0o755), os.MkdirAll(filepath.Dir(at), 0o755),
		os.WriteFile(held, []byte(`{"certificates":[{"file":"/a.crt","subject":"n","ends":"2027-01-01T00:00:00Z","authority":"`+r.Hash+`"}]}`), 0o600),
		os.WriteFile(at, []byte(labels.Write(r)+"\n"), 0o600)); err != nil {
		w.Fatal(err)
	}
}

// awaitReported waits until the node reports what the machine runs.
func (w *watchedMachine) awaitReported(want labels.Running) {
	w.Helper()
	changes, err := w.nodes.Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	defer changes.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-changes.ResultChan():
			if n, is := e.Object.(*corev1.Node); is && n.Annotations[labels.NodeConfig] == labels.Write(want) {
				if held, _, err := labels.Read[[]report.Certificate](n.Annotations, labels.Certificates); err != nil || len(held) != 1 || held[0].File != "/a.crt" || held[0].Authority != want.Hash {
					w.Errorf("it says of its certificates %v, %v", held, err)
				}
				return
			}
		case <-late:
			w.Fatalf("the node does not say %s", labels.Write(want))
		}
	}
}

// TestANodeReportsWhatItsMachineRuns creates nodes on a real API server, with a kubelet's rights.
func TestANodeReportsWhatItsMachineRuns(t *testing.T) {
	w := watch(t)
	one := labels.Running{Hash: "one", Files: map[string]string{"manifests/x.yaml": "00000000"}}
	w.setRunning(one)
	w.create()
	w.triggerCheck()
	w.awaitReported(one)
	two := labels.Running{Hash: "two"}
	w.setRunning(two) // noticed without a change of the node
	w.awaitReported(two)
	if err := w.nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.triggerCheck() // the watch has ended
	w.create()
	w.triggerCheck()
	w.awaitReported(two)
}

func TestANodeRequestsAChangeOfItsMachine(t *testing.T) {
	w := watch(t)
	w.create()
	w.triggerCheck()
	w.setRunning(labels.Running{Hash: "one"})
	w.awaitReported(labels.Running{Hash: "one"})
	if len(w.starts) > 0 {
		t.Error("a change was started that nobody asked for")
	}
	asked := time.Now()
	if _, err := inplace.Request(t.Context(), w.nodes, "n", "two"); err != nil {
		t.Fatal(err)
	}
	if unit := <-w.starts; unit != presence.ApplyUnit {
		t.Errorf("started was %s", unit)
	}
	t.Logf("it was noticed after %s", time.Since(asked))
}

// A kubelet may annotate its own node, but nothing more: it may not change taints or labels
// that keep pods away.
func TestKubeletPermissions(t *testing.T) {
	admin, kubelet := kubetest.ServeRestricted(t, "n")
	all, err := corev1client.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n", "other"} {
		if _, err := all.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	own, err := corev1client.NewForConfig(kubelet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node, patch string
		may         bool
	}{
		{"n", `{"metadata":{"annotations":{"` + labels.NodeConfig + `":"x"}}}`, true},
		{"other", `{"metadata":{"annotations":{"` + labels.NodeConfig + `":"x"}}}`, false},
		{"n", `{"metadata":{"labels":{"` + labels.Owned + `":"x"}}}`, false},
		{"n", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`, false},
	} {
		_, err := own.Nodes().Patch(t.Context(), c.node, "application/merge-patch+json", []byte(c.patch), metav1.PatchOptions{})
		if c.may && err != nil || !c.may && !apierrors.IsForbidden(err) {
			t.Errorf("%s of %s: %v", c.patch, c.node, err)
		}
	}
}
