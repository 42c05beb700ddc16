// Package toolbox implements `kops toolbox`: tools for special cases.
package toolbox

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "toolbox", Short: "Tools for special cases", Example: "  kops toolbox lock show --name cluster.example.com\n  kops toolbox enroll --cluster cluster.example.com --instance-group nodes-main --host 10.0.0.21"}
	lock := &cobra.Command{Use: "lock", Short: "Show or break the lease of a cluster", Long: `A command that changes a cluster holds its lease, so that no two commands change the
same cluster at once. A lease that is not renewed expires.`,
		Example: "  kops toolbox lock show --name cluster.example.com\n  kops toolbox lock break --name cluster.example.com --yes"}
	lock.AddCommand(show(app), breakLock(app))
	c.AddCommand(dumpCommand(app), lock, enroll(app), rehearseCommand(app), templateCommand(app))
	return c
}

func show(app *shell.App) *cobra.Command {
	c := shell.Cobra("show [CLUSTER]", "Show who holds the lease of a cluster", "Show who holds the lease of a cluster.", `
  kops toolbox lock show --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			_, err = holder(ctx, app, client, name)
			return err
		})
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// holder prints who holds the lease of a cluster, and reports whether it is held.
func holder(ctx context.Context, app *shell.App, client *kops.Client, cluster string) (held bool, err error) {
	text, err := client.Leases().Holder(ctx, cluster)
	if err != nil {
		return false, err
	}
	if text == "" {
		text = "No one holds the lease of " + cluster
	} else {
		held = true
	}
	app.Printf("%s\n", text)
	return held, nil
}

func breakLock(app *shell.App) *cobra.Command {
	var yes bool
	c := shell.Cobra("break [CLUSTER]", "Break the lease of a cluster", `
Break the lease of a cluster if you know that the command that holds it is dead. If
that command still runs, it stops at its next write.`, `
  kops toolbox lock break --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			held, err := holder(ctx, app, client, name)
			if err != nil || !held {
				return err
			}
			if !yes {
				app.Printf("\nMust specify --yes to break the lease\n")
				return nil
			}
			if err := client.Leases().Break(ctx, name); err != nil {
				return err
			}
			app.Printf("The lease of %s is free\n", name)
			return nil
		})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "break the lease")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}
