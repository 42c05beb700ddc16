// Package export holds `kops export`.
package export

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/pki"
)

// Command returns the verb.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Export a cluster's access to other tools", Example: "  kops export kubeconfig --name cluster.example.com --admin"}
	c.AddCommand(kubeConfig(app))
	return c
}

func kubeConfig(app *shell.App) *cobra.Command {
	var o kops.KubeconfigOptions
	var file string
	var all bool
	c := shell.Cobra("kubeconfig [CLUSTER]", "Write a cluster into the kubeconfig file", `
Write how a cluster is reached into the kubeconfig file, without losing what else
is there, and make it the current context. With --admin, write a certificate with
full rights as well, which expires after the given time.`, `
  kops export kubeconfig cluster.example.com
  kops export kubeconfig cluster.example.com --admin
  kops export kubeconfig cluster.example.com --admin=1h --kubeconfig ./kubeconfig
  kops export kubeconfig --all`,
		func(ctx context.Context, args []string) error {
			if all && (len(args) > 0 || app.Name != "") {
				return shell.Usagef("--all and the name of a cluster exclude each other")
			}
			if err := CheckAccess(o); err != nil {
				return err
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			names := []string{}
			if all {
				if names, err = client.Clusters().Names(ctx); err != nil {
					return err
				}
			} else {
				name, err := app.ClusterName(args)
				if err != nil {
					return err
				}
				names = append(names, name)
			}
			if file == "" {
				file = app.Kubeconfig()
			}
			var failed error
			for _, n := range names {
				access, err := client.Kubeconfig(ctx, n, o)
				if err == nil {
					err = app.WriteKubeconfig(access, n, file, o)
				}
				if err != nil && (!all || ctx.Err() != nil) {
					return err
				}
				if err != nil { // one that cannot be reached yet does not keep out the others
					app.PrintError(err)
					failed = shell.Failed
				}
			}
			return failed
		})
	c.Aliases = []string{"kubecfg"}
	f := c.Flags()
	f.BoolVar(&all, "all", false, "every cluster of the state store")
	f.StringVar(&file, "kubeconfig", "", "file to write (default $KUBECONFIG or ~/.kube/config)")
	AccessFlags(c, &o)
	f.BoolVar(&o.AuthPlugin, "auth-plugin", false, "get credentials by running kops, whenever kubectl needs them")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// AccessFlags are the flags by which a command says how the API is reached.
func AccessFlags(c *cobra.Command, o *kops.KubeconfigOptions) {
	f := c.Flags()
	f.DurationVar(&o.Admin, "admin", 0, "write an admin certificate that lives this long (18h when no time is given)")
	f.Lookup("admin").NoOptDefVal = pki.AdminValidity.String()
	f.StringVar(&o.User, "user", "", "existing user of the kubeconfig file for the context")
	f.BoolVar(&o.Internal, "internal", false, "use the name of the API inside the cluster's network")
	f.StringVar(&o.Server, "api-server", "", "URL of the API, instead of the inferred one")
}

// CheckAccess refuses what these flags cannot mean together.
func CheckAccess(o kops.KubeconfigOptions) error {
	switch {
	case o.Admin < 0:
		return shell.Usagef("--admin: %v is no life of a certificate; write a time such as 1h", o.Admin)
	case o.Admin > 0 && o.User != "":
		return shell.Usagef("--admin and --user exclude each other")
	case o.Admin > 0 && o.AuthPlugin, o.User != "" && o.AuthPlugin:
		return shell.Usagef("--auth-plugin brings credentials of its own; leave out --admin and --user")
	}
	return nil
}
