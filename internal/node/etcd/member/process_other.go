//go:build !linux

package member

import (
	"os"
	"os/exec"
	"time"

	"kops.local/kops/internal/engine/fault"
)

func command(program string) *exec.Cmd { return exec.Command(program) }

func bind(*exec.Cmd) {}

func sendTerminate(p *os.Process) { _ = p.Signal(os.Interrupt) } // a process that has exited needs no signal

// lockFile fails: only Linux can keep two managers from using one folder.
func lockFile(string) (*os.File, error) {
	return nil, fault.New(fault.Permanent, "etcd can be managed on Linux only")
}

func writePID(string, int) error { return nil }

func endLeftover(string, time.Duration) error { return nil }
