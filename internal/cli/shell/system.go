// Package shell is what the commands of the command line have in common: the
// streams, the environment, the global flags, and how objects are printed.
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
	"time"

	"golang.org/x/term"

	"kops.local/kops"
)

// System is the world a command runs in; tests make their own.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	// Asked says that In is a terminal, at which somebody answers.
	Asked bool
	// Env returns an environment variable, or "".
	Env func(string) string
	// Terminal says that Err is a terminal, on which progress may be redrawn.
	Terminal bool
	// Color says that Out is a terminal, which shows colours; Paged that Out is a
	// terminal at all.
	Color, Paged bool
	// Width is the terminal's width in columns; 0 if there is no terminal.
	Width int
	// Home and Cache are folders of the user; empty when there are none.
	Home, Cache string
	User, Host  string
	// Releases is where releases of kops are, and Programs the digest of the programs for
	// machines that this one was released with; both may be empty. See kops.Programs.
	Releases, Programs string
	// Program is the path of this program, for processes that outlive a command.
	Program string
	PID     int
	Now     func() time.Time
	// Sleep waits, or returns the error of ctx when that ends first; nil waits for real.
	Sleep func(ctx context.Context, d time.Duration) error
	// NewKey makes a private key of a cluster; nil: RSA.
	NewKey func() (crypto.Signer, error)
	// Signals are those that ask the command to stop; nil: nobody asks.
	Signals <-chan os.Signal
	Version string
	// Libraries is where libraries write their own logs; nil: they are not asked to.
	Libraries *Libraries
	// Clouds are platforms that go before the built-in ones of the same name.
	Clouds []kops.Provider
}

// Libraries takes what libraries log by themselves. It goes nowhere unless the user asks
// for details: what matters of it comes back as an error, too.
type Libraries struct{ to atomic.Pointer[io.Writer] }

// Write implements io.Writer.
func (l *Libraries) Write(data []byte) (int, error) {
	if w := l.to.Load(); w != nil {
		return (*w).Write(data)
	}
	return len(data), nil
}

// KeepTerminal notes the modes of the terminal at which the user is, for a program that
// may change them; the function that it returns restores them.
func (a *App) KeepTerminal() (restore func()) {
	f, ok := a.In.(*os.File)
	if !ok {
		return func() {}
	}
	modes, err := term.GetState(int(f.Fd()))
	if err != nil { // it is no terminal
		return func() {}
	}
	return func() { _ = term.Restore(int(f.Fd()), modes) } // a terminal that is gone has no modes
}

// OS returns the world of this process.
func OS(version string) System {
	s := System{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, PID: os.Getpid(), Now: time.Now, Version: version}
	terminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" }
	s.Asked = term.IsTerminal(int(os.Stdin.Fd()))
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
		if real, err := filepath.EvalSymlinks(p); err == nil { // on macOS, p can be a link, and what belongs to kops is beside its target
			s.Program = real
		}
	}
	return s
}
