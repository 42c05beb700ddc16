// Package export implements `kops export`.
package export

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/pki"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Export a cluster's credentials for other tools", Example: "  kops export kubeconfig --name cluster.example.com --admin"}
	c.AddCommand(kubeConfig(app))
	return c
}

func kubeConfig(app *shell.App) *cobra.Command {
	var o kops.KubeconfigOptions
	var file string
	var all bool
	c := shell.Cobra("kubeconfig [CLUSTER]", "Add a cluster to the kubeconfig file", `
Add a cluster's address to the kubeconfig file, keep the other entries, and make the
cluster the current context. With --admin, also write a certificate with full rights,
which expires after the given time.`, `
  kops export kubeconfig cluster.example.com
  kops export kubeconfig cluster.example.com --admin
  kops export kubeconfig cluster.example.com --admin=1h --kubeconfig ./kubeconfig
  kops export kubeconfig --all`,
		func(ctx context.Context, args []string) error {
			if all && (len(args) > 0 || app.Name != "") {
				return shell.Usagef("--all cannot be combined with the name of a cluster")
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
				if err != nil { // one cluster that cannot be reached yet does not prevent the others
					app.PrintError(err)
					failed = shell.Failed
				}
			}
			return failed
		})
	c.Aliases = []string{"kubecfg"}
	f := c.Flags()
	f.BoolVar(&all, "all", false, "export every cluster in the state store")
	f.StringVar(&file, "kubeconfig", "", "file to write (default $KUBECONFIG or ~/.kube/config)")
	AccessFlags(c, &o)
	f.BoolVar(&o.AuthPlugin, "auth-plugin", false, "make kubectl run kops whenever it needs credentials")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// AccessFlags adds the flags that specify how the API is reached.
func AccessFlags(c *cobra.Command, o *kops.KubeconfigOptions) {
	f := c.Flags()
	f.DurationVar(&o.Admin, "admin", 0, "write an admin certificate with this lifetime (18h if no time is given)")
	f.Lookup("admin").NoOptDefVal = pki.AdminValidity.String()
	f.StringVar(&o.User, "user", "", "existing user in the kubeconfig file for the context")
	f.BoolVar(&o.Internal, "internal", false, "use the API's DNS name inside the cluster's network")
	f.StringVar(&o.Server, "api-server", "", "URL of the API, instead of the inferred one")
}

// CheckAccess rejects invalid values and contradictory combinations of these flags.
func CheckAccess(o kops.KubeconfigOptions) error {
	if server, err := url.Parse(o.Server); o.Server != "" && (err != nil || server.Scheme != "https" && server.Scheme != "http" || server.Host == "") {
		return shell.Usagef("--api-server: %q is not the URL of an API; specify one such as https://api.cluster.example.com", o.Server)
	}
	switch {
	case o.Admin < 0:
		return shell.Usagef("--admin: %v is not a lifetime of a certificate; specify a duration such as 1h", o.Admin)
	case o.Admin > 0 && o.User != "":
		return shell.Usagef("--admin cannot be combined with --user")
	case o.Admin > 0 && o.AuthPlugin, o.User != "" && o.AuthPlugin:
		return shell.Usagef("--auth-plugin provides its own credentials; leave out --admin and --user")
	}
	return nil
}
