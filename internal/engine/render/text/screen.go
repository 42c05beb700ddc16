package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Screen is where a command writes: text that stays and, on a terminal, the rows of one
// display below it, which are redrawn. All streams of a command go through it, one write
// at a time. While it is locked it calls nothing but writers, so displays may draw while
// they are locked themselves. It is safe for concurrent use.
type Screen struct {
	out io.Writer // where rows are drawn
	now func() time.Time

	mu      sync.Mutex
	width   func() int // columns; nil: nothing is redrawn
	open    []*display // of which the last one is drawn
	rows    []row      // from the last drawing
	drawn   int        // how many of them are on the screen
	last    time.Time  // when they were drawn
	midLine bool       // the text that stays ends without a newline, like a prompt
	ended   bool
}

// Plain returns a screen where all text stays. An error of the writer is not worth
// stopping for.
func Plain(out io.Writer, now func() time.Time) *Screen { return &Screen{out: out, now: now} }

// Redrawn returns the screen of a terminal; width is the number of columns, asked at each
// drawing.
func Redrawn(out io.Writer, now func() time.Time, width func() int) *Screen {
	return &Screen{out: out, now: now, width: width}
}

// Freeze makes the screen plain from now on, as where a log is written between the lines.
func (s *Screen) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.width = nil
}

// End takes the rows away and draws no others; text is written as before.
func (s *Screen) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.ended = true
}

// Answered says that the user has ended a line that began with a prompt.
func (s *Screen) Answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.midLine = false
}

// line writes a line that only a plain screen has.
func (s *Screen) line(format string, args ...any) {
	s.mu.Lock()
	plain := s.width == nil
	s.mu.Unlock()
	if plain {
		s.note(fmt.Sprintf(format, args...))
	}
}

// note writes a line that stays.
func (s *Screen) note(text string) {
	_, _ = (&stream{Writer: s.out, screen: s, here: true}).Write([]byte(text + "\n"))
}

// keep writes text that stays, above the rows; the screen is locked.
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

// show opens a display, which is drawn instead of earlier ones until it is hidden. A brief
// one is drawn while there is no other.
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

// change sets the displays that are open. The rows of one that is drawn no longer go.
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
	mostRows    = 8 // steps or reasons shown at once
)

// draw redraws the rows of a display, at most every redrawEvery.
func (s *Screen) draw(d *display, rows func(now time.Time) []row) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.open)
	if n == 0 || s.open[n-1] != d || d.dismissed || s.drawn > 0 && now.Sub(s.last) < redrawEvery {
		return
	}
	s.rows = rows(now)
	s.last = now
	s.paint()
}

// paint writes the rows in place of those that are on the screen.
func (s *Screen) paint() {
	if s.width == nil || s.midLine || s.ended {
		return
	}
	text := s.up()
	for _, r := range s.rows {
		text += r.cut(s.width()) + "\n"
	}
	s.drawn = len(s.rows)
	_, _ = io.WriteString(s.out, text)
}

// erase takes the rows off the screen.
func (s *Screen) erase() {
	if text := s.up(); text != "" {
		_, _ = io.WriteString(s.out, text)
	}
}

// up returns what clears the rows, from wherever the keys that were pressed meanwhile, such
// as ^C, have left the cursor.
func (s *Screen) up() string {
	if s.drawn == 0 {
		return ""
	}
	text := fmt.Sprintf("\r\x1b[%dA\x1b[J", s.drawn)
	s.drawn = 0
	return text
}

// row is a line of a display, and the text added to it as far as there is room.
type row struct{ line, more string }

// cut shortens a row to the width, so that it never wraps, and shows the control
// characters in it. The line is cut in its middle, as names differ at their ends.
func (r row) cut(width int) string {
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

// display is what all displays have in common. It is locked before its screen is.
type display struct {
	mu     sync.Mutex
	screen *Screen
	start  time.Time
	redraw func(now time.Time) []row // the rows of now
	// brief says that the display goes when anything else is written, and dismissed that
	// it has; the screen's lock guards both.
	brief, dismissed bool
}

// since is how long it has been shown.
func (d *display) since(now time.Time) time.Duration { return now.Sub(d.start).Round(time.Second) }

// Tick redraws the display when it is due, so that times go on while nothing happens.
// Call it about once a second; a plain screen ignores it.
func (d *display) Tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.screen.draw(d, d.redraw)
}

// Note writes a line that stays.
func (d *display) Note(line string) {
	d.screen.note(line)
	d.Tick()
}

// Close takes the display away.
func (d *display) Close() { d.screen.hide(d) }

// reasonRows are the rows of as many reasons as a display has room for.
func reasonRows(all []Reason) []row {
	var out []row
	for i, r := range all {
		if i == mostRows {
			return append(out, row{line: fmt.Sprintf("  and %d more", len(all)-mostRows)})
		}
		out = append(out, row{line: "  " + r.Of, more: ": " + r.Text})
	}
	return out
}
