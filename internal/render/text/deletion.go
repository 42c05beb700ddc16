package text

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"kops.local/kops/internal/plan"
)

// Deletion writes what the deletion of a cluster removes, and what it keeps
// because it is shared. The plan is made from the shared resources alone, with
// Options.Prune. preview adds the sentence that says how to go on.
func Deletion(w io.Writer, p *plan.Plan, preview bool) error {
	out := &printer{Writer: bufio.NewWriter(w)}
	g := group(p)
	if len(g.remove) == 0 {
		out.printf("Nothing of the cluster is left to delete\n")
	}
	out.table("", g.remove)
	out.table("Kept, because it is shared:\n", g.shared)
	if preview && len(g.remove) > 0 {
		out.printf("\n%d items will be deleted\nMust specify --yes to delete cluster\n", len(g.remove))
	}
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
