// Package shell has what the commands of the command line share: the streams, the environment, the
// global flags, and how objects are printed.
//
// It must not know any single command.
package shell

import (
	"context"
	"crypto"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"kops.local/kops"
)

// System is the environment in which a command runs; tests create their own.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	// Interactive means that In is a terminal, at which a user can answer.
	Interactive bool
	// Env returns an environment variable, or "".
	Env func(string) string
	// Terminal means that Err is a terminal, on which progress may be redrawn.
	Terminal bool
	// Color means that Out is a terminal that shows colours; Paged that Out is a terminal at all.
	Color, Paged bool
	// Width is the terminal's width in columns; 0 if there is no terminal.
	Width int
	// Home and Cache are folders of the user; empty if there are none.
	Home, Cache string
	User, Host  string
	// Releases is the location of kops releases, and Programs the digest of the programs for
	// machines that belong to this release; both may be empty. See kops.Programs.
	Releases, Programs string
	// Program is the path of this program, for processes that outlive the command.
	Program string
	PID     int
	Now     func() time.Time
	// Sleep waits, or returns ctx's error if that ends first; nil means real time.
	Sleep func(ctx context.Context, d time.Duration) error
	// NewKey creates a private key for a cluster; nil means RSA.
	NewKey func() (crypto.Signer, error)
	// Exec replaces this process by another program; nil: there are no other programs.
	Exec func(path string, args, env []string) error
	// Signals ask the command to stop; nil if there are none.
	Signals <-chan os.Signal
	Version string
	// Libraries is where libraries write their own logs; if nil, their logging is not changed.
	Libraries *Libraries
	// Clouds are platforms that take precedence over built-in ones with the same name.
	Clouds []kops.Provider
}

// Libraries receives the libraries' own logs. They are discarded unless the user asks for details:
// what matters is also returned as an error.
type Libraries struct{ to atomic.Pointer[io.Writer] }

// Write implements io.Writer.
func (l *Libraries) Write(data []byte) (int, error) {
	if w := l.to.Load(); w != nil {
		return (*w).Write(data)
	}
	return len(data), nil
}

// LendTerminal lets another program use the user's terminal until the function that it returns is
// called, which restores its modes. Meanwhile ^C is for that program, as often as it is pressed.
func (a *App) LendTerminal() (restore func()) {
	a.lent.Store(true)
	modes := func() {}
	if f, ok := a.In.(*os.File); ok {
		if before, err := term.GetState(int(f.Fd())); err == nil { // it is a terminal
			modes = func() { _ = term.Restore(int(f.Fd()), before) } // restoring a terminal that is gone does nothing
		}
	}
	return func() {
		modes()
		a.lent.Store(false)
	}
}

// Lent reports whether another program uses the user's terminal.
func (a *App) Lent() bool { return a.lent.Load() }

// OS returns the system of this process.
func OS(version string) System {
	s := System{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, PID: os.Getpid(), Now: time.Now, Version: version, Exec: syscall.Exec}
	terminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" }
	s.Interactive = term.IsTerminal(int(os.Stdin.Fd()))
	s.Terminal, s.Paged = terminal(os.Stderr), terminal(os.Stdout)
	s.Color = s.Paged && os.Getenv("NO_COLOR") == ""
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil {
		s.Width = w
	}
	if dir, err := os.UserCacheDir(); err == nil {
		s.Cache = dir + "/kops"
	}
	if dir, err := os.UserHomeDir(); err == nil {
		s.Home = dir
	}
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		s.Host = h
	}
	if p, err := os.Executable(); err == nil {
		s.Program = p
		if real, err := filepath.EvalSymlinks(p); err == nil { // on macOS, p can be a link, and kops' files are next to its target
			s.Program = real
		}
	}
	return s
}
