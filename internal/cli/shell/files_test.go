//go:build unix

package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// fullDevice is a stream to a full device.
type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatIsNotWrittenIsAnError(t *testing.T) {
	app := New(System{Out: fullDevice{}, Err: io.Discard, Now: time.Now})
	app.Printf("a: 1\n")
	if !errors.Is(app.Mistake, syscall.ENOSPC) {
		t.Errorf("the error is %v", app.Mistake)
	}
}

func TestWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("before"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- string(data)
	}()
	if err := errors.Join(WriteText(pipe, "through"), WriteText(link, "replaced")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "before" {
		t.Errorf("the file behind a link holds %q, %v", data, err)
	}
	data, err := os.ReadFile(link)
	if info, lerr := os.Lstat(link); err != nil || lerr != nil || !info.Mode().IsRegular() || string(data) != "replaced" {
		t.Errorf("the link was not replaced: it holds %q, %v, %v", data, err, lerr)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().IsRegular() {
		t.Fatalf("the pipe was replaced: %v", err)
	}
	if got := <-read; got != "through" {
		t.Errorf("the pipe passed %q", got)
	}
	open, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	stream := "/dev/fd/" + strconv.Itoa(int(open.Fd())) // like /dev/stdout
	if err := WriteText(stream, "open"); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "open" {
		t.Errorf("the file that %s leads to holds %q, %v", stream, data, err)
	}
}

func TestReadingAFileEndsWithTheCommand(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe() // nothing is written to it
	defer out.Close()    //nolint:errcheck // it frees the reader
	app := New(System{In: in, Err: io.Discard})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for what, read := range map[string]func() error{
		"the standard input": func() error { _, err := app.Decode(ctx, []string{"-"}); return err },
		"a file":             func() error { _, err := app.ReadFiles(ctx, []string{pipe}); return err },
		"facts":              func() error { _, err := app.ReadFacts(ctx, pipe); return err },
		"a plan":             func() error { _, err := ReadPlan(ctx, pipe); return err },
	} {
		if err := read(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if w, err := os.OpenFile(pipe, os.O_RDWR, 0); err != nil || w.Close() != nil { // frees the readers
		t.Error(err)
	}
}
