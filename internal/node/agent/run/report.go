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

// reporter writes the boot report to its file, and its news to the console.
type reporter struct {
	err  io.Writer
	path string
	dry  bool

	mu   sync.Mutex
	seen map[string]string
}

func (r *reporter) told(rep report.Report) {
	if r.dry {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	for _, p := range rep.Phases {
		news := fmt.Sprint(p.State, p.Error)
		if r.seen[p.Name] == news || p.State == report.Running && p.Error == "" {
			continue
		}
		r.seen[p.Name] = news
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
	r.write(rep)
}

// write replaces the file in one step. A report that cannot be written must not stop the machine.
func (r *reporter) write(rep report.Report) {
	fresh := r.path + ".new"
	err := os.MkdirAll(filepath.Dir(r.path), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Create(fresh); err == nil {
			if err = errors.Join(report.WriteJSON(f, &rep), f.Close()); err == nil {
				err = os.Rename(fresh, r.path)
			}
			_ = os.Remove(fresh) // of a failure; else it is not there
		}
	}
	if err != nil && r.seen["report"] == "" {
		r.seen["report"] = "told"
		fmt.Fprintf(r.err, "nodeup: the boot report is not written: %v\n", err) //nolint:errcheck // nothing could be told
	}
}
