package edit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
)

// bench returns a group to write, and an app whose user has the given editor.
func bench(editor string) (*shell.App, *api.InstanceGroup) {
	group := &api.InstanceGroup{}
	group.Name = "nodes"
	group.Spec.MachineType = "small"
	return shell.New(shell.System{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Env: func(name string) string { return map[string]string{"EDITOR": editor}[name] }}), group
}

// Editors get ^C from the terminal, as this program does. An editor that continues must not lose
// what was written.
func TestAnInterruptIsForTheEditor(t *testing.T) {
	app, group := bench("sed -i s/small/large/")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	stored, err := New(ctx, app, group, func(ctx context.Context, text []byte) error {
		if !strings.Contains(string(text), "machineType: large") {
			t.Errorf("it writes %s", text)
		}
		return ctx.Err()
	})
	if !stored || err != nil {
		t.Errorf("stored %v, %v", stored, err)
	}
}

func TestAnInterruptWhileStoringEndsTheEditAndKeepsTheText(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	app, group := bench("sed -i -e s/small/large/ -e '$a# edited'")
	tries := 0
	stored, err := New(t.Context(), app, group, func(ctx context.Context, _ []byte) error {
		if tries++; tries > 1 {
			t.Error("the editor was opened again")
			return nil
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if stored || !errors.Is(err, context.Canceled) {
		t.Fatalf("stored %v, %v", stored, err)
	}
	_, file, _ := strings.Cut(fault.Remedy(err), "your text is kept in ")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "machineType: large") {
		t.Errorf("%q holds %q, %v", file, text, err)
	}
}

func TestAnEditorWithoutATerminalIsNotReopenedForever(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	app, group := bench("sed -i '$a# edited'") // a different text each time
	tries := 0
	stored, err := New(t.Context(), app, group, func(context.Context, []byte) error {
		if tries++; tries > 9 {
			t.Fatal("the editor is opened again and again")
		}
		return errors.New("it is refused")
	})
	if stored || err == nil || !strings.Contains(err.Error(), "it is refused") || !strings.Contains(err.Error(), "your text is kept in ") {
		t.Errorf("stored %v, %v", stored, err)
	}
}

func TestNoEditorIsOpenedWithoutATerminal(t *testing.T) {
	app, group := bench("")
	_, err := New(t.Context(), app, group, func(context.Context, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "not a terminal") {
		t.Error(err)
	}
}
