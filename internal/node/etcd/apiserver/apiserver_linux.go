package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// pollPause is the time between two checks whether a process has exited: it is not a child.
const pollPause = 20 * time.Millisecond

// removeTime is how long containerd may take to remove a container.
const removeTime = 10 * time.Second

// Stop stops the API servers that use the etcd at a port of this machine, and returns their PIDs
// when all have exited. API servers of other machines on this kernel, which have their own
// network namespaces, are left alone.
//
// A server in a container is removed together with its container, through containerd's socket:
// the kubelet waits before it restarts a container, longer each time, but only if it finds the
// exited one. If that fails, or there is no container, the process is killed.
func Stop(ctx context.Context, port, containerd string) ([]int, error) {
	all, err := find("/proc", port)
	if err != nil {
		return nil, fmt.Errorf("find the API servers of this machine: %w", err)
	}
	for _, pid := range all {
		if id := containerOf("/proc", pid); id != "" && remove(ctx, containerd, id) == nil {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop the API server, process %d: %w", pid, err)
		}
	}
	look := time.NewTicker(pollPause)
	defer look.Stop()
	for _, pid := range all {
		for usesEtcdPort("/proc", pid, port) {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("wait until the API server stops, process %d: %w", pid, ctx.Err())
			case <-look.C:
			}
		}
	}
	return all, nil
}

// containerOf returns the ID of the container in which a process runs; empty for none.
func containerOf(proc string, pid int) string {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	all := containerID.FindAllString(string(text), -1)
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// remove makes containerd remove a container, and stop it first if it still runs (CRI,
// runtime.v1.RuntimeService; the request's only field is the container's ID, so it has the
// form of a StringValue).
func remove(ctx context.Context, socket, id string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	err = c.Invoke(ctx, "/runtime.v1.RuntimeService/RemoveContainer", wrapperspb.String(id), &emptypb.Empty{})
	return errors.Join(err, c.Close())
}

// EncryptionConfig returns the EncryptionConfiguration of the API servers that use the etcd at
// a port of this machine; nil if they have none. known is false if no API server runs.
func EncryptionConfig(port string) (config []byte, known bool, err error) {
	all, err := find("/proc", port)
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	for _, pid := range all {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			return nil, false, err
		}
		if file := encryptionConfig(arguments(line)); file != "" {
			config, err := os.ReadFile(filepath.Join(dir, "root", file))
			return config, err == nil, err
		}
	}
	return nil, true, nil
}

func arguments(cmdline []byte) []string {
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
}

// find returns the PIDs of the API servers that use the etcd at a port.
func find(proc, port string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && usesEtcdPort(proc, pid, port) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// usesEtcdPort reports whether a process is an API server of this machine that uses the etcd
// at a port. A process that has exited has no command line.
func usesEtcdPort(proc string, pid int, port string) bool {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !usesPort(arguments(line), port) {
		return false
	}
	ours, err := os.Readlink(filepath.Join(proc, "self", "ns", "net"))
	theirs, gone := os.Readlink(filepath.Join(dir, "ns", "net"))
	return err == nil && gone == nil && ours == theirs
}
