package run

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/agent/report"
)

// A console is short: a report stands on it again when it says something new, and now
// and then, as long as the machine tries again.
func TestTheReportStandsOnTheConsole(t *testing.T) {
	var console bytes.Buffer
	now := time.Unix(1e9, 0).UTC()
	r := &reporter{err: &console, path: filepath.Join(t.TempDir(), "report.json"), now: func() time.Time { return now }}
	rep := report.Report{Cluster: "c", Phases: []report.Phase{{Name: "configure", State: report.Running}}}
	// next tells the report, and returns how many lines in words and how many reports are new.
	next := func(do func(p *report.Phase)) (words, reports int) {
		t.Helper()
		console.Reset()
		do(&rep.Phases[0])
		r.tell(rep)
		for _, l := range strings.Split(strings.TrimSuffix(console.String(), "\n"), "\n") {
			switch {
			case report.IsLine(l):
				reports++
				if got, _ := report.Last([]string{l}); got == nil || got.Phases[0].Error != rep.Phases[0].Error {
					t.Errorf("%s holds %+v", l, got)
				}
			case l != "":
				words++
			}
		}
		return words, reports
	}
	for _, c := range []struct {
		name           string
		do             func(p *report.Phase)
		words, reports int
	}{
		{"it begins", func(*report.Phase) {}, 0, 0},
		{"an error", func(p *report.Phase) { p.Attempts, p.Error = 1, "read tcp 10.0.0.1:1->10.0.0.2:3988: reset" }, 1, 1},
		{"the same by another connection", func(p *report.Phase) { p.Attempts, p.Error = 2, "read tcp 10.0.0.1:2->10.0.0.2:3988: reset" }, 0, 0},
		{"the same after minutes", func(p *report.Phase) { now, p.Attempts = now.Add(repeat), 3 }, 0, 1},
		{"the same soon", func(p *report.Phase) { now, p.Attempts = now.Add(time.Second), 4 }, 0, 0},
		{"another error", func(p *report.Phase) { p.Error = "403" }, 1, 1},
		{"it is over", func(p *report.Phase) { p.State = report.Passed }, 1, 1},
		{"all is over", func(*report.Phase) { rep.Done = true }, 0, 1},
		{"nothing", func(*report.Phase) {}, 0, 0},
	} {
		if words, reports := next(c.do); words != c.words || reports != c.reports {
			t.Errorf("%s: %d lines and %d reports, want %d and %d", c.name, words, reports, c.words, c.reports)
		}
	}
}
