package text

import (
	"bufio"
	"io"
	"slices"
	"text/tabwriter"

	"kops.local/kops/internal/engine/plan"
)

// Deletion writes what a deletion removes, and what it keeps because it is shared. The plan must be
// made from the shared resources alone, with Options.Prune.
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

// table writes the type, name and identity of each step's resource, and what it holds if any of
// them holds anything.
func (p *printer) table(title string, steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	if title != "" {
		p.printf("\n%s", title)
	}
	rows := [][]string{{"TYPE", "NAME", "ID"}}
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return deletedWith(s) != "" }) {
		rows[0] = append(rows[0], "HOLDS")
	}
	for _, s := range steps {
		row := []string{s.Address.Kind, s.Address.Name, identity(s)}
		if h := deletedWith(s); h != "" {
			row = append(row, h)
		}
		rows = append(rows, row)
	}
	_ = Table(tabwriter.NewWriter(p, 0, 8, 2, ' ', 0), rows) // flush returns the writer's error
}

// deletedWith says what is deleted with an observed object, or "".
func deletedWith(s plan.Step) string {
	if s.Have == nil {
		return ""
	}
	return s.Kind.Holds(s.Have)
}
