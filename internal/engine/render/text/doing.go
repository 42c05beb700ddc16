package text

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Doing shows in one redrawn line what a command does while it has nothing to show.
// It is safe for concurrent use.
type Doing struct {
	mu sync.Mutex
	screen
	start time.Time
	what  string
}

// DoingLive returns a display that redraws itself with ANSI escapes from its first
// Tick on; width is the number of columns, asked at each redraw.
func DoingLive(out io.Writer, now func() time.Time, width func() int) *Doing {
	return &Doing{screen: screen{out: out, now: now, width: width}, start: now()}
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

// Tick redraws the display. Call it about once a second.
func (d *Doing) Tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draw(d.rows)
}

// Close takes the display away.
func (d *Doing) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = io.WriteString(d.out, d.erase())
}

func (d *Doing) rows(now time.Time) []row {
	return []row{{line: fmt.Sprintf("%s … %s", d.what, now.Sub(d.start).Round(time.Second))}}
}
