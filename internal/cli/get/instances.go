package get

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

// wide is the format for a table with all columns.
const wide = "wide"

func (g *subcommand) instances() *cobra.Command {
	var o kops.InstancesOptions
	c := shell.Cobra("instances [CLUSTER]", "Show machines and whether they are up to date", `
Show the machines of a cluster: their group and zone, the versions they run, and
whether they match the spec. STALE is the action that updates a machine: restart (in
place) or replace. With -o wide, WHY lists each field that differs, with the machine's
value and the spec's value.

If the API server does not answer, the command shows what the platform and the state
store know.`, `
  kops get instances cluster.example.com
  kops get instances cluster.example.com -o wide
  kops get instances --name cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(g.format, shell.Table, wide, shell.YAML, shell.JSON); err != nil {
				return err
			}
			validate.Reach(g.App, &o.ReachOptions)
			name, client, err := g.Open(ctx, args)
			if err != nil {
				return err
			}
			return g.OfCluster(ctx, client, name, func(name string) error { return g.listInstances(ctx, client, name, o) })
		})
	c.Flags().StringVarP(&g.format, "output", "o", shell.Table, "format: table, wide, yaml or json") // instead of the one of all subcommands
	shell.Complete(c, "output", shell.Table, wide, shell.YAML, shell.JSON)
	validate.ReachFlags(c, &o.ReachOptions)
	c.Aliases = []string{"instance"}
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

func (g *subcommand) listInstances(ctx context.Context, client *kops.Client, name string, o kops.InstancesOptions) error {
	o.On = g.On(func(e kops.Event) error {
		if e.Kind == kops.EventValidation {
			for _, f := range e.Validation.Failures {
				g.Notef("warning: nodes and what they run are unknown: %s: %s\n", f.Name, shell.Spell(f.Text()))
			}
		}
		return nil
	})
	all, err := client.Instances(ctx, name, o)
	if err != nil {
		return err
	}
	header := []string{"ID", "NODE-NAME", "STATUS", "ROLES", "INSTANCE-GROUP", "ZONE", "VERSION", "AGE", "STALE"}
	if g.format == wide {
		header = append(header, "STATE", "ADDRESSES", "MACHINE-TYPE", "WHY")
	}
	row := func(i kops.Instance) []string {
		age, stale := "", "-"
		if !i.Created.IsZero() {
			age = duration.HumanDuration(g.Now().Sub(i.Created))
		}
		if i.Effect.Stale() {
			stale = string(i.Effect)
		}
		out := []string{i.Name, i.Node, i.Status, strings.Join(i.Roles, ", "), i.Group, i.Zone, i.Version, age, stale}
		if g.format != wide {
			return out
		}
		return append(out, i.State, strings.Join(i.Addresses, ","), i.MachineType, shell.Listed(i.Reasons, len(i.Reasons)))
	}
	return printList(g, all, header, row)
}
