package member

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// command returns a command that gets a signal when this process dies for any reason.
func command(program string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	return cmd
}

// bind makes the kernel kill a program that is not started yet when the thread that
// starts it ends, which is at the latest when this process exits.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func sendTerminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // a process that has exited needs no signal

// lockFile locks a file until it is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fault.New(fault.Conflict, "another manager uses it"), f.Close())
	}
	return f, nil
}

// writePID records which process etcd is: its PID and its start time.
func writePID(path string, pid int) error {
	start, err := startOf(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(fmt.Sprintf("%d %s\n", pid, start)), 0o600)
}

// endLeftover stops the process that a file names, if it still is that process, and waits
// until it has exited.
func endLeftover(path string, grace time.Duration) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return os.Remove(path) // partially written
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return os.Remove(path)
	}
	alive := func() bool {
		start, err := startOf(pid)
		return err == nil && start == fields[1]
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !alive() {
			break
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
		for end := time.Now().Add(grace); alive() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond) // it is not our child, so it cannot be waited for
		}
	}
	if alive() {
		return fmt.Errorf("process %d does not stop", pid)
	}
	return os.Remove(path)
}

// startOf returns when a process started, in ticks since boot, with the boot ID
// (proc(5), field 22 of stat). It fails if the process has exited.
func startOf(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the name, in parentheses, and may contain anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(boot)) + "/" + fields[19], nil
}
