package bundle

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
)

const file = "https://example.com/dl/tool"

// begin opens a folder and adds a file to it.
func begin(t *testing.T, dir, text string) *area {
	t.Helper()
	a, err := openArea(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = a.file(file, Built, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// expect checks that the bundle holds a text, unchanged, and serves it.
func expect(t *testing.T, dir, text string) {
	t.Helper()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	h, err := b.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/dl/tool", nil))
	if w.Body.String() != text {
		t.Errorf("%q is served, want %q", w.Body, text)
	}
}

// TestAnInterruptedRun stops a run where a killed process would: the folder keeps its state, and
// only the lock is released.
func TestAnInterruptedRun(t *testing.T) {
	dir := t.TempDir()
	a := begin(t, dir, "old")
	if _, err := a.commit(); err != nil {
		t.Fatal(err)
	}
	a.close()

	a = begin(t, dir, "new") // before bundle.json is renamed
	a.lock.Close()
	expect(t, dir, "old")

	a = begin(t, dir, "new")
	if err := a.replace("bundle.json", a.next); err != nil { // after that, before the file is in its place
		t.Fatal(err)
	}
	a.lock.Close()
	expect(t, dir, "new")
	if text, err := os.ReadFile(filepath.Join(dir, "files/dl/tool")); err != nil || string(text) != "old" {
		t.Fatalf("the file is %q, %v: the test did not end the run where it meant to", text, err)
	}

	b, err := Create(t.Context(), Options{Dir: dir, Now: time.Unix(1, 0), Arches: []download.Arch{download.AMD64}})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, b.Dir(), "new")
	if text, err := os.ReadFile(filepath.Join(dir, "files/dl/tool")); err != nil || string(text) != "new" {
		t.Errorf("the next run leaves %q, %v", text, err)
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	a := begin(t, dir, "text")
	if _, err := openArea(dir); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := a.commit(); err != nil { // the second run removed nothing
		t.Error(err)
	}
	a.close()
	expect(t, dir, "text")
	if b, err := openArea(dir); err != nil {
		t.Error(err)
	} else {
		b.close()
	}
}
