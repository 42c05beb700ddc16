package text

import (
	"fmt"
	"time"
)

// Waiting shows the reasons for waiting: a line for each new reason on a plain screen, or the
// current reasons, redrawn, on a terminal. It is safe for concurrent use.
type Waiting struct {
	display
	updated bool
	// reasons are the reasons found by the last check.
	reasons []Reason
	// printed are the texts that were written for each reason that still holds.
	printed map[string]map[string]bool
}

// Reason is a reason for waiting: what is not as it should be, and in which way.
type Reason struct{ Of, Text string }

// NewWaiting returns a display on a screen.
func NewWaiting(on *Screen) *Waiting {
	w := &Waiting{display: display{screen: on, start: on.now()}, printed: map[string]map[string]bool{}}
	w.redraw = w.rows
	on.show(&w.display)
	return w
}

// Update sets the reasons that a check has found; an empty list means that all is well. A text
// already written for a reason is not repeated while the reason lasts, even if its text alternates.
func (w *Waiting) Update(reasons []Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, printed := len(w.reasons), map[string]map[string]bool{}
	if len(reasons) == 0 && (before > 0 || !w.updated) {
		w.screen.printPlain("[%s] ready", w.elapsed(w.screen.now()))
	}
	for _, r := range reasons {
		if printed[r.Of] == nil {
			printed[r.Of] = w.printed[r.Of]
		}
		if printed[r.Of] == nil {
			printed[r.Of] = map[string]bool{}
		}
		if !printed[r.Of][r.Text] {
			printed[r.Of][r.Text] = true
			w.screen.printPlain("[%s] waiting for %s: %s", w.elapsed(w.screen.now()), r.Of, r.Text)
		}
	}
	if n := len(reasons); n > 0 && n < before {
		w.screen.printPlain("[%s] %s", w.elapsed(w.screen.now()), remainingLine(n))
	}
	w.reasons, w.printed, w.updated = reasons, printed, true
	w.screen.draw(&w.display, w.rows)
}

// remainingLine says how many reasons remain.
func remainingLine(n int) string {
	if n == 1 {
		return "1 problem left"
	}
	return fmt.Sprintf("%d problems left", n)
}

// rows returns the lines of the display: how long and how many, then the reasons.
func (w *Waiting) rows(now time.Time) []row {
	state := remainingLine(len(w.reasons))
	switch {
	case !w.updated:
		state = "looking"
	case len(w.reasons) == 0:
		state = "ready"
	}
	return append([]row{{line: fmt.Sprintf("waiting for %s, %s", w.elapsed(now), state)}}, reasonRows(w.reasons)...)
}
