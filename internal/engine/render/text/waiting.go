package text

import (
	"fmt"
	"time"
)

// Waiting shows the reasons for waiting: a line for each new reason where lines stay,
// or the current reasons, redrawn, where they can be. It is safe for concurrent use.
type Waiting struct {
	display
	seen bool
	// reasons are the reasons found by the last look.
	reasons []Reason
	// told are the texts that were written of each reason that still holds.
	told map[string]map[string]bool
}

// Reason is why it has to be waited: what is not as it should be, and in which way.
type Reason struct{ Of, Text string }

// NewWaiting returns a display on a screen.
func NewWaiting(on *Screen) *Waiting {
	w := &Waiting{display: display{screen: on, start: on.now()}, told: map[string]map[string]bool{}}
	w.redraw = w.rows
	on.show(&w.display)
	return w
}

// Saw takes the reasons that a look has found; an empty list means that all is well. A text
// already written for a reason is not repeated while the reason lasts, even if its text
// alternates.
func (w *Waiting) Saw(reasons []Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, told := len(w.reasons), map[string]map[string]bool{}
	if len(reasons) == 0 && (before > 0 || !w.seen) {
		w.screen.line("[%s] ready", w.since(w.screen.now()))
	}
	for _, r := range reasons {
		if told[r.Of] == nil {
			told[r.Of] = w.told[r.Of]
		}
		if told[r.Of] == nil {
			told[r.Of] = map[string]bool{}
		}
		if !told[r.Of][r.Text] {
			told[r.Of][r.Text] = true
			w.screen.line("[%s] waiting for %s: %s", w.since(w.screen.now()), r.Of, r.Text)
		}
	}
	if n := len(reasons); n > 0 && n < before {
		w.screen.line("[%s] %s", w.since(w.screen.now()), left(n))
	}
	w.reasons, w.told, w.seen = reasons, told, true
	w.screen.draw(&w.display, w.rows)
}

// left says how much is still waited for.
func left(n int) string {
	if n == 1 {
		return "1 problem left"
	}
	return fmt.Sprintf("%d problems left", n)
}

// rows are the lines of the display: how long and how many, then the reasons.
func (w *Waiting) rows(now time.Time) []row {
	state := left(len(w.reasons))
	switch {
	case !w.seen:
		state = "looking"
	case len(w.reasons) == 0:
		state = "ready"
	}
	return append([]row{{line: fmt.Sprintf("waiting for %s, %s", w.since(now), state)}}, reasonRows(w.reasons)...)
}
