package text

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/exec"
	"kops.local/kops/internal/plan"
	"kops.local/kops/internal/resource"
)

// Progress shows a running plan: a line for each step that ends where lines
// stay, or a few lines that are redrawn where they can be. It is safe for
// concurrent use; give its Report to the executor.
type Progress struct {
	mu sync.Mutex
	screen
	start   time.Time
	total   int
	done    int
	failed  int
	cut     int // begun, and not known to have ended when the run was stopped
	skipped int
	running []*running
}

// running is a step that has begun, or a kept resource that is waited for.
type running struct {
	address resource.Address
	op      plan.Op
	since   time.Time
	reason  string // why it is tried again
}

// Lines returns a progress of plain lines for the plan.
func Lines(out io.Writer, now func() time.Time, p *plan.Plan) *Progress {
	return &Progress{screen: screen{out: out, now: now}, start: now(), total: len(p.Steps) - p.Count(plan.Keep)}
}

// Live returns a progress that redraws itself with ANSI escapes; width is the
// number of columns, asked at each redraw.
func Live(out io.Writer, now func() time.Time, p *plan.Plan, width func() int) *Progress {
	l := Lines(out, now, p)
	l.width = width
	return l
}

// Report takes one event of the executor.
func (p *Progress) Report(e exec.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.State {
	case exec.Started:
		p.begin(e)
	case exec.Retrying:
		r := p.begin(e)
		if e.Err != nil && r.reason != e.Err.Error() {
			r.reason = e.Err.Error()
			p.line("%s %s: %s", waiting(e.Step.Op), e.Step.Address, r.reason)
		}
	case exec.Done:
		p.end(e)
		if e.Step.Op == plan.Keep {
			break
		}
		p.done++
		p.line("%s %s (%s) [%d/%d]", past(e.Step.Op), e.Step.Address, round(e.Elapsed), p.done, p.total)
	case exec.Failed:
		begun := p.end(e)
		if errors.Is(e.Err, context.Canceled) { // by whom the run was stopped, of which its error tells
			p.stopped(begun)
			break
		}
		p.failed++
		p.note(fmt.Sprintf("failed to %s %s: %v", e.Step.Op, e.Step.Address, e.Err))
	case exec.Skipped:
		p.skipped++
	}
	p.draw(p.rows)
}

// Tick redraws the display when it is due, so that times go on while nothing
// happens. Call it about once a second; plain lines ignore it.
func (p *Progress) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(p.rows)
}

// Note writes a line that stays.
func (p *Progress) Note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(line)
	p.draw(p.rows)
}

// Close takes the display away and leaves one line that sums up the run.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%d of %d changes done in %s", p.done, p.total, round(p.now().Sub(p.start)))
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	if p.cut > 0 {
		text += fmt.Sprintf(", %d cut off", p.cut)
	}
	if p.skipped > 0 {
		text += fmt.Sprintf(", %d not tried", p.skipped)
	}
	p.note(text)
	p.running = nil
}

func (p *Progress) begin(e exec.Event) *running {
	for _, r := range p.running {
		if r.address == e.Step.Address && r.op == e.Step.Op {
			return r
		}
	}
	r := &running{address: e.Step.Address, op: e.Step.Op, since: p.now()}
	p.running = append(p.running, r)
	return r
}

// end takes a step off the display and reports whether it had begun.
func (p *Progress) end(e exec.Event) bool {
	before := len(p.running)
	p.running = slices.DeleteFunc(p.running, func(r *running) bool {
		return r.address == e.Step.Address && r.op == e.Step.Op
	})
	return len(p.running) < before
}

// stopped counts a step that the end of the run met.
func (p *Progress) stopped(begun bool) {
	if begun {
		p.cut++
	} else {
		p.skipped++
	}
}

// rows are the lines of the display: counts, then the steps that run longest.
func (p *Progress) rows(now time.Time) []string {
	waiting := 0
	for _, r := range p.running {
		if r.reason != "" {
			waiting++
		}
	}
	head := fmt.Sprintf("%d/%d done", p.done, p.total)
	for _, c := range []struct {
		n    int
		what string
	}{{len(p.running) - waiting, "running"}, {waiting, "waiting"}, {p.failed, "failed"}, {p.cut, "cut off"}, {p.skipped, "not tried"}} {
		if c.n > 0 {
			head += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	out := []string{head + ", " + round(now.Sub(p.start))}
	for i, r := range p.running {
		if i == mostRows {
			out = append(out, fmt.Sprintf("  and %d more", len(p.running)-mostRows))
			break
		}
		line := fmt.Sprintf("  %s %s %s", present(r.op), r.address, round(now.Sub(r.since)))
		if r.reason != "" {
			line += ": " + strings.ReplaceAll(r.reason, "\n", " ")
		}
		out = append(out, line)
	}
	return out
}

func round(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func waiting(op plan.Op) string {
	if op == plan.Keep {
		return "waiting for"
	}
	return "waiting to " + string(op)
}

func past(op plan.Op) string {
	return map[plan.Op]string{plan.Create: "created", plan.Update: "updated", plan.Delete: "deleted"}[op]
}

func present(op plan.Op) string {
	return map[plan.Op]string{plan.Create: "creating", plan.Update: "updating", plan.Delete: "deleting", plan.Keep: "waiting for"}[op]
}
