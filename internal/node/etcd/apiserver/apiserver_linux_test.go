package apiserver

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestUsesPort(t *testing.T) {
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
		if got := usesPort(x.args, "4001"); got != x.asks {
			t.Errorf("%q asks: %t", x.args, got)
		}
	}
}

// TestOnlyTheAPIServersOfAnEtcdAreStopped uses shells in place of API servers.
func TestOnlyTheAPIServersOfAnEtcdAreStopped(t *testing.T) {
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
			_ = c.Process.Kill() // it may have exited
			_ = c.Wait()         // it was killed
		})
		return c
	}
	// no etcd uses ports below the ones that the system assigns
	ours, also, other := start("--etcd-servers=https://127.0.0.1:17"), start("--etcd-servers-overrides=/events#https://127.0.0.1:17"), start("--etcd-servers=https://127.0.0.1:18")
	ended, err := Stop(t.Context(), "17", "/nowhere")
	slices.Sort(ended)
	want := []int{ours.Process.Pid, also.Process.Pid}
	slices.Sort(want)
	if err != nil || !slices.Equal(ended, want) {
		t.Errorf("ended are %v, not %v: %v", ended, want, err)
	}
	for _, pid := range want {
		if usesEtcdPort("/proc", pid, "17") {
			t.Errorf("process %d has not ended", pid)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("that of another etcd: %v", err)
	}
	if ended, err := Stop(t.Context(), "17", "/nowhere"); err != nil || len(ended) > 0 {
		t.Errorf("again: %v, %v", ended, err)
	}
}

// TestAContainerIsRemoved uses a fake of containerd. A CRI request to remove a
// container has the ID in field 1, and the response has no fields.
func TestAContainerIsRemoved(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "containerd.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "runtime.v1.RuntimeService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "RemoveContainer",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var id wrapperspb.StringValue
			err := decode(&id)
			removed = append(removed, id.Value)
			return &emptypb.Empty{}, err
		},
	}}}, nil)
	go func() { _ = s.Serve(l) }() // it stops with the test
	t.Cleanup(s.Stop)
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := remove(t.Context(), socket, id); err != nil || !slices.Equal(removed, []string{id}) {
		t.Errorf("removed are %v: %v", removed, err)
	}
	if err := remove(t.Context(), socket+"x", id); err == nil {
		t.Error("nobody listens, and it is removed")
	}
	for text, want := range map[string]string{
		"0::/kubepods.slice/kubepods-podab.slice/cri-containerd-" + id + ".scope\n": id,
		"0::/../../kubepods/burstable/podab/" + id + "\n":                           id,
		"0::/system.slice/etcd.service\n":                                           "",
	} {
		proc := t.TempDir()
		if err := os.Mkdir(filepath.Join(proc, "7"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, "7", "cgroup"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := containerOf(proc, 7); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestTheEncryptionConfigurationOfAnAPIServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryptionconfig.yaml")
	if err := os.WriteFile(file, []byte("kind: EncryptionConfiguration"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, known, err := EncryptionConfig("19"); known || err != nil {
		t.Errorf("no API server runs: known %t, %v", known, err)
	}
	run := func(args ...string) {
		t.Helper()
		c := exec.Command("/bin/sh")
		c.Args = append([]string{"kube-apiserver", "-c", "read forever", "sh"}, args...)
		if _, err := c.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill() // it runs forever
			_ = c.Wait()         // it was killed
		})
	}
	run("--etcd-servers=https://127.0.0.1:19")
	if config, known, err := EncryptionConfig("19"); !known || err != nil || config != nil {
		t.Errorf("without encryption: %q, known %t, %v", config, known, err)
	}
	run("--etcd-servers=https://127.0.0.1:20", "--encryption-provider-config="+file)
	if config, known, err := EncryptionConfig("20"); !known || err != nil || string(config) != "kind: EncryptionConfiguration" {
		t.Errorf("with encryption: %q, known %t, %v", config, known, err)
	}
}
