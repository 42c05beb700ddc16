package text

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// screen is where a display is drawn: lines that stay and, on a terminal, some
// below them that are redrawn. An error of the writer is not worth stopping for.
type screen struct {
	out   io.Writer
	now   func() time.Time
	width func() int // columns; nil: plain lines

	drawn int       // redrawn lines on the screen
	last  time.Time // when they were drawn
}

// line writes a line that only plain output has.
func (s *screen) line(format string, args ...any) {
	if s.width == nil {
		s.note(fmt.Sprintf(format, args...))
	}
}

// note writes a line that stays, above those that are redrawn.
func (s *screen) note(text string) {
	_, _ = io.WriteString(s.out, s.erase()+text+"\n")
}

// erase returns what takes the redrawn lines off the screen, from wherever the
// keys that were pressed meanwhile, such as ^C, have left the cursor.
func (s *screen) erase() string {
	if s.drawn == 0 {
		return ""
	}
	text := fmt.Sprintf("\r\x1b[%dA\x1b[J", s.drawn)
	s.drawn, s.last = 0, time.Time{}
	return text
}

const (
	redrawEvery = 100 * time.Millisecond
	mostRows    = 8 // steps or reasons shown at once
)

// draw redraws the lines, at most every redrawEvery.
func (s *screen) draw(rows func(now time.Time) []row) {
	now := s.now()
	if s.width == nil || now.Sub(s.last) < redrawEvery {
		return
	}
	lines := rows(now)
	text := s.erase()
	for _, l := range lines {
		text += l.cut(s.width()) + "\n"
	}
	s.drawn, s.last = len(lines), now
	_, _ = io.WriteString(s.out, text)
}

// row is a line of the display, and what is added as far as there is room for it.
type row struct{ line, more string }

// cut shortens a row to the width, so that it never wraps. The line is cut in its
// middle, as names differ at their ends.
func (r row) cut(width int) string {
	line, more := []rune(r.line), []rune(r.more)
	if width < 2 || len(line)+len(more) < width {
		return r.line + r.more
	}
	if len(line) < width-2 {
		return r.line + string(more[:width-2-len(line)]) + "…"
	}
	if len(line) < width {
		return r.line
	}
	room := width - 2
	head := room / 2
	return string(line[:head]) + "…" + string(line[len(line)-(room-head):])
}

// display is what all displays have in common: a screen that is written by one at a time.
type display struct {
	mu sync.Mutex
	screen
	start  time.Time
	redraw func(now time.Time) []row // the rows of now
}

// since is how long it has been shown.
func (d *display) since(now time.Time) time.Duration { return now.Sub(d.start).Round(time.Second) }

// Tick redraws the display when it is due, so that times go on while nothing happens.
// Call it about once a second; plain lines ignore it.
func (d *display) Tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draw(d.redraw)
}

// Note writes a line that stays.
func (d *display) Note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(line)
	d.draw(d.redraw)
}

// Close takes the display away.
func (d *display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = io.WriteString(d.out, d.erase())
}

// reasonRows are the rows of as many reasons as a display has room for.
func reasonRows(all []Reason) []row {
	var out []row
	for i, r := range all {
		if i == mostRows {
			return append(out, row{line: fmt.Sprintf("  and %d more", len(all)-mostRows)})
		}
		out = append(out, row{line: "  " + r.Of, more: ": " + strings.ReplaceAll(r.Text, "\n", " ")})
	}
	return out
}
