package text

import (
	"fmt"
	"io"
	"time"
)

// Stages shows how far several things are: a line for each that comes further where lines
// stay, or all that are under way, redrawn, where they can be. It is safe for concurrent use.
type Stages struct {
	display
	head     string
	underWay []Reason
	told     map[string]string
}

// StagesLines returns a display of plain lines.
func StagesLines(out io.Writer, now func() time.Time) *Stages {
	s := &Stages{display: display{screen: screen{out: out, now: now}, start: now()}, told: map[string]string{}}
	s.redraw = s.rows
	return s
}

// StagesLive returns a display that redraws itself; width is the number of columns, asked at each redraw.
func StagesLive(out io.Writer, now func() time.Time, width func() int) *Stages {
	s := StagesLines(out, now)
	s.width = width
	return s
}

// Saw takes how far all is: one line for the whole, what every thing has come to, and,
// of these, what is under way.
func (s *Stages) Saw(head string, all, underWay []Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if s.told[r.Of] != r.Text {
			s.told[r.Of] = r.Text
			s.note(fmt.Sprintf("[%s] %s: %s", s.since(s.now()), r.Of, r.Text))
		}
	}
	s.head, s.underWay = head, underWay
	s.draw(s.rows)
}

func (s *Stages) rows(now time.Time) []row {
	return append([]row{{line: fmt.Sprintf("%s, %s", s.head, s.since(now))}}, reasonRows(s.underWay)...)
}
