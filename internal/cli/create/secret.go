package create

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
)

func secret(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "secret", Short: "Store a secret of a cluster", Aliases: []string{"secrets"},
		Long: `Store a secret of a cluster in its state store, which only control plane machines
read. kops checks the secret first, and never shows it.`,
		Example: "  kops create secret encryptionconfig cluster.example.com -f config.yaml"}
	c.AddCommand(
		secretOf(app, kops.SecretEncryptionConfig, "Store the encryption configuration of the API servers", `
Store the EncryptionConfiguration (apiserver.config.k8s.io/v1) of the API servers,
which they use if spec.encryptionConfig is true. A new configuration has to keep the
keys of the old one until every object is written again; kops rotate encryption does
all of that.`),
		secretOf(app, kops.SecretDockerConfig, "Store the credentials with which machines pull images", `
Store the Docker config.json with which machines log in to registries. Existing
machines get it, in place, from an update and a rolling update of the cluster.`),
		secretOf(app, kops.SecretCiliumPassword, "Store Cilium's IPsec keys", `
Store the keys with which Cilium encrypts traffic between nodes, in the format that
Cilium documents: a line such as "3+ rfc4106(gcm(aes)) 0123… 128".`),
		oldSSHKey(app))
	return c
}

// secretOf returns the command that stores a secret with a given name.
func secretOf(app *shell.App, name, short, long string) *cobra.Command {
	var file string
	var force bool
	c := shell.Cobra(name+" [CLUSTER]", short, long, `
  kops create secret `+name+` cluster.example.com -f FILE
  kops create secret `+name+` cluster.example.com -f - --force < FILE`,
		func(ctx context.Context, args []string) error {
			if file == "" {
				return shell.Usagef("specify the file of the secret with -f; - is standard input")
			}
			cluster, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			data, err := app.ReadFile(ctx, file)
			if err != nil {
				return err
			}
			done := "Created"
			if force {
				there, err := client.Secrets(app.On(nil)).List(ctx, cluster)
				if err != nil {
					return err
				}
				if slices.Contains(there, name) {
					done = "Replaced"
				}
			}
			warnings, err := client.Secrets(app.On(nil)).Create(ctx, cluster, name, data, force)
			app.Warn(warnings)
			if err != nil {
				return err
			}
			app.Printf("%s secret/%s\n", done, name)
			app.Notef("\nTo apply it, and to see which machines change, run: kops update cluster %s --yes\n", cluster)
			return nil
		})
	c.Flags().StringVarP(&file, "filename", "f", "", "file of the secret; - is standard input")
	c.Flags().BoolVar(&force, "force", false, "replace an existing secret")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// oldSSHKey returns the command under kOps' former name.
func oldSSHKey(app *shell.App) *cobra.Command {
	c := sshPublicKey(app)
	c.Use, c.Hidden, c.Aliases = "sshpublickey NAME", true, nil
	c.Example = "  kops create secret sshpublickey admin --name cluster.example.com -i ~/.ssh/id_ed25519.pub"
	add := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		app.Notef("The command \"create secret sshpublickey\" is deprecated, use \"kops create sshpublickey\"\n")
		switch {
		case len(args) > 1 || len(args) == 1 && args[0] != "admin":
			return shell.Usagef("the name of the key is admin")
		case app.Name == "":
			name, err := app.ClusterName(nil)
			if err != nil {
				return err
			}
			return add(c, []string{name})
		}
		return add(c, nil)
	}
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"admin"}, cobra.ShellCompDirectiveNoFileComp)
	return c
}
