package text

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Stages shows how far several things are: a line for each that comes further where lines
// stay, or all that are under way, redrawn, where they can be. It is safe for concurrent use.
type Stages struct {
	mu sync.Mutex
	screen
	start time.Time
	head  string
	now   []Reason
	told  map[string]string
}

// StagesLines returns a display of plain lines.
func StagesLines(out io.Writer, now func() time.Time) *Stages {
	return &Stages{screen: screen{out: out, now: now}, start: now(), told: map[string]string{}}
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
			s.note(fmt.Sprintf("[%s] %s: %s", s.screen.now().Sub(s.start).Round(time.Second), r.Of, r.Text))
		}
	}
	s.head, s.now = head, underWay
	s.draw(s.rows)
}

// Tick redraws the display. Call it about once a second; plain lines ignore it.
func (s *Stages) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(s.rows)
}

// Note writes a line that stays.
func (s *Stages) Note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(line)
	s.draw(s.rows)
}

// Close takes the display away.
func (s *Stages) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, s.erase())
}

func (s *Stages) rows(now time.Time) []row {
	out := []row{{line: fmt.Sprintf("%s, %s", s.head, now.Sub(s.start).Round(time.Second))}}
	for i, r := range s.now {
		if i == mostRows {
			return append(out, row{line: fmt.Sprintf("  and %d more", len(s.now)-mostRows)})
		}
		out = append(out, row{line: "  " + r.Of, more: ": " + strings.ReplaceAll(r.Text, "\n", " ")})
	}
	return out
}
