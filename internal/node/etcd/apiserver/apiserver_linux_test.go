package apiserver

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

func TestWhoAsksAnEtcd(t *testing.T) {
	for _, x := range []struct {
		args []string
		asks bool
	}{
		{[]string{"/usr/local/bin/kube-apiserver", "--v=2", "--etcd-servers=https://127.0.0.1:4001"}, true},
		{[]string{"kube-apiserver", "--etcd-servers=https://127.0.0.1:3,https://127.0.0.1:4001"}, true},
		{[]string{"kube-apiserver", "--etcd-servers=https://127.0.0.1:1", "--etcd-servers-overrides=/events#http://127.0.0.1:2;http://127.0.0.1:4001,leases#https://127.0.0.1:3"}, true},
		{[]string{"kube-apiserver", "--etcd-servers=https://127.0.0.1:40010"}, false},
		{[]string{"kube-apiserver", "--service-account-issuer=https://127.0.0.1:4001"}, false},
		{[]string{"/go-runner", "kube-apiserver", "--etcd-servers=https://127.0.0.1:4001"}, false},
		{[]string{""}, false},
	} {
		if got := asks(x.args, "4001"); got != x.asks {
			t.Errorf("%q asks: %t", x.args, got)
		}
	}
}

// TestOnlyTheAPIServersOfAnEtcdEnd lets shells pass for API servers.
func TestOnlyTheAPIServersOfAnEtcdEnd(t *testing.T) {
	start := func(flag string) *exec.Cmd {
		t.Helper()
		c := exec.Command("/bin/sh")
		c.Args = []string{"kube-apiserver", "-c", "read forever", "sh", flag}
		if _, err := c.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill() // it may have ended
			_ = c.Wait()         // it was killed
		})
		return c
	}
	// No etcd has ports below those that the system gives away.
	ours, also, other := start("--etcd-servers=https://127.0.0.1:17"), start("--etcd-servers-overrides=/events#https://127.0.0.1:17"), start("--etcd-servers=https://127.0.0.1:18")
	ended, err := End(t.Context(), "17")
	slices.Sort(ended)
	want := []int{ours.Process.Pid, also.Process.Pid}
	slices.Sort(want)
	if err != nil || !slices.Equal(ended, want) {
		t.Errorf("ended are %v, not %v: %v", ended, want, err)
	}
	for _, pid := range want {
		if using("/proc", pid, "17") {
			t.Errorf("process %d has not ended", pid)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("that of another etcd: %v", err)
	}
	if ended, err := End(t.Context(), "17"); err != nil || len(ended) > 0 {
		t.Errorf("again: %v, %v", ended, err)
	}
}
