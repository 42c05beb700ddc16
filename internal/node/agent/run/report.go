package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/node/agent/report"
)

// reporter writes the boot report to its file, figures of it to another, and its news to
// the console: in words, and packed, as kops doctor reads it of a machine that nobody can reach.
type reporter struct {
	err           io.Writer
	path, metrics string
	dry           bool
	plain         bool // in words alone, where no console takes what is written
	now           func() time.Time

	mu   sync.Mutex
	seen map[string]string
	told time.Time // when the packed report was last written
	done bool      // what it said
}

// repeat is after what time a report without news is written again, when the machine
// tries again: of a console only the end is kept, and the kernel may have written into a line.
const repeat = 5 * time.Minute

func (r *reporter) tell(rep report.Report) {
	if r.dry {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := rep.Done && !r.done
	for _, p := range rep.Phases {
		if p.State == report.Running && p.Error == "" || !r.isNews(p) {
			continue
		}
		fresh = true
		line := fmt.Sprintf("nodeup: %s: %s after %.1f s", p.Name, p.State, p.Seconds)
		if p.Steps > 0 {
			line += fmt.Sprintf(", %d changed", p.Steps)
		}
		if p.Error != "" && p.State != report.Passed {
			line += ": " + p.Error
			if p.Remedy != "" {
				line += "; " + p.Remedy
			}
		}
		fmt.Fprintln(r.err, line) //nolint:errcheck // nothing could be told
	}
	fresh = r.tellDown(rep.Down) || fresh
	if !r.plain && (fresh || !r.told.IsZero() && r.now().Sub(r.told) >= repeat) {
		r.told, r.done = r.now(), rep.Done
		fmt.Fprintln(r.err, "nodeup:", report.Line(&rep)) //nolint:errcheck // nothing could be told
	}
	r.write("the boot report", r.path, func(w io.Writer) error { return report.WriteJSON(w, &rep) })
	if len(rep.Certificates) > 0 {
		r.write("the file of figures", r.metrics, func(w io.Writer) error { return report.WriteMetrics(w, &rep) })
	}
}

// tellDown says in words which parts of the machine are down, and reports whether that is news.
func (r *reporter) tellDown(down []report.Down) bool {
	text := downNews(down)
	if _, before := r.seen["down"]; text == "" && !before || !r.isNews(report.Phase{Name: "down", Error: text}) {
		return false
	}
	if text == "" {
		text = "all parts of the machine are up again\n"
	}
	for l := range strings.Lines(text) {
		fmt.Fprint(r.err, "nodeup: "+l) //nolint:errcheck // nothing could be told
	}
	return true
}

// isNews reports whether a phase differs from its last report.
func (r *reporter) isNews(p report.Phase) bool {
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	news := fmt.Sprint(p.State, steady(p.Error))
	if r.seen[p.Name] == news {
		return false
	}
	r.seen[p.Name] = news
	return true
}

// connection is the own address of one, which is another at each try.
var connection = regexp.MustCompile(`\S+->`)

// steady is a text without what changes with each try and says nothing.
func steady(text string) string { return connection.ReplaceAllString(text, "") }

// last returns the report of the machine's last start, which is not news; nil if there is none.
func (r *reporter) last() *report.Report {
	text, err := os.ReadFile(r.path)
	if err != nil {
		return nil
	}
	rep, err := report.Parse(text)
	if err != nil {
		return nil // it is written anew
	}
	for _, p := range rep.Phases {
		r.isNews(p)
	}
	return rep
}

// write replaces a file in one step. One that cannot be written must not stop the machine.
func (r *reporter) write(what, path string, text func(io.Writer) error) {
	fresh := path + ".new"
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Create(fresh); err == nil {
			if err = errors.Join(text(f), f.Close()); err == nil {
				err = os.Rename(fresh, path)
			}
			_ = os.Remove(fresh) // of a failure; else it is not there
		}
	}
	if err != nil && r.isNews(report.Phase{Name: path, State: report.Failed}) {
		fmt.Fprintf(r.err, "nodeup: %s is not written: %v\n", what, err) //nolint:errcheck // nothing could be told
	}
}
