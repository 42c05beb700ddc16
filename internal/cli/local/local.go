// Package local implements `kops local`, the background processes of clusters on this host. Users
// need not call them.
package local

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	localcloud "kops.local/kops/internal/platform/local"
)

// Command returns the hidden command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "local", Short: "Run the background processes of clusters on this host", Hidden: true, Example: "  kops local keep --root /var/lib/kops-local --cluster demo.k8s.local"}
	c.AddCommand(keep(app))
	return c
}

func keep(app *shell.App) *cobra.Command {
	var root, cluster string
	c := shell.Cobra("keep", "Run one cluster: its machines, load balancer and mirror", `
Keep a cluster on this host in its desired state: create and replace its machines,
balance the load of its API, and serve its bundle, until the cluster is deleted. kops
starts this process by itself. If the host has no systemd to restart it, a second
process stands by and takes over when the first one ends.`, `
  kops local keep --root /var/lib/kops-local --cluster demo.k8s.local`,
		func(ctx context.Context, _ []string) error {
			app.LetFinish()
			return localcloud.Keep(ctx, root, cluster, localcloud.KeepCommand(app.Program), app.Out)
		})
	c.Args = shell.NoArguments("")
	c.Flags().StringVar(&root, "root", localcloud.DefaultRoot, "folder of all clusters of this host")
	c.Flags().StringVar(&cluster, "cluster", "", "name of the cluster")
	return c
}
