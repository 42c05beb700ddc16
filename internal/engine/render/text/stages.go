package text

import (
	"fmt"
	"time"
)

// Stages shows the progress of several things: a line for each change on a plain screen, or all
// that are under way, redrawn, on a terminal. It is safe for concurrent use.
type Stages struct {
	display
	head     string
	underWay []Reason
	printed  map[string]string
}

// NewStages returns a display on a screen.
func NewStages(on *Screen) *Stages {
	s := &Stages{display: display{screen: on, start: on.now()}, printed: map[string]string{}}
	s.redraw = s.rows
	on.show(&s.display)
	return s
}

// Update sets the current state: a line for the whole, the state of every thing, and, of these, the
// ones that are under way.
func (s *Stages) Update(head string, all, underWay []Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if s.printed[r.Of] != r.Text {
			s.printed[r.Of] = r.Text
			s.screen.printNote(fmt.Sprintf("[%s] %s: %s", s.elapsed(s.screen.now()), r.Of, r.Text))
		}
	}
	s.head, s.underWay = head, underWay
	s.screen.draw(&s.display, s.rows)
}

func (s *Stages) rows(now time.Time) []row {
	return append([]row{{line: fmt.Sprintf("%s, %s", s.head, s.elapsed(now))}}, reasonRows(s.underWay)...)
}
