package text

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"kops.local/kops/internal/engine/plan"
)

// Deletion writes what a deletion removes, and what it keeps because it is
// shared. The plan is made from the shared resources alone, with Options.Prune.
func Deletion(w io.Writer, p *plan.Plan) error {
	out := &printer{Writer: bufio.NewWriter(w)}
	g := group(p)
	if len(g.remove) == 0 {
		out.printf("No resources are left to delete\n")
	}
	out.table("", g.remove)
	out.table("Kept, because it is shared:\n", g.shared)
	return out.flush()
}

// table writes the type, name and identity of each step's resource, and what it holds
// when one holds anything.
func (p *printer) table(title string, steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	if title != "" {
		p.printf("\n%s", title)
	}
	t := tabwriter.NewWriter(p, 0, 8, 2, ' ', 0)
	header := "TYPE\tNAME\tID"
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return holds(s) != "" }) {
		header += "\tHOLDS"
	}
	_, _ = fmt.Fprintln(t, header) // flush returns the writer's error
	for _, s := range steps {
		row := s.Address.Kind + "\t" + s.Address.Name + "\t" + identity(s)
		if h := holds(s); h != "" {
			row += "\t" + h
		}
		_, _ = fmt.Fprintln(t, row)
	}
	_ = t.Flush()
}

// holds says what goes with an observed object, or "".
func holds(s plan.Step) string {
	if s.Have == nil {
		return ""
	}
	return s.Kind.Holds(s.Have)
}
