package rehearse_test

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

	"kops.local/kops/internal/cli/rehearse"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
)

// theatre emulates a cloud on a stage without machines.
type theatre struct {
	dir     string
	signals chan os.Signal
	lacks   error      // what is missing on the host
	breaks  chan error // ends the play
	sticks  error      // why the stage cannot be closed
	hangs   chan error // why the stage cannot be opened, in the end
	closed  bool
}

func (h *theatre) Contract() rehearsal.Stage   { return rehearsal.Stage{} }
func (h *theatre) Dir() string                 { return h.dir }
func (h *theatre) Play(*rehearsal.Play) error  { return nil }
func (h *theatre) Close(context.Context) error { h.closed = true; return h.sticks }
func (h *theatre) open(context.Context, rehearsal.StageOptions) (rehearsal.OpenStage, error) {
	if h.hangs != nil {
		return nil, <-h.hangs
	}
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

// run runs the command line, with output to files.
func (h *theatre) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	h.dir = t.TempDir()
	sys := rehearse.System{In: &bytes.Buffer{}, Env: os.Environ(), Version: "1.37.0", Signals: h.signals,
		Platforms: []rehearsal.Platform{{Name: "cloud", Check: func() error { return h.lacks }, Start: h.start}},
		Opener:    func(io.Writer) rehearsal.Opener { return h.open }}
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
	code = rehearse.Run(t.Context(), sys, args)
	var text [2]string
	for i, f := range files {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(data)
	}
	return code, text[0], text[1]
}

// script runs a command for a shell, and checks that the rehearsal is closed.
func (h *theatre) script(t *testing.T, script string) (code int, out, errs string) {
	t.Helper()
	code, out, errs = h.run(t, "--", "/bin/sh", "-c", script)
	if !h.closed {
		t.Error("the rehearsal is not closed")
	}
	return code, out, errs
}

func TestTheExitCodeIsTheCommands(t *testing.T) {
	for script, want := range map[string]int{"true": 0, "exit 7": 7, "kill -9 $$": 137} {
		if code, _, errs := new(theatre).script(t, script); code != want || errs != "" {
			t.Errorf("%s: exit code %d, want %d; %s", script, code, want, errs)
		}
	}
}

// TestTheVersionOfKopsIsItsOwn is about a program that is left from another release, such as in PATH.
func TestTheVersionOfKopsIsItsOwn(t *testing.T) {
	for version, want := range map[string]string{"1.37.0": "", "1.38.0": "this kops-rehearse is version 1.37.0, but the kops that has found it is 1.38.0; put kops-rehearse of the same release beside kops"} {
		h := new(theatre)
		if code, _, errs := h.run(t, "--for", version, "--", "true"); (code == 0) != (want == "") || h.closed != (want == "") || !strings.Contains(errs, want) {
			t.Errorf("kops %s: exit code %d, %s", version, code, errs)
		}
	}
	if _, out, _ := new(theatre).run(t, "--help"); strings.Contains(out, "--for") {
		t.Errorf("users are told of a flag that is not for them: %s", out)
	}
}

// TestTheCommandHasTheTerminal checks that output is not a pipe, with which a shell would show no
// prompt.
func TestTheCommandHasTheTerminal(t *testing.T) {
	h := new(theatre)
	_, out, _ := h.script(t, "readlink /proc/$$/fd/1 /proc/$$/fd/2")
	if want := h.dir + "/out\n" + h.dir + "/errs\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestASignalReachesTheCommand checks that the command exits in order, before the rehearsal does.
func TestASignalReachesTheCommand(t *testing.T) {
	signals := make(chan os.Signal, 1)
	h := &theatre{signals: signals}
	pipe := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := os.ReadFile(pipe); err == nil {
			signals <- syscall.SIGTERM
		}
	}()
	code, out, errs := h.script(t, `trap 'echo in order; exit 3' TERM; echo > `+pipe+`; while :; do sleep 0.05; done`)
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
	if code, _, errs := (&theatre{signals: signals}).run(t, script); code != 130 || time.Since(begun) > 20*time.Second {
		t.Errorf("exit code %d after %s: %s", code, time.Since(begun), errs)
	}
}

// TestAPlayThatEndsIsReported checks that the end of a play is shown while the command runs, and is
// an error.
func TestAPlayThatEndsIsReported(t *testing.T) {
	h := &theatre{breaks: make(chan error, 1)}
	h.breaks <- io.ErrUnexpectedEOF
	code, out, errs := h.script(t, `while ! grep -q 'the rehearsal has failed' $WORK/errs; do sleep 0.05; done; echo seen`)
	if code != 1 || out != "seen\n" || !strings.Contains(errs, "Error: unexpected EOF") {
		t.Errorf("exit code %d, got %q, %q", code, out, errs)
	}
}

// TestErrorsAreShownWithTheirRemedies checks errors of the host, of the command line, and of a
// rehearsal that cannot be removed.
func TestErrorsAreShownWithTheirRemedies(t *testing.T) {
	for name, c := range map[string]struct {
		theatre theatre
		args    []string
		want    string
	}{
		"a host that lacks something": {theatre{lacks: fault.Wrap(fault.Permanent, errors.New("no emulator"), "install it")}, []string{"--", "true"}, "Error: no emulator; install it\n"},
		"another cloud":               {theatre{}, []string{"--cloud", "other"}, "Error: other cannot be emulated on this host; use one of: cloud\n"},
		"another flag":                {theatre{}, []string{"--cluod", "cloud"}, "Error: unknown flag: --cluod; see: kops-rehearse --help\n"},
		"a program that is missing":   {theatre{}, []string{"/no/such/program"}, "Error: run /no/such/program: fork/exec /no/such/program: no such file or directory\n"},
		"a stage that sticks":         {theatre{sticks: errors.New("a disk is in use")}, []string{"--", "true"}, "Error: a disk is in use\n"},
		"both":                        {theatre{sticks: errors.New("a disk is in use")}, []string{"--", "false"}, "Error: run false: exit status 1\nError: a disk is in use\n"},
		"characters for a terminal":   {theatre{sticks: errors.New("\x1b[2J")}, []string{"--", "true"}, "Error: \\x1b[2J\n"},
	} {
		if code, out, errs := c.theatre.run(t, c.args...); code != 1 || out != "" || errs != c.want {
			t.Errorf("%s: exit code %d, got %q, %q, want %q", name, code, out, errs, c.want)
		}
	}
}

// TestASecondInterruptQuits checks that a user need not wait for a stage that takes long.
func TestASecondInterruptQuits(t *testing.T) {
	h := &theatre{signals: make(chan os.Signal, 3), hangs: make(chan error)}
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, os.Interrupt} {
		h.signals <- s
	}
	if code, _, errs := h.run(t, "--", "true"); code != 130 || errs != "Error: quit immediately; the next rehearsal removes the rest\n" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	h.hangs <- io.ErrUnexpectedEOF
}

func TestHelpAndVersion(t *testing.T) {
	for flag, want := range map[string]string{"--help": "--cloud string", "--version": "1.37.0\n"} {
		if code, out, errs := new(theatre).run(t, flag); code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%s: exit code %d, got %q, %q", flag, code, out, errs)
		}
	}
}
