package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"kops.local/kops"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
)

// Progress shows the execution of a plan: redrawn on a terminal, plain lines elsewhere. Until Start
// it shows nothing.
type Progress struct {
	app  *App
	mu   sync.Mutex
	show *text.Progress
	stop func()
}

// Progress returns a progress that has not been started.
func (a *App) Progress() *Progress { return &Progress{app: a, stop: func() {}} }

// Start begins to show a plan; a plan without changes is not shown.
func (p *Progress) Start(made *kops.Plan) {
	if made.Empty() {
		return
	}
	what := Inside[*plan.Plan](made)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show = text.NewProgress(p.app.screen, what)
	p.stop = eachSecond(p.show.Tick)
}

// eachSecond calls f once a second until the function that it returns is called.
func eachSecond(f func()) (stop func()) {
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				f()
			case <-ended:
				tick.Stop()
				return
			}
		}
	})
	return func() {
		close(ended)
		done.Wait()
	}
}

// width returns the terminal's current width, as it may be resized.
func (a *App) width() int {
	if w, _, err := term.GetSize(2); err == nil {
		return w
	}
	return a.Width
}

// HelpWidth returns how many columns a help text may take: the terminal's, up to a limit, and a
// width that suits any screen if there is no terminal.
func (a *App) HelpWidth() int {
	if a.Width == 0 {
		return 100
	}
	return min(max(a.Width, 60), 120)
}

// Waiting shows the reasons for waiting: redrawn on a terminal, plain lines elsewhere. Call stop
// when the wait is over.
func (a *App) Waiting() (show *text.Waiting, stop func()) {
	show = text.NewWaiting(a.screen)
	end := eachSecond(show.Tick)
	return show, func() { end(); show.Close() }
}

// Stages shows the progress of several things: redrawn on a terminal, plain lines elsewhere. Call
// stop when all is over.
func (a *App) Stages() (show *text.Stages, stop func()) {
	show = text.NewStages(a.screen)
	end := eachSecond(show.Tick)
	return show, func() { end(); show.Close() }
}

// Step shows the result of a step.
func (p *Progress) Step(e *kops.StepEvent) {
	p.mu.Lock()
	show := p.show
	p.mu.Unlock()
	if show != nil {
		show.Report(Inside[exec.Event](e))
	}
}

// On passes the plan of a call to show, and shows its steps.
func (p *Progress) On(show func(*kops.Update) error) kops.On {
	return func(e kops.Event) error {
		switch e.Kind {
		case kops.EventPlan:
			return show(e.Plan)
		case kops.EventStep:
			p.Step(e.Step)
		}
		return nil
	}
}

// Close removes the display. It returns what the display has not already reported of the run's
// error.
func (p *Progress) Close(err error) error {
	p.stop()
	if p.show == nil {
		return err
	}
	p.show.Close()
	if failed := (*exec.Error)(nil); errors.As(err, &failed) && p.show.Failed() {
		return &shownError{err, failed}
	}
	return err
}

// shownError is the error of a run whose failures were already shown.
type shownError struct {
	error
	failed *exec.Error
}

// Error summarizes the failures; other errors are shown as they are.
func (t *shownError) Error() string {
	return strings.Replace(t.error.Error(), t.failed.Error(), t.summary(), 1)
}

func (t *shownError) summary() string {
	text := "1 change failed"
	if n := len(t.failed.Failed); n != 1 {
		text = fmt.Sprintf("%d changes failed", n)
	}
	if t.failed.Skipped > 0 {
		text += ", and " + exec.Untried(t.failed.Skipped)
	}
	return text + "; see above, and run the command again to continue"
}

// Unwrap returns the whole error.
func (t *shownError) Unwrap() error { return t.error }

// PrintResult writes the result of a plan as JSON or YAML; err is the error of the run.
func (a *App) PrintResult(format, cluster string, r *text.Result, u *kops.Update, err error) error {
	write := func(w io.Writer) error {
		return r.JSON(w, a.runOf(cluster, u), spellError(err), errors.As(err, new(*kops.Refused)))
	}
	return a.printJSONAs(format, write)
}

// PrintPlan writes the plan of an update, and further information about it, as JSON or YAML.
func (a *App) PrintPlan(format, cluster string, u *kops.Update) error {
	return a.printJSONAs(format, func(w io.Writer) error { return text.JSON(w, Inside[*plan.Plan](u.Plan), a.runOf(cluster, u)) })
}

// runOf returns the properties of an update beyond its plan; u may be nil.
func (a *App) runOf(cluster string, u *kops.Update) text.Run {
	run := text.Run{Cluster: cluster, Version: a.Version, Time: a.Now().UTC().Truncate(time.Second), Aftermath: aftermathOf(u)}
	if u != nil {
		run.Risks = spellFindings(u.Risks)
	}
	return run
}

// PrintRisks prints what in a plan deserves a second look, if anything.
func (a *App) PrintRisks(l finding.List) {
	if len(l) == 0 {
		return
	}
	a.Printf("\nRisks\n")
	for _, f := range spellFindings(l) {
		a.Printf("  %s: %s\n", f.Rule, f)
	}
}

// spellFindings replaces options in findings with flags.
func spellFindings(l finding.List) finding.List {
	l = slices.Clone(l)
	for i := range l {
		l[i].Message, l[i].Remedy = Spell(l[i].Message), Spell(l[i].Remedy)
	}
	return l
}

// aftermathOf returns the aftermath of an update; nil if there is none.
func aftermathOf(u *kops.Update) any {
	if u == nil || u.Aftermath == nil {
		return nil
	}
	return u.Aftermath
}

// printJSONAs prints the JSON that write writes in a format.
func (a *App) printJSONAs(format string, write func(io.Writer) error) error {
	var doc bytes.Buffer
	if err := write(&doc); err != nil {
		return err
	}
	if format == JSON {
		return a.printRawJSON(doc.Bytes())
	}
	return a.PrintYAML(json.RawMessage(doc.Bytes()))
}

// PlanOptions returns how plans are shown on this system.
func (a *App) PlanOptions() text.Options {
	return text.Options{Color: a.Color, Full: a.Verbosity > 0 || a.FullDiff, Whole: !a.Paged}
}
