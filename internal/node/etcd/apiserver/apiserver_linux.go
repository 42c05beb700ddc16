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
)

// pollPause is how often it is looked whether a process has ended: it is no child.
const pollPause = 20 * time.Millisecond

// End kills the API servers that use the etcd at a port of this machine, and returns
// their processes when all have ended. Those of other machines that this kernel runs,
// which have a network of their own, are left alone.
func End(ctx context.Context, port string) ([]int, error) {
	all, err := find("/proc", port)
	if err != nil {
		return nil, fmt.Errorf("find the API servers of this machine: %w", err)
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("end the API server, process %d: %w", pid, err)
		}
	}
	look := time.NewTicker(pollPause)
	defer look.Stop()
	for _, pid := range all {
		for using("/proc", pid, port) {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("wait for the end of the API server, process %d: %w", pid, ctx.Err())
			case <-look.C:
			}
		}
	}
	return all, nil
}

// find returns the processes that are API servers with an etcd at a port.
func find(proc, port string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && using(proc, pid, port) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// using reports whether a process is an API server of this machine with its etcd at a
// port. One that has ended has no command line.
func using(proc string, pid int, port string) bool {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !asks(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"), port) {
		return false
	}
	ours, err := os.Readlink(filepath.Join(proc, "self", "ns", "net"))
	theirs, gone := os.Readlink(filepath.Join(dir, "ns", "net"))
	return err == nil && gone == nil && ours == theirs
}
