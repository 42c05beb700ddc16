package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// endings is a machine in a folder, whose processes end at a look.
type endings struct {
	*testing.T
	*ending
	now   time.Time
	looks int
	at    func(look int)
}

func newEndings(t *testing.T) *endings {
	e := &endings{T: t, now: time.Unix(1e9, 0), at: func(int) {}}
	e.ending = &ending{root: t.TempDir(), clock: Clock{At: func() time.Time { return e.now }, Wait: func(_ context.Context, d time.Duration) error {
		e.looks, e.now = e.looks+1, e.now.Add(d)
		e.at(e.looks)
		return nil
	}}}
	return e
}

func (e *endings) write(path, text string) {
	e.Helper()
	path = filepath.Join(e.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
}

// runs has a static pod of a manifest, with one process.
func (e *endings) runs(manifest, pod, id, pid string) string {
	e.Helper()
	path := "/etc/kubernetes/manifests/" + manifest + ".manifest"
	e.write(path, "metadata: {name: "+pod+", namespace: kube-system}\n")
	e.write("/var/log/pods/kube-system_"+pod+"-n_"+id+"/c/0.log", "")
	e.write("/proc/"+pid+"/cgroup", "0::/kubepods/burstable/pod"+id+"/c\n")
	return path
}

func (e *endings) end(pid string) {
	e.Helper()
	if err := os.RemoveAll(filepath.Join(e.root, "proc", pid)); err != nil {
		e.Fatal(err)
	}
}

// looked checks how often it was looked since the last time.
func (e *endings) looked(what string, want int) {
	e.Helper()
	if e.looks != want {
		e.Errorf("%s: %d looks, want %d", what, e.looks, want)
	}
	e.looks = 0
}

func TestPodsEndInOrder(t *testing.T) {
	e := newEndings(t)
	e.write("/proc/1/cgroup", "0::/init.scope\n")
	api, proxy := e.runs("kube-apiserver", "kube-apiserver", "aa", "8"), e.runs("kube-proxy", "kube-proxy", "bb", "9")
	if e.onRewrite("/etc/hosts") != nil || e.onRewrite(proxy) != nil || e.onRewrite("/etc/kubernetes/manifests/new.manifest") != nil {
		t.Error("what follows no API server waits")
	}
	ends := e.onRewrite(api)
	e.at = func(look int) {
		if look == 3 {
			e.end("8")
			e.runs("kube-apiserver", "kube-apiserver", "cc", "10") // the next, which is not waited for
		}
	}
	ends(t.Context())
	e.looked("the API server ends at the third look", 3)
	e.beforeRestart(t.Context(), "containerd.service")
	e.looked("another unit than the kubelet's waits for nothing", 0)
	e.at = func(look int) {
		if look == 5 {
			e.end("9")
		}
	}
	e.beforeRestart(t.Context(), "kubelet.service")
	e.looked("the last pod ends at the fifth look", 5)
	e.beforeRestart(t.Context(), "kubelet.service")
	e.looked("all have ended", 0)
	e.at = func(int) {}
	e.onRewrite(api)(t.Context())
	e.looked("an API server that does not end is given fifteen seconds", 75)
}
