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

// Program is a program that plays a part until it is closed, such as an emulator.
type Program struct {
	Cmd   *exec.Cmd
	name  string
	ended chan struct{}
	last  atomic.Value // line that it wrote, a string
}

// StartProgram starts a program in a network of its own and returns when it has written a line
// that says that it listens, in which running is: at a socket in a folder, or at a port, which
// only DialContext reaches. No program of a play asks for passwords. log receives all that it writes; may be nil.
func StartProgram(ctx context.Context, name string, cmd *exec.Cmd, running string, log io.Writer) (*Program, error) {
	p := &Program{Cmd: cmd, name: name, ended: make(chan struct{})}
	Tie(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := errors.Join(startIsolated(cmd), in.Close()); err != nil {
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

// read reads what the program writes until it ends, and closes up when it listens.
func (p *Program) read(out *os.File, log io.Writer, running string, up chan<- struct{}) {
	defer close(p.ended)
	defer p.Cmd.Wait() //nolint:errcheck // how it ended is what it wrote last
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.last.Store(lines.Text())
		if log != nil {
			_, _ = fmt.Fprintln(log, lines.Text()) // a log that cannot be written changes nothing
		}
		if up != nil && strings.Contains(lines.Text(), running) {
			close(up)
			up = nil
		}
	}
}

// DialContext connects to an address at which the program listens, IP:PORT.
func (p *Program) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := dialIsolated(ctx, p.Cmd.Process.Pid, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", p.name, err)
	}
	return conn, nil
}

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Failure is why the program ended, which nobody asked for.
func (p *Program) Failure() error { return fmt.Errorf("%s has ended: %v", p.name, p.last.Load()) }

// Close ends the program and all that it started.
func (p *Program) Close() error {
	if err := end(p.Cmd); err != nil {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}
