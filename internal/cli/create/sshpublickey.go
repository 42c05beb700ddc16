package create

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
)

func sshPublicKey(app *shell.App) *cobra.Command {
	var file, old string
	c := shell.Cobra("sshpublickey [CLUSTER]", "Add an SSH public key", "Add a public key with which users log in to the machines of a cluster.", `
  kops create sshpublickey cluster.example.com -i ~/.ssh/id_ed25519.pub`,
		func(ctx context.Context, args []string) error {
			if file == "" {
				file = old
			}
			if file == "" {
				return shell.Usagef("specify the file of the public key with -i")
			}
			name, err := app.ClusterName(args)
			if err != nil {
				return err
			}
			data, err := app.ReadFile(ctx, file)
			if err != nil {
				return err
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			return app.OfCluster(ctx, client, name, func(cluster string) error {
				key, added, err := client.Keys().Add(ctx, cluster, data)
				if err != nil {
					return err
				}
				if !added {
					app.Notef("The cluster %s already has the SSH public key %s\n", cluster, key.Fingerprint)
					return nil
				}
				app.Notef("Added the SSH public key %s to the cluster %s; to copy it to machines, run: kops update cluster %s --yes\n", key.Fingerprint, cluster, cluster)
				return nil
			})
		})
	c.Aliases = []string{"sshpublickeys", "ssh"}
	c.Flags().StringVarP(&file, "ssh-public-key", "i", "", "file of the public key, in OpenSSH format")
	c.Flags().StringVar(&old, "pubkey", "", "file of the public key")
	shell.Deprecate(c, "pubkey", "use --ssh-public-key")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}
