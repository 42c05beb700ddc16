package text

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Progress shows a running plan: a line for each completed step on a plain screen, or a few redrawn
// lines on a terminal. It is safe for concurrent use; pass its Report to the executor.
type Progress struct {
	display
	total       int
	done        int
	failed      int
	unready     int // kept resources that cannot be used
	denied      int // unchanged, as the permissions do not suffice
	interrupted int // begun, and not known to have ended when the run was stopped
	skipped     int
	running     []*running
	causes      map[string]resource.Address // the first failure of each cause
}

// running is a step that has begun, or a kept resource that others wait for.
type running struct {
	address resource.Address
	op      plan.Op
	since   time.Time
	reason  string // why it is retried
}

// NewProgress returns a progress of the plan on a screen.
func NewProgress(on *Screen, p *plan.Plan) *Progress {
	l := &Progress{display: display{screen: on, start: on.now()}, total: len(p.Steps) - p.Count(plan.Keep), causes: map[string]resource.Address{}}
	l.redraw = l.rows
	on.show(&l.display)
	return l
}

// Report processes one event of the executor.
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
			p.screen.printPlain("%s %s: %s", waitingVerb(e.Step.Op), e.Step.Address, r.reason)
		}
	case exec.Done:
		p.end(e)
		if e.Step.Op == plan.Keep {
			break
		}
		p.done++
		p.screen.printPlain("%s %s%s [%d/%d]", pastTense(e.Step.Op), e.Step.Address, durationText(e.Elapsed), p.done, p.total)
	case exec.Denied:
		p.end(e)
		p.denied++
		p.screen.printNote(fmt.Sprintf("warning: not allowed to %s %s, which stays unchanged: %s", e.Step.Op, e.Step.Address, exec.Cause(e.Err)))
	case exec.Failed:
		begun := p.end(e)
		if errors.Is(e.Err, context.Canceled) { // the cause of the stop is reported by the run's error
			p.countStopped(begun)
			break
		}
		p.fail(e)
	case exec.Skipped:
		p.skipped++
	}
	p.screen.draw(&p.display, p.rows)
}

// Close removes the display and writes one line that sums up the run.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.hide(&p.display)
	text := fmt.Sprintf("%d of %d changes done in %s", p.done, p.total, round(p.screen.now().Sub(p.start)))
	for _, c := range p.remaining() {
		text += fmt.Sprintf(", %d %s", c.n, c.what)
	}
	p.screen.printNote(text)
	if p.interrupted > 0 {
		p.screen.printNote("It is unknown whether the interrupted changes took effect; the next run checks and continues from there.")
	}
	p.running = nil
}

// fail reports a failure; if its cause was already shown, it refers to the step that failed with it first.
func (p *Progress) fail(e exec.Event) {
	what := "failed to " + string(e.Step.Op)
	if e.Step.Op == plan.Keep {
		p.unready++
		what = "cannot use"
	} else {
		p.failed++
	}
	cause := exec.Cause(e.Err)
	if first, told := p.causes[cause]; told {
		cause = "as " + first.String()
	} else {
		p.causes[cause] = e.Step.Address
	}
	p.screen.printNote(fmt.Sprintf("%s %s: %s", what, e.Step.Address, cause))
}

// Failed reports whether failures were reported.
func (p *Progress) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.causes) > 0
}

// count is a number of steps with the same result.
type count struct {
	n    int
	what string
}

// remaining counts the changes that are not done, by result. Together with the done ones, they add
// up to all changes plus the kept resources that cannot be used.
func (p *Progress) remaining() []count {
	return slices.DeleteFunc([]count{{p.failed, "failed"}, {p.denied, "not allowed"}, {p.interrupted, "interrupted"}, {p.skipped, "not tried"},
		{p.unready, "unchanged and not usable"}}, func(c count) bool { return c.n == 0 })
}

func (p *Progress) begin(e exec.Event) *running {
	for _, r := range p.running {
		if r.address == e.Step.Address && r.op == e.Step.Op {
			return r
		}
	}
	r := &running{address: e.Step.Address, op: e.Step.Op, since: p.screen.now()}
	p.running = append(p.running, r)
	return r
}

// end removes a step from the display and reports whether it had begun.
func (p *Progress) end(e exec.Event) bool {
	before := len(p.running)
	p.running = slices.DeleteFunc(p.running, func(r *running) bool {
		return r.address == e.Step.Address && r.op == e.Step.Op
	})
	return len(p.running) < before
}

// countStopped counts a step that the stop of the run interrupted or prevented.
func (p *Progress) countStopped(begun bool) {
	if begun {
		p.interrupted++
	} else {
		p.skipped++
	}
}

// rows returns the lines of the display: counts, then the steps that have run longest.
func (p *Progress) rows(now time.Time) []row {
	waiting := 0
	for _, r := range p.running {
		if r.reason != "" {
			waiting++
		}
	}
	head := fmt.Sprintf("%d/%d done", p.done, p.total)
	for _, c := range append([]count{{len(p.running) - waiting, "running"}, {waiting, "waiting"}}, p.remaining()...) {
		if c.n > 0 {
			head += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	out := []row{{line: head + ", " + round(now.Sub(p.start))}}
	for i, r := range p.running {
		if i == maxRows {
			out = append(out, row{line: fmt.Sprintf("  and %d more", len(p.running)-maxRows)})
			break
		}
		shown := row{line: fmt.Sprintf("  %5s %s %s", round(now.Sub(r.since)), presentTense(r.op), r.address)}
		if r.reason != "" {
			shown.more = ": " + r.reason
		}
		out = append(out, shown)
	}
	return out
}

// durationText says how long a step took, if that was noticeable.
func durationText(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return " (" + round(d) + ")"
}

func round(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func waitingVerb(op plan.Op) string {
	if op == plan.Keep {
		return "waiting for"
	}
	return "waiting to " + string(op)
}

func pastTense(op plan.Op) string {
	return map[plan.Op]string{plan.Create: "created", plan.Update: "modified", plan.Delete: "deleted"}[op]
}

func presentTense(op plan.Op) string {
	return map[plan.Op]string{plan.Create: "creating", plan.Update: "modifying", plan.Delete: "deleting", plan.Keep: "waiting for"}[op]
}
