package text_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
)

// watch is a manual clock.
type watch struct{ t time.Time }

func (w *watch) now() time.Time { return w.t }

func (w *watch) pass(d time.Duration) { w.t = w.t.Add(d) }

func stepOf(op plan.Op, name string) plan.Step {
	return plan.Step{Address: resource.Address{Kind: "aws_vpc", Name: name}, Op: op}
}

func threeSteps() *plan.Plan {
	return &plan.Plan{Steps: []plan.Step{stepOf(plan.Create, "a"), stepOf(plan.Update, "b"), stepOf(plan.Delete, "c"), stepOf(plan.Keep, "d")}}
}

func TestLinesAreWrittenAsStepsEnd(t *testing.T) {
	var b bytes.Buffer
	w := &watch{}
	p := text.NewProgress(text.Plain(&b, w.now), threeSteps())
	busy := errors.New("still pending")
	p.Report(exec.Event{Step: stepOf(plan.Keep, "d"), State: exec.Retrying, Err: busy})
	p.Report(exec.Event{Step: stepOf(plan.Keep, "d"), State: exec.Done})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Started})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Retrying, Err: busy})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Retrying, Err: busy})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Retrying, Err: errors.New("slow down")})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Done, Elapsed: 1234 * time.Millisecond})
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Started})
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Failed, Err: errors.New("denied")})
	p.Report(exec.Event{Step: stepOf(plan.Delete, "c"), State: exec.Skipped})
	w.pass(75 * time.Second)
	p.Tick()
	p.Close()
	want := `waiting for aws_vpc/d: still pending
waiting to create aws_vpc/a: still pending
waiting to create aws_vpc/a: slow down
created aws_vpc/a (1.2s) [1/3]
failed to modify aws_vpc/b: denied
1 of 3 changes done in 1m15s, 1 failed, 1 not tried
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// screen returns what a terminal shows after the writes: it interprets the escapes that the display
// uses, and tracks the cursor.
func screen(t *testing.T, out string) string {
	t.Helper()
	lines, row, column := [][]rune{nil}, 0, 0
	for out != "" {
		if rest, ok := strings.CutPrefix(out, "\x1b["); ok {
			var up int
			if _, err := fmt.Sscanf(rest, "%dA\x1b[J", &up); err != nil || up > row {
				t.Fatalf("unknown escape %q in row %d", out, row)
			}
			row -= up
			lines = lines[:row+1]
			lines[row] = lines[row][:min(column, len(lines[row]))]
			out = rest[strings.Index(rest, "J")+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(out)
		out = out[n:]
		switch r {
		case '\r':
			column = 0
		case '\n':
			if row, column = row+1, 0; row == len(lines) {
				lines = append(lines, nil)
			}
		default:
			if column > len(lines[row]) {
				t.Fatalf("%q is written in column %d of %q", r, column, string(lines[row]))
			}
			lines[row] = append(lines[row][:column], r)
			column++
		}
	}
	text := make([]string, len(lines))
	for i, l := range lines {
		text[i] = string(l)
	}
	return strings.TrimSuffix(strings.Join(text, "\n"), "\n")
}

func TestLiveDisplay(t *testing.T) {
	var b bytes.Buffer
	w := &watch{time.Unix(100, 0)}
	p := text.NewProgress(text.Redrawn(&b, w.now, func() int { return 44 }), threeSteps())
	check := func(want string) {
		t.Helper()
		if d := cmp.Diff(want, screen(t, b.String())); d != "" {
			t.Errorf("the screen (-want +got):\n%s", d)
		}
	}
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Started})
	check("0/3 done, 1 running, 0s\n     0s creating aws_vpc/a")

	w.pass(50 * time.Millisecond)
	drawn := b.Len()
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Started})
	if b.Len() != drawn {
		t.Errorf("redrawn after 50 ms: %q", b.String()[drawn:])
	}
	w.pass(2 * time.Second)
	p.Tick()
	check("0/3 done, 2 running, 2.1s\n   2.1s creating aws_vpc/a\n     2s modifying aws_vpc/b")

	w.pass(time.Second)
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Retrying, Err: errors.New("the gateway is\nstill pending, ask later")})
	check("0/3 done, 1 running, 1 waiting, 3.1s\n   3.1s creating aws_vpc/a: the gateway is…\n     3s modifying aws_vpc/b")

	w.pass(time.Second)
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Failed, Err: errors.New("denied")})
	check("failed to modify aws_vpc/b: denied\n0/3 done, 1 waiting, 1 failed, 4.1s\n   4.1s creating aws_vpc/a: the gateway is…")

	w.pass(10 * time.Second)
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Done})
	p.Report(exec.Event{Step: stepOf(plan.Delete, "c"), State: exec.Skipped})
	p.Close()
	check("failed to modify aws_vpc/b: denied\n1 of 3 changes done in 14s, 1 failed, 1 not tried")
}

func TestMessagesAppearAboveTheDisplay(t *testing.T) {
	var b bytes.Buffer
	w := &watch{time.Unix(100, 0)}
	p := text.NewProgress(text.Redrawn(&b, w.now, func() int { return 80 }), threeSteps())
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Started})
	b.WriteString("^C") // the terminal's echo of the key
	p.Note("stopping")
	if d := cmp.Diff("stopping\n0/3 done, 1 running, 0s\n     0s creating aws_vpc/a", screen(t, b.String())); d != "" {
		t.Errorf("the screen (-want +got):\n%s", d)
	}
	v := text.NewWaiting(text.Redrawn(&b, w.now, func() int { return 80 }))
	b.Reset()
	v.Update([]text.Reason{{Of: "Node b", Text: "is not\nready"}})
	b.WriteString("^C")
	v.Note("stopping")
	if d := cmp.Diff("stopping\nwaiting for 0s, 1 problem left\n  Node b: is not ready", screen(t, b.String())); d != "" {
		t.Errorf("the screen (-want +got):\n%s", d)
	}
	b.Reset()
	text.NewProgress(text.Plain(&b, w.now), threeSteps()).Note("stopping")
	if b.String() != "stopping\n" {
		t.Errorf("a plain line is %q", b.String())
	}
}

func TestLiveDisplayShowsTheLongestRunningOnly(t *testing.T) {
	var b bytes.Buffer
	w := &watch{}
	all := &plan.Plan{}
	for i := range 20 {
		all.Steps = append(all.Steps, stepOf(plan.Create, fmt.Sprint(i)))
	}
	p := text.NewProgress(text.Redrawn(&b, w.now, func() int { return 0 }), all)
	for _, s := range all.Steps {
		w.pass(time.Second)
		p.Report(exec.Event{Step: s, State: exec.Started})
	}
	got := strings.Split(screen(t, b.String()), "\n")
	if len(got) != 10 || got[1] != "    19s creating aws_vpc/0" || got[9] != "  and 12 more" {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

func TestInterruptedStepsAreCountedAndNotReported(t *testing.T) {
	var b bytes.Buffer
	p := text.NewProgress(text.Plain(&b, (&watch{}).now), threeSteps())
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Started})
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Failed, Err: fmt.Errorf("create a: %w", context.Canceled)})
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Failed, Err: context.Canceled})
	p.Report(exec.Event{Step: stepOf(plan.Delete, "c"), State: exec.Skipped})
	p.Close()
	if want := "0 of 3 changes done in 0s, 1 interrupted, 2 not tried\nIt is unknown whether the interrupted changes took effect; the next run checks and continues from there.\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// The counts of the last line add up to the changes, for all results.
func TestCountsAddUp(t *testing.T) {
	var b bytes.Buffer
	w := &watch{}
	all := threeSteps()
	all.Steps = append(all.Steps, stepOf(plan.Create, "e"), stepOf(plan.Update, "f"))
	p := text.NewProgress(text.Plain(&b, w.now), all)
	cause := fault.Wrap(fault.Denied, errors.New("denied"), "ask for it")
	p.Report(exec.Event{Step: stepOf(plan.Create, "a"), State: exec.Done, Elapsed: 20 * time.Millisecond})
	p.Report(exec.Event{Step: stepOf(plan.Update, "b"), State: exec.Failed, Err: cause})
	p.Report(exec.Event{Step: stepOf(plan.Create, "e"), State: exec.Failed, Err: cause})
	p.Report(exec.Event{Step: stepOf(plan.Update, "f"), State: exec.Denied, Err: cause})
	p.Report(exec.Event{Step: stepOf(plan.Keep, "d"), State: exec.Failed, Err: errors.New("never ready")})
	p.Report(exec.Event{Step: stepOf(plan.Delete, "c"), State: exec.Skipped})
	p.Close()
	want := `created aws_vpc/a [1/5]
failed to modify aws_vpc/b: denied; ask for it
failed to create aws_vpc/e: as aws_vpc/b
warning: not allowed to modify aws_vpc/f, which stays unchanged: denied; ask for it
cannot use aws_vpc/d: never ready
1 of 5 changes done in 0s, 2 failed, 1 not allowed, 1 not tried, 1 unchanged and not usable
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestANarrowScreenShowsTheEndsOfNames(t *testing.T) {
	var b bytes.Buffer
	p := text.NewProgress(text.Redrawn(&b, (&watch{time.Unix(100, 0)}).now, func() int { return 40 }), threeSteps())
	p.Report(exec.Event{Step: stepOf(plan.Create, "from-masters.a.example.com-to-nodes.a.example.com"), State: exec.Started})
	if d := cmp.Diff("0/3 done, 1 running, 0s\n     0s creating aw…nodes.a.example.com", screen(t, b.String())); d != "" {
		t.Errorf("the screen (-want +got):\n%s", d)
	}
}
