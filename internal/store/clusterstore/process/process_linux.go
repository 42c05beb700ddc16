package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Self returns the name of this process: the machine's boot, the PID namespace, the
// PID, and the start time. It is empty if the system does not provide these.
func Self() string {
	space := space()
	start, err := stat(os.Getpid())
	if err != nil || space == "" || start == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", space, os.Getpid(), start)
}

// HasEnded reports whether a process named by Self has certainly exited. It is false for
// a process of another machine, or of another container on this one.
func HasEnded(name string) bool {
	here := space()
	rest, ok := strings.CutPrefix(name, here+"/")
	number, start, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	if !ok || here == "" || start == "" || err != nil {
		return false
	}
	now, err := stat(pid)
	if err != nil {
		// The process may be hidden from this user; a signal tells.
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return now != start
}

// space returns the boot and the PID namespace, or "".
func space() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + "/" + namespace
}

// stat returns when a process started, in ticks since the boot (proc(5), field 22 of
// stat), or "" if it has exited but was not waited for.
func stat(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the name, in parentheses, which may contain anything.
	after := data[bytes.LastIndexByte(data, ')')+1:]
	fields := strings.Fields(string(after))
	if len(fields) < 20 {
		return "", fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", nil
	}
	return fields[19], nil
}
