package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Screen is where a command writes: permanent text and, on a terminal, the redrawn rows of one
// display below it. All streams of a command use it, one write at a time. While it is locked it
// only calls writers, so displays may draw while they are locked themselves. It is safe for
// concurrent use.
type Screen struct {
	out io.Writer // where rows are drawn
	now func() time.Time

	mu        sync.Mutex
	width     func() int // in columns; nil means that nothing is redrawn
	open      []*display // the last one is drawn
	rows      []row      // from the last drawing
	drawnRows int        // how many of them are on the screen
	last      time.Time  // time of the last drawing
	midLine   bool       // the permanent text ends without a newline, like a prompt
	ended     bool
}

// Plain returns a screen where all text is permanent. Errors of the writer are ignored.
func Plain(out io.Writer, now func() time.Time) *Screen { return &Screen{out: out, now: now} }

// Redrawn returns the screen of a terminal; width returns the number of columns, and is called at
// each drawing.
func Redrawn(out io.Writer, now func() time.Time, width func() int) *Screen {
	return &Screen{out: out, now: now, width: width}
}

// Freeze makes the screen plain from now on, for example because a log is written between the
// lines.
func (s *Screen) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.width = nil
}

// End removes the rows and draws no others; text is written as before.
func (s *Screen) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.ended = true
}

// Answered records that the user has ended a line that began with a prompt.
func (s *Screen) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.midLine = false
}

// printPlain writes a line only on a plain screen.
func (s *Screen) printPlain(format string, args ...any) {
	s.mu.Lock()
	plain := s.width == nil
	s.mu.Unlock()
	if plain {
		s.printNote(fmt.Sprintf(format, args...))
	}
}

// printNote writes a permanent text, as one line.
func (s *Screen) printNote(text string) {
	_, _ = (&stream{Writer: s.out, screen: s, here: true}).Write([]byte(oneLine(text) + "\n"))
}

// keep writes permanent text, above the rows; the caller must hold the screen's lock.
func (s *Screen) keep(w io.Writer, text string) error {
	s.erase()
	_, err := io.WriteString(w, text)
	s.midLine = text != "" && !strings.HasSuffix(text, "\n")
	for _, d := range s.open {
		d.dismissed = d.brief
	}
	if n := len(s.open); n > 0 && !s.open[n-1].dismissed && s.rows != nil {
		s.paint()
	}
	return err
}

// show opens a display, which is drawn instead of earlier ones until it is hidden. A brief one is
// only drawn while there is no other.
func (s *Screen) show(d *display) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.brief {
		s.change(slices.Insert(s.open, 0, d))
	} else {
		s.change(append(s.open, d))
	}
}

// hide closes a display.
func (s *Screen) hide(d *display) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(slices.DeleteFunc(slices.Clone(s.open), func(o *display) bool { return o == d }))
}

// change sets the open displays. It erases the rows of a display that is no longer drawn.
func (s *Screen) change(open []*display) {
	top := func(all []*display) *display {
		if len(all) == 0 {
			return nil
		}
		return all[len(all)-1]
	}
	if top(open) != top(s.open) {
		s.erase()
		s.rows = nil
	}
	s.open = open
}

const (
	redrawEvery = 100 * time.Millisecond
	maxRows     = 8 // steps or reasons shown at the same time
)

// draw redraws the rows of a display, at most every redrawEvery.
func (s *Screen) draw(d *display, rows func(now time.Time) []row) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.open)
	if n == 0 || s.open[n-1] != d || d.dismissed || s.drawnRows > 0 && now.Sub(s.last) < redrawEvery {
		return
	}
	s.rows = rows(now)
	s.last = now
	s.paint()
}

// paint writes the rows in place of those on the screen.
func (s *Screen) paint() {
	if s.width == nil || s.midLine || s.ended {
		return
	}
	text := s.up()
	for _, r := range s.rows {
		text += r.fit(s.width()) + "\n"
	}
	s.drawnRows = len(s.rows)
	_, _ = io.WriteString(s.out, text)
}

// erase removes the rows from the screen.
func (s *Screen) erase() {
	if text := s.up(); text != "" {
		_, _ = io.WriteString(s.out, text)
	}
}

// up returns the escape sequence that clears the rows, from wherever the echo of keys pressed
// meanwhile, such as ^C, has left the cursor.
func (s *Screen) up() string {
	if s.drawnRows == 0 {
		return ""
	}
	text := fmt.Sprintf("\r\x1b[%dA\x1b[J", s.drawnRows)
	s.drawnRows = 0
	return text
}

// row is a line of a display, and the text added to it if there is room.
type row struct{ line, more string }

// fit shortens a row to the width, so that it never wraps, and escapes the control characters in
// it. The line is cut in its middle, because names differ at their ends.
func (r row) fit(width int) string {
	line, more := []rune(oneLine(r.line)), []rune(oneLine(r.more))
	if width < 2 || len(line)+len(more) < width {
		return string(line) + string(more)
	}
	if len(line) < width-2 {
		return string(line) + string(more[:width-2-len(line)]) + "…"
	}
	if len(line) < width {
		return string(line)
	}
	room := width - 2
	head := room / 2
	return string(line[:head]) + "…" + string(line[len(line)-(room-head):])
}

// display is what all displays have in common. It must be locked before its screen is.
type display struct {
	mu     sync.Mutex
	screen *Screen
	start  time.Time
	redraw func(now time.Time) []row // returns the current rows
	// brief means that the display is removed when anything else is written, and dismissed that it
	// was; the screen's lock guards both.
	brief, dismissed bool
}

// elapsed returns how long it has been shown.
func (d *display) elapsed(now time.Time) time.Duration { return now.Sub(d.start).Round(time.Second) }

// Tick redraws the display when it is due, so that times advance while nothing happens. Call it
// about once a second; a plain screen ignores it.
func (d *display) Tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.screen.draw(d, d.redraw)
}

// Note writes a permanent line.
func (d *display) Note(line string) {
	d.screen.printNote(line)
	d.Tick()
}

// Close removes the display.
func (d *display) Close() { d.screen.hide(d) }

// reasonRows returns the rows for as many reasons as a display has room for.
func reasonRows(all []Reason) []row {
	var out []row
	for i, r := range all {
		if i == maxRows {
			return append(out, row{line: fmt.Sprintf("  and %d more", len(all)-maxRows)})
		}
		out = append(out, row{line: "  " + r.Of, more: ": " + r.Text})
	}
	return out
}
