package deletion

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/rollingupdate"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

// instance replaces one machine.
func instance(app *shell.App) *cobra.Command {
	o := kops.DefaultRollout()
	var yes bool
	c := shell.Cobra("instance INSTANCE|NODE", "Replace one machine", `
Drain one machine of a cluster, by its name or that of its node, and terminate it; its
group makes another. With --surge, which is the default, the other one comes first,
where the machine is none of the control plane. Without --yes, show what would be done.`, `
  kops delete instance i-0a1b2c3d4e5f67890 --name cluster.example.com
  kops delete instance node-1 --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("name one instance, or its node")
			}
			if err := rollingupdate.Check(o); err != nil {
				return err
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			validate.Reach(app, &o.ReachOptions)
			o.Instance = args[0]
			if !yes {
				return rollingupdate.Preview(ctx, app, client, name, shell.Table, o)
			}
			return rollingupdate.Drive(app, shell.Table, o, func(o kops.RolloutOptions) (*kops.Rollout, error) {
				return client.DeleteInstance(ctx, name, args[0], o)
			})
		})
	c.Aliases = []string{"instances"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "replace it")
	c.Flags().BoolVar(&o.CloudOnly, "cloudonly", false, "do not ask the API server: no drain, no validation")
	c.Flags().BoolVar(&o.Surge, "surge", true, "make another machine before this one goes")
	rollingupdate.Flags(c, &o)
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}
