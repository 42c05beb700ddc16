package deletion

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/cli/rollingupdate"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

// instanceCommand returns the command that replaces one machine.
func instanceCommand(app *shell.App) *cobra.Command {
	o := kops.DefaultRollout()
	var yes bool
	c := shell.Cobra("instance INSTANCE|NODE", "Replace one machine", `
Drain and terminate one machine of a cluster, given by the name of the machine or its
node; its group creates another. With --surge, the default, the new machine is created
first, except in the control plane. Without --yes, show a preview.`, `
  kops delete instance i-0a1b2c3d4e5f67890 --name cluster.example.com
  kops delete instance node-1 --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("specify one instance, or its node")
			}
			if err := rollingupdate.Check(o); err != nil {
				return err
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			validate.Reach(app, &o.ReachOptions)
			if !yes {
				return previewInstance(ctx, app, client, name, args[0], o)
			}
			return rollingupdate.Drive(app, shell.Table, o, func(o kops.RolloutOptions) (*kops.Rollout, error) {
				return client.DeleteInstance(ctx, name, args[0], o)
			})
		})
	c.Aliases = []string{"instances"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "replace it")
	c.Flags().BoolVar(&o.CloudOnly, "cloudonly", false, "do not contact the API server: no drain, no validation")
	c.Flags().BoolVar(&o.Surge, "surge", true, "create a new machine before this one is terminated")
	rollingupdate.Flags(c, &o)
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

// previewInstance prints what happens to one machine, and to its pods.
func previewInstance(ctx context.Context, app *shell.App, client *kops.Client, cluster, instance string, o kops.RolloutOptions) error {
	o.On = app.On(nil)
	p, err := client.PlanDeleteInstance(ctx, cluster, instance, o)
	if err != nil {
		return err
	}
	if p.Unfinished != nil {
		app.Printf("The rollout that began at %s is not finished; until it is, no other machine is replaced.\nTo finish it: kops rolling-update cluster %s --yes; to end it: kops rolling-update abort %s\n",
			p.Unfinished.Began.Format(time.RFC3339), cluster, cluster)
		return nil
	}
	for _, g := range p.Groups {
		for _, m := range g.Machines {
			app.Printf("%s of the instance group %s:\n", rollingupdate.MachineName(m), g.Name)
			for i, step := range steps(g, m, o) {
				app.Printf("  %d. %s\n", i+1, step)
			}
		}
	}
	rollingupdate.Obstacles(app, p)
	app.Printf("\nIt takes about %s.\n", shell.Minutes(p.About))
	app.Notef("\nMust specify --yes to replace it:\n  %s\n", applyCommand(cluster, instance, o))
	return nil
}

// steps returns what is done to a machine, in order.
func steps(g status.PlannedRoll, m status.RolloutMachine, o kops.RolloutOptions) []string {
	before := m.Phase == "surged" // by an earlier rollout
	switch {
	case m.Effect == "restart":
		return []string{"it applies its configuration in place and restarts the components that change; no machine replaces it"}
	case g.Stays && g.SurgesFirst:
		return []string{"it is detached: its group creates another, and it keeps serving, because spec.rollingUpdate.drainAndTerminate is false"}
	case g.Stays:
		return []string{"it stays, because spec.rollingUpdate.drainAndTerminate is false and the group needs no other machine"}
	}
	var out []string
	if g.SurgesFirst && !before {
		out = append(out, "it is detached: its group creates another, and it serves until the other is ready")
	}
	switch {
	case o.CloudOnly:
		out = append(out, "it is terminated together with its pods")
	case m.Node == "":
		out = append(out, "it leaves the load balancers and is terminated; it is not a node and has no pods")
	default:
		out = append(out, "it is cordoned, leaves the load balancers, and its pods are evicted within their disruption budgets", "it is terminated")
	}
	switch {
	case before:
		out = append(out, "another machine has replaced it, or is being created")
	case !g.SurgesFirst:
		out = append(out, "its group creates another machine")
	}
	return out
}

// applyCommand returns the command that does what was shown.
func applyCommand(cluster, instance string, o kops.RolloutOptions) string {
	line := fmt.Sprintf("kops delete instance %s --name %s", instance, cluster)
	if !o.Surge {
		line += " --surge=false"
	}
	if o.CloudOnly {
		line += " --cloudonly"
	}
	return line + " --yes"
}
