// Package rehearse is kops-rehearse, the program that `kops toolbox rehearse` starts: it emulates a
// cloud on this host while a command runs in it.
//
// It must not know any platform.
package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/spec/diag"
)

// System is the environment in which the program runs.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	// Env is the environment, NAME=VALUE.
	Env     []string
	Version string
	// Signals ask the program to stop.
	Signals <-chan os.Signal
	// Platforms are the platforms that can be emulated, the default first.
	Platforms []rehearsal.Platform
	// Opener returns what opens the stage, with a log of long operations, which may be nil.
	Opener func(log io.Writer) rehearsal.Opener
}

// Exit codes of the program, unless it exits with its command's.
const (
	failed      = 1
	interrupted = 130
)

// program is one run.
type program struct {
	System
	err       io.Writer // for messages: Err, without control characters
	cloud     string
	caller    string // the version of the kops that started it; empty: the user did
	root      string
	verbosity int
	command   []string
}

// Run runs one command line and returns the exit code. The first signal ends the command and the
// rehearsal. On an interrupt after that, Run returns while the rehearsal is being removed, and the
// process must exit.
func Run(ctx context.Context, sys System, args []string) int {
	p := &program{System: sys, err: text.Plain(sys.Err, time.Now).Stream(sys.Err, true)}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan int, 1)
	go func() { done <- p.run(ctx, args) }()
	for {
		select {
		case code := <-done:
			return code
		case signal := <-sys.Signals:
			if ctx.Err() == nil {
				stop()
			} else if signal == os.Interrupt {
				p.notef("Error: quit immediately; the next rehearsal removes the rest\n")
				return interrupted
			}
		}
	}
}

// notef writes a message to the user.
func (p *program) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(p.err, format, args...) // nothing could be told
}

// flags returns the flags of the program, which sets the values of p.
func (p *program) flags(version *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("kops-rehearse", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.SetOutput(io.Discard) // errors are printed below
	f.StringVar(&p.cloud, "cloud", p.Platforms[0].Name, "cloud to emulate: "+diag.Or(rehearse.Names(p.Platforms)))
	f.StringVar(&p.root, "dir", "", "folder of the rehearsal (default /var/lib/kops-rehearsal)")
	f.IntVarP(&p.verbosity, "v", "v", 0, "how much to log on stderr: 0 problems, 1 all events")
	f.BoolVar(version, "version", false, "print the version")
	f.StringVar(&p.caller, "for", "", "version of the kops that starts this program")
	_ = f.MarkHidden("for") // it exists
	return f
}

// run runs one command line to its end.
func (p *program) run(ctx context.Context, args []string) int {
	var version bool
	f := p.flags(&version)
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err = fmt.Fprintf(p.Out, "Emulates a cloud on this host, and runs a command in it: kops toolbox rehearse --help\n\nUsage:\n  kops-rehearse [flags] [-- COMMAND [ARGUMENT]...]\n\nFlags:\n%s", f.FlagUsages())
	case err != nil:
		p.notef("Error: %v; see: kops-rehearse --help\n", err)
		return failed
	case version:
		_, err = fmt.Fprintf(p.Out, "%s\n", p.Version)
	case p.caller != "" && p.caller != p.Version:
		err = fault.Wrap(fault.Permanent, fmt.Errorf("this kops-rehearse is version %s, but the kops that has found it is %s", p.Version, p.caller),
			"put kops-rehearse of the same release beside kops")
	default:
		p.command = f.Args()
		err = p.rehearse(ctx)
	}
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	p.printError(err)
	if ctx.Err() != nil {
		return interrupted
	}
	return failed
}

// printError writes an error and its remedy.
func (p *program) printError(err error) {
	remedy := fault.Remedy(err)
	if remedy != "" {
		remedy = "; " + remedy
	}
	p.notef("Error: %v%s\n", err, remedy)
}

// exitCode is how the command exited.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// rehearse opens a rehearsal, runs the command in it, or a shell, and closes it.
func (p *program) rehearse(ctx context.Context) error {
	var progress io.Writer
	if p.verbosity > 0 {
		progress = p.err
	}
	r, err := rehearse.Open(ctx, p.Platforms, p.Opener(progress), p.cloud, rehearsal.StageOptions{Root: p.root, Log: p.log()})
	if err != nil {
		return err
	}
	if len(p.command) == 0 {
		p.command = []string{cmp.Or(p.getenv("SHELL"), "/bin/sh")}
		p.notef("%s is emulated on this host in this shell; exit ends the rehearsal and removes everything created in it\n", strings.ToUpper(p.cloud))
	}
	err = p.runIn(ctx, r)
	if ctx.Err() != nil {
		p.notef("the rehearsal is ending: its machines are being removed; if you quit immediately, the next rehearsal removes the rest\n")
	}
	cerr := r.Close(context.WithoutCancel(ctx))
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	case errors.As(err, &status) && cerr == nil:
		return codeOf(status)
	case err != nil:
		err = fmt.Errorf("run %s: %w", p.command[0], err)
	}
	if err != nil && cerr != nil {
		p.printError(err)
		err = nil
	}
	return cmp.Or(err, cerr)
}

// getenv returns a variable of the environment, or "".
func (p *program) getenv(name string) string {
	for _, e := range p.Env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// log returns a log of problems, or with -v of everything, next to the command's output.
func (p *program) log() *slog.Logger {
	level := slog.LevelWarn
	if p.verbosity > 0 {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: level}))
}

// grace is how long a command may take to exit after it was asked to stop, before it is killed.
const grace = 30 * time.Second

// runIn runs the command in a rehearsal until it exits. When this program is stopped, so is the
// command; if the play fails meanwhile, the user sees the error.
func (p *program) runIn(ctx context.Context, r *rehearse.Rehearsal) error {
	cmd := r.Command(ctx, p.Env, p.command[0], p.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, p.Out, p.Err // a shell needs the terminal itself
	stop := syscall.SIGTERM
	if len(p.command) == 1 { // a shell at a terminal ignores SIGTERM, and exits when the terminal is closed
		stop = syscall.SIGHUP
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(stop) }
	cmd.WaitDelay = grace
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.Done():
			p.notef("the rehearsal has failed, and its services no longer answer: %v\n", r.Failure())
		case <-over:
		}
	})
	defer watch.Wait()
	defer close(over)
	return cmd.Run()
}

// codeOf returns the exit code of a failed command, as shells do.
func codeOf(status *exec.ExitError) exitCode {
	if w, ok := status.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitCode(128 + int(w.Signal()))
	}
	return exitCode(status.ExitCode())
}
