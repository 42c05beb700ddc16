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

// Mark is a decision about a machine that was made after the machine: an empty file in its folder,
// which outlives the process that carries the decision out.
type Mark string

// The marks of machines.
const (
	// MarkDetached machines are not counted by their group.
	MarkDetached Mark = "detached"
	// MarkDeregistered machines get no new connections of load balancers, and MarkDrained ones have
	// no open ones either.
	MarkDeregistered Mark = "deregistered"
	MarkDrained      Mark = "drained"
	// MarkEnding machines are shut down and then removed.
	MarkEnding Mark = "ending"
)

// Marks are the marks of a machine, with the time at which each was made.
type Marks map[Mark]time.Time

// Has reports whether a mark is among them.
func (m Marks) Has(mark Mark) bool { return !m[mark].IsZero() }

// Mark marks a machine, unless it has the mark. It is an error of class fault.Gone if
// there is no such machine. The caller holds the site's lock.
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

// powerOff is the signal on which systemd stops all that runs, in order, and ends
// (SIGRTMIN+4, as systemd(1) has it; glibc keeps two signals for itself).
const powerOff = syscall.Signal(34 + 4)

// PowerOff has the machine shut itself down, as a press of its power button would; it does not
// wait for the end. It is not an error if the machine does not run.
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
