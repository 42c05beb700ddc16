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
		Long: `Store a secret of a cluster in its state store, where only machines of the control
plane read it. It is checked before, and never shown.`,
		Example: "  kops create secret encryptionconfig cluster.example.com -f config.yaml"}
	c.AddCommand(
		secretOf(app, kops.SecretEncryptionConfig, "Store how API servers encrypt what they store", `
Store the EncryptionConfiguration of the API servers (apiserver.config.k8s.io/v1), which
they use when spec.encryptionConfig is true. Another one has to list the keys of the
former, until everything is written anew: kops rotate encryption does that.`),
		secretOf(app, kops.SecretDockerConfig, "Store by what machines pull images", `
Store the config.json of Docker's with which the machines pull images of registries
that ask who they are. Machines that run take it up where they are, by an update and
a rolling update of the cluster.`),
		secretOf(app, kops.SecretCiliumPassword, "Store Cilium's keys of IPsec", `
Store the keys with which Cilium encrypts what nodes send one another, as Cilium
documents them: a line such as "3+ rfc4106(gcm(aes)) 0123… 128".`),
		oldSSHKey(app))
	return c
}

// secretOf is the command that stores a secret of a name.
func secretOf(app *shell.App, name, short, long string) *cobra.Command {
	var file string
	var force bool
	c := shell.Cobra(name+" [CLUSTER]", short, long, `
  kops create secret `+name+` cluster.example.com -f FILE
  kops create secret `+name+` cluster.example.com -f - --force < FILE`,
		func(ctx context.Context, args []string) error {
			if file == "" {
				return shell.Usagef("name the file of the secret with -f, - for the standard input")
			}
			cluster, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			data, err := app.ReadFile(file)
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
			app.Notef("\nTo apply it, and to see which machines it concerns, run: kops update cluster %s --yes\n", cluster)
			return nil
		})
	c.Flags().StringVarP(&file, "filename", "f", "", "file of the secret, - for the standard input")
	c.Flags().BoolVar(&force, "force", false, "replace the one that is there")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// oldSSHKey is the place where kOps had the command before.
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
