package text

import (
	"fmt"
	"io"
	"time"
)

// Doing shows in one redrawn line what a command does while it has nothing to show.
// It is safe for concurrent use.
type Doing struct {
	display
	what string
}

// DoingLive returns a display that redraws itself with ANSI escapes from its first
// Tick on; width is the number of columns, asked at each redraw.
func DoingLive(out io.Writer, now func() time.Time, width func() int) *Doing {
	d := &Doing{display: display{screen: screen{out: out, now: now, width: width}, start: now()}}
	d.redraw = d.rows
	return d
}

// Set says what is done now.
func (d *Doing) Set(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.what = what
	if d.drawn > 0 {
		d.draw(d.rows)
	}
}

func (d *Doing) rows(now time.Time) []row {
	return []row{{line: fmt.Sprintf("%s … %s", d.what, d.since(now))}}
}
