package text

import (
	"fmt"
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

// NewStages returns a display on a screen.
func NewStages(on *Screen) *Stages {
	s := &Stages{display: display{screen: on, start: on.now()}, told: map[string]string{}}
	s.redraw = s.rows
	on.show(&s.display)
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
			s.screen.note(fmt.Sprintf("[%s] %s: %s", s.since(s.screen.now()), r.Of, r.Text))
		}
	}
	s.head, s.underWay = head, underWay
	s.screen.draw(&s.display, s.rows)
}

func (s *Stages) rows(now time.Time) []row {
	return append([]row{{line: fmt.Sprintf("%s, %s", s.head, s.since(now))}}, reasonRows(s.underWay)...)
}
