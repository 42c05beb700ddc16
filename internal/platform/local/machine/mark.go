package machine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/site"
)

// Mark is a decision about an existing machine: an empty file in its folder, which outlives the
// process that carries the decision out.
type Mark string

// The marks that machines can have.
const (
	// MarkDetached machines are not counted by their group.
	MarkDetached Mark = "detached"
	// MarkDeregistered machines get no new connections from load balancers, and MarkDrained ones
	// have no open ones either.
	MarkDeregistered Mark = "deregistered"
	MarkDrained      Mark = "drained"
	// MarkEnding machines are shut down and then removed.
	MarkEnding Mark = "ending"
)

// Marks are the marks of a machine, with the time at which each was set.
type Marks map[Mark]time.Time

// Contains reports whether the mark is set.
func (m Marks) Contains(mark Mark) bool { return !m[mark].IsZero() }

// Mark sets a mark, unless the machine has it. It returns an error of class fault.Gone
// if there is no such machine. The caller holds the site's lock.
func (h Host) Mark(name string, mark Mark) error {
	if _, err := os.Stat(h.Path(site.Machines, name, recordFile)); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Gone, "there is no machine %s", name)
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(h.markFile(name, mark), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (h Host) markFile(name string, mark Mark) string {
	return h.Path(site.Machines, name, string(mark))
}

func (h Host) marks(name string) (Marks, error) {
	var out Marks
	for _, m := range []Mark{MarkDetached, MarkDeregistered, MarkDrained, MarkEnding} {
		info, err := os.Stat(h.markFile(name, m))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = Marks{}
		}
		out[m] = info.ModTime()
	}
	return out, nil
}

// powerOff is the signal that makes systemd shut down in order (SIGRTMIN+4, see
// systemd(1); glibc reserves two signals).
const powerOff = syscall.Signal(34 + 4)

// PowerOff asks the machine to shut down, like a press of its power button; it does not wait
// for that. It is not an error if the machine does not run.
func (h Host) PowerOff(name string) error {
	pid, err := h.init(name)
	if errors.Is(err, errNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(powerOff)
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
