package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"kops.local/kops/internal/node/agent/report"
)

// reporter writes the boot report to its file, figures of it to another, and its news to the console.
type reporter struct {
	err           io.Writer
	path, metrics string
	dry           bool

	mu   sync.Mutex
	seen map[string]string
}

func (r *reporter) told(rep report.Report) {
	if r.dry {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range rep.Phases {
		if p.State == report.Running && p.Error == "" || !r.isNews(p) {
			continue
		}
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
	r.write("the boot report", r.path, func(w io.Writer) error { return report.WriteJSON(w, &rep) })
	if len(rep.Certificates) > 0 {
		r.write("the file of figures", r.metrics, func(w io.Writer) error { return report.WriteMetrics(w, &rep) })
	}
}

// isNews reports whether a phase is another than when it was last told of.
func (r *reporter) isNews(p report.Phase) bool {
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	news := fmt.Sprint(p.State, p.Error)
	if r.seen[p.Name] == news {
		return false
	}
	r.seen[p.Name] = news
	return true
}

// last is the report of the machine's last start, which is no news; nil where there is none.
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
