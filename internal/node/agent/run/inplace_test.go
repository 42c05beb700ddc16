package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What follows the manifest of an API server waits until the one that ran has ended, whether
// or not another runs by then; where none ran, nothing waits.
func TestAnAPIServerEndsFirst(t *testing.T) {
	root, now, looks := t.TempDir(), time.Unix(1e9, 0), 0
	runs := func(pid, program string) {
		t.Helper()
		at := filepath.Join(root, "proc", pid)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "comm"), []byte(program+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	end := func(pid string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(root, "proc", pid)); err != nil {
			t.Fatal(err)
		}
	}
	sleep := func(context.Context, time.Duration) error { return nil }
	o := Options{Root: root, Clock: Clock{At: func() time.Time { return now }, Wait: func(ctx context.Context, d time.Duration) error {
		looks++
		now = now.Add(d)
		return sleep(ctx, d)
	}}}
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.manifest"
	runs("7", "kubelet")
	if o.onRewrite("/etc/kubernetes/manifests/kube-proxy.manifest") != nil {
		t.Error("another manifest is waited for")
	}
	o.onRewrite(manifest)(t.Context())
	if looks != 0 {
		t.Errorf("%d looks where no API server runs", looks)
	}
	runs("8", "kube-apiserver")
	sleep = func(context.Context, time.Duration) error {
		if looks == 3 {
			end("8")
			runs("9", "kube-apiserver")
		}
		return nil
	}
	o.onRewrite(manifest)(t.Context())
	if looks != 3 {
		t.Errorf("it has ended at the third look, and there were %d", looks)
	}
	looks, sleep = 0, func(context.Context, time.Duration) error { return nil }
	o.onRewrite(manifest)(t.Context())
	if looks != 75 { // fifteen seconds, five looks each
		t.Errorf("one that does not end is looked at %d times", looks)
	}
}
