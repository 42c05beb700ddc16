package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// stopBench is a machine in a temporary folder whose processes exit at a given check.
type stopBench struct {
	*testing.T
	*orderlyStop
	now     time.Time
	checks  int
	onCheck func(look int)
}

func newStopBench(t *testing.T) *stopBench {
	e := &stopBench{T: t, now: time.Unix(1e9, 0), onCheck: func(int) {}}
	e.orderlyStop = &orderlyStop{root: t.TempDir(), clock: Clock{At: func() time.Time { return e.now }, Wait: func(_ context.Context, d time.Duration) error {
		e.checks, e.now = e.checks+1, e.now.Add(d)
		e.onCheck(e.checks)
		return nil
	}}}
	return e
}

func (e *stopBench) write(path, text string) {
	e.Helper()
	path = filepath.Join(e.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
}

// addPod creates a manifest's static pod with one process.
func (e *stopBench) addPod(manifest, pod, id, pid string) string {
	e.Helper()
	path := "/etc/kubernetes/manifests/" + manifest + ".manifest"
	e.write(path, "metadata: {name: "+pod+", namespace: kube-system}\n")
	e.write("/var/log/pods/kube-system_"+pod+"-n_"+id+"/c/0.log", "")
	e.write("/proc/"+pid+"/cgroup", "0::/kubepods/burstable/pod"+id+"/c\n")
	return path
}

func (e *stopBench) end(pid string) {
	e.Helper()
	if err := os.RemoveAll(filepath.Join(e.root, "proc", pid)); err != nil {
		e.Fatal(err)
	}
}

// expectChecks checks how many checks there were since the last call.
func (e *stopBench) expectChecks(what string, want int) {
	e.Helper()
	if e.checks != want {
		e.Errorf("%s: %d looks, want %d", what, e.checks, want)
	}
	e.checks = 0
}

func TestPodsEndInOrder(t *testing.T) {
	e := newStopBench(t)
	e.write("/proc/1/cgroup", "0::/init.scope\n")
	api, proxy := e.addPod("kube-apiserver", "kube-apiserver", "aa", "8"), e.addPod("kube-proxy", "kube-proxy", "bb", "9")
	if e.onRewrite("/etc/hosts") != nil || e.onRewrite(proxy) != nil || e.onRewrite("/etc/kubernetes/manifests/new.manifest") != nil {
		t.Error("what follows no API server waits")
	}
	ends := e.onRewrite(api)
	e.onCheck = func(look int) {
		if look == 3 {
			e.end("8")
			e.addPod("kube-apiserver", "kube-apiserver", "cc", "10") // the next pod, which is not waited for
		}
	}
	ends(t.Context())
	e.expectChecks("the API server ends at the third look", 3)
	e.beforeRestart(t.Context(), "containerd.service")
	e.expectChecks("another unit than the kubelet's waits for nothing", 0)
	e.onCheck = func(look int) {
		if look == 5 {
			e.end("9")
		}
	}
	e.beforeRestart(t.Context(), "kubelet.service")
	e.expectChecks("the last pod ends at the fifth look", 5)
	e.beforeRestart(t.Context(), "kubelet.service")
	e.expectChecks("all have ended", 0)
	e.onCheck = func(int) {}
	e.onRewrite(api)(t.Context())
	e.expectChecks("an API server that does not end is given fifteen seconds", 75)
}
