package get

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
)

// maxChanges is the maximum number of changes in a line of the history, and maxWidth the maximum
// length of its message.
const maxChanges, maxWidth = 3, 60

func (g *subcommand) revisions() *cobra.Command {
	c := shell.Cobra("revisions [CLUSTER] [NUMBER]", "Show who changed a cluster, when and what", `
Show the history of a cluster, newest change first, or one change by its number.
RESULT is "stored" for a change of the objects, which the next update applies, and
"done", "failed" or "interrupted" for a command that changed the cluster. CHANGES
lists the fields that changed. With a number, -o yaml and -o json also show the
objects after the change.`, `
  kops get revisions --name cluster.example.com
  kops get revisions 7 --name cluster.example.com
  kops get revisions 7 --name cluster.example.com -o yaml`,
		func(ctx context.Context, args []string) error {
			if n, rest, ok := splitNumber(args); ok {
				return g.revision(ctx, rest, n)
			}
			return list(ctx, g, args, revisions, []string{"REVISION", "TIME", "WHO", "VERSION", "RESULT", "CHANGES", "COMMAND"},
				func(r kops.Revision) []string {
					return []string{strconv.Itoa(r.Number), formatTime(r), r.Who, r.Version, r.Result, summary(r), r.Command}
				})
		})
	c.Aliases = []string{"revision"}
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

// splitNumber removes the number of a revision from the end of the arguments.
func splitNumber(args []string) (n int, rest []string, ok bool) {
	if len(args) == 0 {
		return 0, nil, false
	}
	last := len(args) - 1
	n, err := strconv.Atoi(args[last])
	return n, args[:last], err == nil
}

func revisions(client *kops.Client, ctx context.Context, cluster string) ([]kops.Revision, error) {
	return client.Clusters().Revisions(ctx, cluster)
}

// revision prints one revision.
func (g *subcommand) revision(ctx context.Context, args []string, n int) error {
	if err := g.check(); err != nil {
		return err
	}
	name, client, err := g.Open(ctx, args)
	if err != nil {
		return err
	}
	r, err := client.Clusters().Revision(ctx, name, n)
	if err != nil {
		return err
	}
	return g.PrintAs(g.format, r, func() error {
		rows := [][]string{{"Revision", strconv.Itoa(r.Number)}, {"Time", formatTime(*r)}, {"Who", r.Who}, {"Version", r.Version},
			{"Command", r.Command}, {"Result", r.Result}}
		if r.Message != "" {
			rows = append(rows, []string{"Message", r.Message})
		}
		for i, c := range r.Changes {
			rows = append(rows, []string{map[bool]string{true: "Changes"}[i == 0], c.String()})
		}
		return g.PrintRows(rows)
	})
}

func formatTime(r kops.Revision) string { return r.Time.UTC().Format(time.DateTime) + "Z" }

// byObject groups the changed fields by object.
func byObject(all []kops.RevisionChange) []string {
	var out []string
	for i, c := range all {
		if last := len(out) - 1; i > 0 && all[i-1].Object == c.Object {
			out[last] += ", " + c.Field
			continue
		}
		out = append(out, c.String())
	}
	return out
}

// summary summarizes what a revision changed.
func summary(r kops.Revision) string {
	if len(r.Changes) > 0 {
		return shell.Listed(byObject(r.Changes), maxChanges)
	}
	line, _, _ := strings.Cut(r.Message, "\n")
	if text := []rune(line); len(text) > maxWidth {
		line = string(text[:maxWidth-1]) + "…"
	}
	return line
}
