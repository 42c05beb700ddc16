package rehearsal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// startLimit is how long a program of a play may take to answer; moto needs 2 s.
const startLimit = time.Minute

// Program is a program, such as an emulator, that is part of a play and runs until it is closed.
type Program struct {
	Cmd   *exec.Cmd
	name  string
	ended chan struct{}
	last  atomic.Value // the last line that it wrote, a string
}

// StartProgram starts a program in its own network namespace and returns when it has written a line
// that contains running, which means that it listens: on a socket in a folder, or on a port that
// only DialContext can reach. Programs of a play require no passwords. log receives everything that
// it writes; may be nil.
func StartProgram(ctx context.Context, name string, cmd *exec.Cmd, running string, log io.Writer) (*Program, error) {
	p := &Program{Cmd: cmd, name: name, ended: make(chan struct{})}
	KillWithParent(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := errors.Join(startInNamespace(cmd), in.Close()); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	up := make(chan struct{})
	go p.read(out, log, running, up)
	select {
	case <-up:
	case <-p.ended:
		err = p.Failure()
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startLimit):
		err = fmt.Errorf("%s does not come up in %s: %v", name, startLimit, p.last.Load())
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// read reads the program's output until it ends, and closes up once it listens.
func (p *Program) read(out *os.File, log io.Writer, running string, up chan<- struct{}) {
	defer close(p.ended)
	defer p.Cmd.Wait() //nolint:errcheck // how it ended is what it wrote last
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.last.Store(lines.Text())
		if log != nil {
			_, _ = fmt.Fprintln(log, lines.Text()) // a failing log is ignored
		}
		if up != nil && strings.Contains(lines.Text(), running) {
			close(up)
			up = nil
		}
	}
}

// DialContext connects to an address on which the program listens, IP:PORT.
func (p *Program) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := dialInNamespace(ctx, p.Cmd.Process.Pid, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", p.name, err)
	}
	return conn, nil
}

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Failure returns why the program ended unexpectedly.
func (p *Program) Failure() error { return fmt.Errorf("%s has ended: %v", p.name, p.last.Load()) }

// Close stops the program and all processes that it started.
func (p *Program) Close() error {
	if err := killGroup(p.Cmd); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}
