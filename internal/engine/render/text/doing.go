package text

import (
	"fmt"
	"time"
)

// Doing shows, in one redrawn line, what a command is doing while it has no other output. It is
// safe for concurrent use.
type Doing struct {
	display
	what string
}

// NewDoing returns a display that is drawn from its first Tick on. Any other output or display
// dismisses it.
func NewDoing(on *Screen) *Doing {
	d := &Doing{display: display{screen: on, start: on.now(), brief: true}}
	d.redraw = d.rows
	on.show(&d.display)
	return d
}

// Set sets what is being done, and reports whether the display has not been dismissed.
func (d *Doing) Set(what string) bool {
	d.mu.Lock()
	d.what = what
	d.mu.Unlock()
	return d.isLast()
}

// isLast reports whether nothing else was written since the display was opened.
func (d *Doing) isLast() bool {
	d.screen.mu.Lock()
	defer d.screen.mu.Unlock()
	return !d.dismissed
}

func (d *Doing) rows(now time.Time) []row {
	return []row{{line: fmt.Sprintf("%s … %s", d.what, d.elapsed(now))}}
}
