package toolbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/platform/traits"
)

// theatre emulates a cloud on a stage without machines.
type theatre struct {
	dir    string
	breaks chan error // ends the play
	closed bool
}

func (h *theatre) Contract() rehearsal.Stage   { return rehearsal.Stage{} }
func (h *theatre) Dir() string                 { return h.dir }
func (h *theatre) Play(*rehearsal.Play) error  { return nil }
func (h *theatre) Close(context.Context) error { h.closed = true; return nil }
func (h *theatre) open(context.Context, rehearsal.StageOptions) (rehearsal.OpenStage, error) {
	return h, nil
}

func (h *theatre) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(env, "WORK="+h.dir)
	return cmd
}

func (h *theatre) start(context.Context, rehearsal.Stage, rehearsal.Options) (*rehearsal.Play, error) {
	return &rehearsal.Play{Close: func() error { return nil }, Run: func(ctx context.Context) error {
		select {
		case err := <-h.breaks:
			return err
		case <-ctx.Done():
			return nil
		}
	}}, nil
}

// rehearse runs the command line, with output to a file, and a command for a shell.
func (h *theatre) rehearse(t *testing.T, sys shell.System, script string) (code int, out, errs string) {
	t.Helper()
	return h.run(t, sys, "/bin/sh", "-c", script)
}

func (h *theatre) run(t *testing.T, sys shell.System, command ...string) (code int, out, errs string) {
	t.Helper()
	h.dir = t.TempDir()
	sys.Env, sys.In, sys.Version, sys.Program = os.Getenv, &bytes.Buffer{}, "1.37.0", "/opt/kops/kops"
	sys.Clouds = []kops.Provider{
		platform.Provider{Platform: platform.Platform{Traits: traits.Traits{Name: "aws"}}, Rehearse: h.start},
		platform.Provider{Platform: platform.Platform{Traits: traits.Traits{Name: "local"}}, Stage: h.open},
	}
	files := [2]*os.File{}
	for i := range files {
		f, err := os.Create(filepath.Join(h.dir, []string{"out", "errs"}[i]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // it is read below
		files[i] = f
	}
	sys.Out, sys.Err = files[0], files[1]
	code = cli.Run(t.Context(), sys, append([]string{"toolbox", "rehearse", "--"}, command...))
	var text [2]string
	for i, f := range files {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(data)
	}
	if !h.closed {
		t.Error("the rehearsal is not closed")
	}
	return code, text[0], text[1]
}

func TestTheExitCodeIsTheCommands(t *testing.T) {
	for script, want := range map[string]int{"true": 0, "exit 7": 7, "kill -9 $$": 137} {
		if code, _, errs := new(theatre).rehearse(t, shell.System{}, script); code != want || errs != "" {
			t.Errorf("%s: exit code %d, want %d; %s", script, code, want, errs)
		}
	}
}

// TestTheCommandHasTheTerminal checks that output is not a pipe, with which a shell would show no
// prompt.
func TestTheCommandHasTheTerminal(t *testing.T) {
	h := new(theatre)
	_, out, _ := h.rehearse(t, shell.System{Terminal: true}, "readlink /proc/$$/fd/1 /proc/$$/fd/2; echo $PATH")
	if want := h.dir + "/out\n" + h.dir + "/errs\n/opt/kops:"; !strings.HasPrefix(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestASignalReachesTheCommand checks that the command exits in order, before the rehearsal does.
func TestASignalReachesTheCommand(t *testing.T) {
	signals := make(chan os.Signal, 1)
	h := &theatre{}
	pipe := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := os.ReadFile(pipe); err == nil {
			signals <- syscall.SIGTERM
		}
	}()
	code, out, errs := h.rehearse(t, shell.System{Signals: signals}, `trap 'echo in order; exit 3' TERM; echo > `+pipe+`; while :; do sleep 0.05; done`)
	if code != 130 || out != "in order\n" || !strings.Contains(errs, "interrupted") {
		t.Errorf("exit code %d, got %q, %q", code, out, errs)
	}
}

// TestAShellEndsWithItsTerminal uses a shell at a terminal, which ignores SIGTERM, and would be
// waited for.
func TestAShellEndsWithItsTerminal(t *testing.T) {
	// A shell inherits ignored signals: under nohup it would not notice that its terminal is gone.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangUps) })
	signals := make(chan os.Signal, 1)
	dir := t.TempDir()
	pipe, script := filepath.Join(dir, "ready"), filepath.Join(dir, "shell")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(script, []byte("#!/bin/sh\ntrap '' TERM\necho > "+pipe+"\nwhile :; do sleep 0.05; done\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := os.ReadFile(pipe); err == nil {
			signals <- syscall.SIGTERM
		}
	}()
	begun := time.Now()
	if code, _, errs := new(theatre).run(t, shell.System{Signals: signals}, script); code != 130 || time.Since(begun) > 20*time.Second {
		t.Errorf("exit code %d after %s: %s", code, time.Since(begun), errs)
	}
}

// TestTheCommandFindsWhatTheUserHasOutside checks the bundle, and the programs that were built.
func TestTheCommandFindsWhatTheUserHasOutside(t *testing.T) {
	_, out, _ := new(theatre).rehearse(t, shell.System{Cache: "/var/cache/kops"}, "echo $KOPS_BUNDLE $KOPS_BUILT")
	if want := "/var/cache/kops/bundle /var/cache/kops/build\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestAPlayThatEndsIsReported checks that the end of a play is shown while the command runs, and is
// an error.
func TestAPlayThatEndsIsReported(t *testing.T) {
	h := &theatre{breaks: make(chan error, 1)}
	h.breaks <- io.ErrUnexpectedEOF
	code, out, errs := h.rehearse(t, shell.System{}, `while ! grep -q 'the rehearsal has failed' $WORK/errs; do sleep 0.05; done; echo seen`)
	if code != 1 || out != "seen\n" || !strings.Contains(errs, "Error: unexpected EOF") {
		t.Errorf("exit code %d, got %q, %q", code, out, errs)
	}
}
