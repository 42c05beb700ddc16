package run

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/agent/report"
)

// A console is short: a report is written to it again when it has news, and from time
// to time as long as the machine retries.
func TestTheReportIsPrintedOnTheConsole(t *testing.T) {
	var console bytes.Buffer
	now := time.Unix(1e9, 0).UTC()
	r := &reporter{err: &console, path: filepath.Join(t.TempDir(), "report.json"), now: func() time.Time { return now }}
	rep := report.Report{Cluster: "c", Phases: []report.Phase{{Name: "configure", State: report.Running}}}
	// next publishes the report, and returns how many lines of text and how many reports are new.
	next := func(do func(p *report.Phase)) (words, reports int) {
		t.Helper()
		console.Reset()
		do(&rep.Phases[0])
		r.update(rep)
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

// A component that is down after the start is in the report and on the console, until it is up again.
func TestTheReportSaysWhatIsDown(t *testing.T) {
	var console bytes.Buffer
	root := t.TempDir()
	now := time.Unix(1e9, 0).UTC()
	file := filepath.Join(root, "report.json")
	reporterOf := func() *reporter {
		return &reporter{err: &console, path: file, now: func() time.Time { return now }}
	}
	down := []report.Down{{Name: "kubelet", Since: now, Error: "it does not run", Log: []string{"no such file"}}}
	told := func(r *reporter, now []report.Down, want string, lines int) {
		t.Helper()
		console.Reset()
		if err := r.down(root, now); err != nil {
			t.Fatal(err)
		}
		held := r.lastReport()
		if held != nil && held.Done && !sameDown(held.Down, now) || strings.Count(console.String(), "\n") != lines || !strings.Contains(console.String(), want) {
			t.Errorf("the report is %+v, the console:\n%s", held, console.String())
		}
	}
	told(reporterOf(), down, "", 0) // a machine that has not started does not report this
	reporterOf().update(report.Report{Cluster: "c", Phases: []report.Phase{{Name: "configure", State: report.Passed}}, Done: true})
	r := reporterOf()
	told(r, nil, "", 0)
	told(r, down, "nodeup: kubelet has been down since 2001-09-09T01:46:40Z: it does not run\n", 2)
	if l, _ := report.Last(strings.Split(console.String(), "\n")); l == nil || len(l.Down) != 1 || l.Down[0].Log[0] != "no such file" || !l.Done {
		t.Errorf("the console holds %+v", l)
	}
	told(r, down, "", 0)
	now = now.Add(repeat)
	told(r, down, "nodeup: boot report", 1)
	release, err := lock(root)
	if err != nil {
		t.Fatal(err)
	}
	console.Reset()
	if err := r.down(root, nil); err != nil || console.Len() > 0 {
		t.Errorf("while nodeup is at work: %v, %s", err, console.String())
	}
	release()
	told(r, nil, "nodeup: all parts of the machine are up again\n", 2)
}
