// Package deletion holds `kops delete`.
package deletion

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/render/text"
)

// Command returns the verb.
func Command(app *shell.App) *cobra.Command {
	var files []string
	var yes bool
	var c *cobra.Command
	c = shell.Cobra("delete -f FILE", "Delete clusters, instance groups and keys", `
Delete the objects of files. A Cluster is deleted with all of its resources in the
cloud. Without --yes, show what would be deleted.`, `
  kops delete -f cluster.yaml
  kops delete -f cluster.yaml --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return shell.UnknownCommand(c, args[0])
			}
			if len(files) == 0 {
				return shell.Usagef("name a file with -f, or a kind of object to delete")
			}
			return fromFiles(ctx, app, files, yes)
		})
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "file with objects, - for the standard input; repeatable")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete them")
	c.AddCommand(cluster(app), instanceGroup(app), sshPublicKey(app))
	return c
}

func fromFiles(ctx context.Context, app *shell.App, files []string, yes bool) error {
	objs, err := app.Decode(files)
	if err != nil {
		return err
	}
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	clusters, groups := kops.Named(objs)
	for _, g := range groups {
		if err := deleteGroup(ctx, app, client, g.Cluster, g.Name, yes); err != nil {
			return err
		}
	}
	for _, name := range clusters {
		if err := deleteCluster(ctx, app, client, name, yes, kops.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func cluster(app *shell.App) *cobra.Command {
	var o kops.DeleteOptions
	var yes bool
	var platform string
	var interval time.Duration
	var count int
	c := shell.Cobra("cluster [CLUSTER]", "Delete a cluster", `
Show every resource that belongs to a cluster, and with --yes delete them and the
cluster's objects. Shared resources are kept, and listed as such.`, `
  kops delete cluster cluster.example.com
  kops delete cluster cluster.example.com --yes

  # Forget a cluster, and leave its resources alone
  kops delete cluster cluster.example.com --unregister --yes

  # Delete what a cluster whose state store is lost has left on this host
  kops delete cluster demo.k8s.local --external --cloud local --yes`,
		func(ctx context.Context, args []string) error {
			name, err := app.ExplicitName(args)
			if err != nil {
				return err
			}
			if name == "" {
				return shell.Usagef("--name is required")
			}
			o.Cloud = api.CloudProviderID(platform)
			if o.External && o.Cloud == api.CloudAWS && o.Region == "" {
				return shell.Usagef("--external needs --region")
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			return deleteCluster(ctx, app, client, name, yes, o)
		})
	f := c.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "delete the cluster")
	f.BoolVar(&o.Unregister, "unregister", false, "delete the cluster's objects only, and keep its resources")
	f.BoolVar(&o.External, "external", false, "delete the resources of a cluster that is not in the state store")
	f.StringVar(&platform, "cloud", string(api.CloudAWS), "cloud of an external cluster: aws or local")
	f.StringVar(&o.Region, "region", "", "region of an external cluster; local has none")
	f.DurationVar(&o.Wait, "wait", 10*time.Minute, "how long to wait for one resource to become deletable")
	f.DurationVar(&interval, "interval", 10*time.Second, "accepted and not needed: retries adapt themselves")
	f.IntVar(&count, "count", 0, "accepted and not needed: see --wait")
	c.ValidArgsFunction = shell.CompleteClusters(app)
	return c
}

func deleteCluster(ctx context.Context, app *shell.App, client *kops.Client, name string, yes bool, o kops.DeleteOptions) error {
	progress := app.Progress()
	o.Apply = yes
	o.Planned = func(u *kops.Update) error {
		app.Warn(u.Warnings)
		if len(u.Objects) > 0 {
			app.Printf("Files of the state store that will be deleted:\n")
		}
		for _, url := range u.Objects {
			app.Printf("  %s\n", url)
		}
		if err := text.Deletion(app.Out, u.Plan, !yes); err != nil {
			return err
		}
		if yes {
			progress.Start(u.Plan)
		}
		return nil
	}
	client = client.WithReport(progress.Event)
	err := client.DeleteCluster(ctx, name, o)
	progress.Close()
	if err != nil {
		return err
	}
	if !yes {
		return nil
	}
	app.ForgetKubeconfig(name)
	app.Printf("\nDeleted cluster: %q\n", name)
	return nil
}

func instanceGroup(app *shell.App) *cobra.Command {
	var yes bool
	c := shell.Cobra("instancegroup NAME", "Delete an instance group", `
Show the machines' resources of an instance group, and with --yes, or after a
question, delete them and the group.`, `
  kops delete instancegroup nodes-us-east-1c --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("name one instance group")
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			if !yes {
				if yes, err = app.Confirm("Do you really want to delete instance group " + args[0] + "? This action cannot be undone."); err != nil {
					return err
				}
				if !yes {
					return shell.Failed
				}
			}
			return deleteGroup(ctx, app, client, name, args[0], yes)
		})
	c.Aliases = []string{"instancegroups", "ig"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete it without a question")
	c.ValidArgsFunction = shell.CompleteGroups(app)
	return c
}

func deleteGroup(ctx context.Context, app *shell.App, client *kops.Client, cluster, group string, yes bool) error {
	progress := app.Progress()
	o := kops.DeleteOptions{Apply: yes, Planned: func(u *kops.Update) error {
		if yes {
			progress.Start(u.Plan)
		}
		return text.Deletion(app.Out, u.Plan, !yes)
	}}
	err := client.WithReport(progress.Event).DeleteGroup(ctx, cluster, group, o)
	progress.Close()
	if err != nil {
		return err
	}
	if yes {
		app.Printf("\nDeleted InstanceGroup: %q\n", group)
		return nil
	}
	return nil
}

func sshPublicKey(app *shell.App) *cobra.Command {
	c := shell.Cobra("sshpublickey [CLUSTER]", "Delete the SSH public keys of a cluster", "Delete the SSH public keys of a cluster. Machines that run keep them.", `
  kops delete sshpublickey --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			return client.DeleteSSHPublicKeys(ctx, name)
		})
	c.Aliases = []string{"sshpublickeys", "ssh"}
	c.ValidArgsFunction = shell.CompleteClusters(app)
	return c
}
