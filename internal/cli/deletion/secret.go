package deletion

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
)

func secret(app *shell.App) *cobra.Command {
	var yes bool
	c := shell.Cobra("secret NAME...", "Delete secrets of a cluster", `
Delete secrets of a cluster from its state store. At a terminal, the command asks for
confirmation. Existing machines keep the secrets. The next update creates random
tokens again.`, `
  kops delete secret dockerconfig --name cluster.example.com
  kops delete secret dockerconfig --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			names, err := secretNames(args)
			if err != nil {
				return err
			}
			cluster, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			if !yes && app.Interactive { // do not ask in scripts, as kOps' command has no --yes
				ok, err := app.Confirm(ctx, "Delete "+strings.Join(names, ", ")+" of cluster "+cluster+"? This action cannot be undone.")
				if err != nil {
					return err
				}
				if !ok {
					app.Notef("Nothing was deleted\n")
					return shell.Refused
				}
			}
			if err := client.Secrets(app.On(nil)).Delete(ctx, cluster, names...); err != nil {
				return err
			}
			for _, n := range names {
				app.Printf("Deleted secret/%s\n", n)
			}
			return nil
		})
	c.Aliases = []string{"secrets"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete them without asking")
	c.ValidArgsFunction = shell.CompleteSecrets(app)
	return c
}

// secretNames returns the names of secrets in arguments; in older releases of kOps, their type came
// first.
func secretNames(args []string) ([]string, error) {
	switch {
	case len(args) == 0:
		return nil, shell.Usagef("specify the secrets; to list them, run: kops get secrets")
	case len(args) > 1 && strings.EqualFold(args[0], "secret"):
		return args[1:], nil
	case len(args) > 1 && strings.EqualFold(args[0], "sshpublickey"):
		return nil, shell.Usagef("to delete SSH public keys, run: kops delete sshpublickey")
	case len(args) > 1 && strings.EqualFold(args[0], "keypair"):
		return nil, shell.Usagef("keypairs cannot be deleted; to stop trusting one, run: kops distrust keypair")
	}
	return args, nil
}
