package text

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"kops.local/kops/internal/plan"
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

// table writes the type, name and identity of each step's resource.
func (p *printer) table(title string, steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	if title != "" {
		p.printf("\n%s", title)
	}
	t := tabwriter.NewWriter(p, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "TYPE\tNAME\tID") // flush returns the writer's error
	for _, s := range steps {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", s.Address.Kind, s.Address.Name, identity(s))
	}
	_ = t.Flush()
}
