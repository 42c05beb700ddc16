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

// reporter writes the boot report to its file, metrics about it to another, and its news to the
// console: as text, and in the compressed form that kops doctor reads from a machine that nobody
// can reach.
type reporter struct {
	err           io.Writer
	path, metrics string
	dry           bool
	plain         bool // text only, where no console keeps the output
	now           func() time.Time

	mu             sync.Mutex
	lastResults    map[string]string
	compressedAt   time.Time // when the compressed report was last written
	compressedDone bool      // the contents of that report
}

// repeat is the interval after which a report without news is written again, if the machine
// retries: only the end of a console is kept, and kernel messages may have broken a line.
const repeat = 5 * time.Minute

func (r *reporter) update(rep report.Report) {
	if r.dry {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := rep.Done && !r.compressedDone
	for _, p := range rep.Phases {
		if p.State == report.Running && p.Error == "" || !r.isNew(p) {
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
		fmt.Fprintln(r.err, line) //nolint:errcheck // a failed write cannot be reported
	}
	fresh = r.updateDown(rep.Down) || fresh
	if !r.plain && (fresh || !r.compressedAt.IsZero() && r.now().Sub(r.compressedAt) >= repeat) {
		r.compressedAt, r.compressedDone = r.now(), rep.Done
		fmt.Fprintln(r.err, "nodeup:", report.Line(&rep)) //nolint:errcheck // a failed write cannot be reported
	}
	r.write("the boot report", r.path, func(w io.Writer) error { return report.WriteJSON(w, &rep) })
	if len(rep.Certificates) > 0 {
		r.write("the file of figures", r.metrics, func(w io.Writer) error { return report.WriteMetrics(w, &rep) })
	}
}

// updateDown prints which parts of the machine are down, and reports whether that is news.
func (r *reporter) updateDown(down []report.Down) bool {
	text := downLines(down)
	if _, before := r.lastResults["down"]; text == "" && !before || !r.isNew(report.Phase{Name: "down", Error: text}) {
		return false
	}
	if text == "" {
		text = "all parts of the machine are up again\n"
	}
	for l := range strings.Lines(text) {
		fmt.Fprint(r.err, "nodeup: "+l) //nolint:errcheck // a failed write cannot be reported
	}
	return true
}

// isNew reports whether a phase differs from its last report.
func (r *reporter) isNew(p report.Phase) bool {
	if r.lastResults == nil {
		r.lastResults = map[string]string{}
	}
	news := fmt.Sprint(p.State, withoutVolatile(p.Error))
	if r.lastResults[p.Name] == news {
		return false
	}
	r.lastResults[p.Name] = news
	return true
}

// connection matches the local address of a connection, which differs on each attempt.
var connection = regexp.MustCompile(`\S+->`)

// withoutVolatile returns a text without the parts that differ on each attempt and carry no
// information.
func withoutVolatile(text string) string { return connection.ReplaceAllString(text, "") }

// lastReport returns the report of the machine's last start, which is not news; nil if there is none.
func (r *reporter) lastReport() *report.Report {
	text, err := os.ReadFile(r.path)
	if err != nil {
		return nil
	}
	rep, err := report.Parse(text)
	if err != nil {
		return nil // it is written from scratch
	}
	for _, p := range rep.Phases {
		r.isNew(p)
	}
	return rep
}

// write replaces a file atomically. A file that cannot be written must not stop the machine.
func (r *reporter) write(what, path string, text func(io.Writer) error) {
	fresh := path + ".new"
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Create(fresh); err == nil {
			if err = errors.Join(text(f), f.Close()); err == nil {
				err = os.Rename(fresh, path)
			}
			_ = os.Remove(fresh) // left after a failure; otherwise it does not exist
		}
	}
	if err != nil && r.isNew(report.Phase{Name: path, State: report.Failed}) {
		fmt.Fprintf(r.err, "nodeup: cannot write %s: %v\n", what, err) //nolint:errcheck // a failed write cannot be reported
	}
}
