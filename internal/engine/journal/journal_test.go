package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/journal"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

func step(name string) plan.Step {
	return plan.Step{Address: resource.Address{Kind: "vpc", Name: name}, Op: plan.Create}
}

func TestEachEntryIsALine(t *testing.T) {
	var b bytes.Buffer
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("east", 3600))
	j := journal.New(&b, func() time.Time { return at })
	for _, err := range []error{
		j.Begin(t.Context(), step("a")), j.End(t.Context(), step("a"), nil),
		j.Begin(t.Context(), step("b")), j.End(t.Context(), step("b"), errors.New("line one\nline \"two\"")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `{"time":"2026-03-04T04:06:07Z","event":"begin","op":"create","step":"vpc/a"}
{"time":"2026-03-04T04:06:07Z","event":"done","op":"create","step":"vpc/a"}
{"time":"2026-03-04T04:06:07Z","event":"begin","op":"create","step":"vpc/b"}
{"time":"2026-03-04T04:06:07Z","event":"failed","op":"create","step":"vpc/b","error":"line one\nline \"two\""}
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// slowBuffer is a buffer that yields to other goroutines during writes, and notices concurrent ones.
type slowBuffer struct {
	bytes.Buffer
	busy, mixed atomic.Bool
}

func (s *slowBuffer) Write(p []byte) (int, error) {
	if s.busy.Swap(true) {
		s.mixed.Store(true)
		return len(p), nil
	}
	defer s.busy.Store(false)
	for range 100 {
		runtime.Gosched()
	}
	return s.Buffer.Write(p)
}

func TestEntriesOfConcurrentStepsDoNotMix(t *testing.T) {
	var b slowBuffer
	j := journal.New(&b, time.Now)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			s := step(fmt.Sprint(i))
			if err := errors.Join(j.Begin(t.Context(), s), j.End(t.Context(), s, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b.mixed.Load() {
		t.Fatal("two entries were written at once")
	}
	open := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		var e journal.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if open[e.Step] != (e.Event == "done") {
			t.Errorf("%s of %s out of order", e.Event, e.Step)
		}
		open[e.Step] = true
	}
	if len(open) != 50 {
		t.Errorf("%d steps", len(open))
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	j := journal.New(fullWriter{}, time.Now)
	for _, err := range []error{j.Begin(t.Context(), step("a")), j.End(t.Context(), step("a"), nil)} {
		if err == nil || err.Error() != "write a journal entry: disk full" {
			t.Errorf("error: %v", err)
		}
	}
}
