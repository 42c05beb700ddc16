// Package deletion implements `kops delete`.
package deletion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/spec/diag"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	var files []string
	var yes bool
	var c *cobra.Command
	c = shell.Cobra("delete -f FILE", "Delete clusters, instance groups and keys", `
Delete the objects in files: Clusters, InstanceGroups, SSHCredentials, and additional
objects of a cluster. Deleting a Cluster deletes all of its cloud resources and
everything that belongs to it. Without --yes, show a preview.`, `
  kops delete -f cluster.yaml
  kops delete -f cluster.yaml --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return app.UnknownCommand(c, args[0])
			}
			if len(files) == 0 {
				return shell.Usagef("specify a file with -f, or a kind of object to delete")
			}
			return fromFiles(ctx, app, files, yes)
		})
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file` with objects, an https:// URL, a URL of a state store, or - for standard input; repeatable")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete them")
	c.AddCommand(cluster(app), instanceCommand(app), instanceGroup(app), host(app), secret(app), sshPublicKey(app))
	return c
}

func fromFiles(ctx context.Context, app *shell.App, files []string, yes bool) error {
	objs, err := app.DecodeOwned(ctx, files)
	if err != nil {
		return err
	}
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	clusters, groups := kops.Named(objs)
	if err := deleteOthers(ctx, app, client, otherObjects(objs, clusters), yes); err != nil {
		return err
	}
	for _, g := range groups {
		if err := deleteGroup(ctx, app, client, g.Cluster, []string{g.Name}, yes, nil); err != nil {
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

// otherObjects returns the objects that are neither clusters nor groups, and are not deleted with
// one of the clusters.
func otherObjects(objs []api.Object, clusters []string) []api.Object {
	return slices.DeleteFunc(slices.Clone(objs), func(o api.Object) bool {
		switch o.(type) {
		case *api.Cluster, *api.InstanceGroup:
			return true
		}
		owner := o.GetLabels()[api.LabelCluster]
		return slices.Contains(clusters, owner) || owner == "" && len(clusters) > 0
	})
}

// deleteOthers deletes objects that only exist in the state store.
func deleteOthers(ctx context.Context, app *shell.App, client *kops.Client, objs []api.Object, yes bool) error {
	if len(objs) == 0 {
		return nil
	}
	gone, err := client.Clusters().Remove(ctx, objs, yes)
	if yes {
		for _, name := range gone {
			app.Printf("Deleted %s\n", name)
		}
		return err
	}
	if err != nil {
		return err
	}
	app.Printf("Objects of the state store that will be deleted:\n")
	for _, name := range gone {
		app.Printf("  %s\n", name)
	}
	app.Printf("\nMust specify --yes to delete them\n")
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
cluster's objects. Shared resources are listed and kept.`, `
  kops delete cluster cluster.example.com
  kops delete cluster cluster.example.com --yes

  # Forget a cluster, and leave its resources alone
  kops delete cluster cluster.example.com --unregister --yes

  # Delete the leftovers on this host of a cluster whose state store is lost
  kops delete cluster demo.k8s.local --external --cloud local --yes`,
		func(ctx context.Context, args []string) error {
			name, err := app.RequiredName(args)
			if err != nil {
				return err
			}
			o.Cloud = api.CloudProviderID(platform)
			if o.External && app.HasRegions(platform) && o.Region == "" {
				return shell.Usagef("--external needs --region")
			}
			if o.External && app.Traits(platform).OwnStore {
				app.PreferOwnStore() // where the state of such a cluster would be
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			return deleteCluster(ctx, app, client, name, yes, o)
		})
	c.Aliases = []string{"clusters"}
	f := c.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "delete the cluster")
	f.BoolVar(&o.Unregister, "unregister", false, "delete only the cluster's objects, and keep its cloud resources")
	f.BoolVar(&o.External, "external", false, "delete the cloud resources of a cluster that has lost its objects; refused if the state store has the cluster")
	clouds := shell.Names(app.Platforms())
	f.StringVar(&platform, "cloud", clouds[0], "cloud of an external cluster: "+diag.Or(clouds))
	shell.Complete(c, "cloud", clouds...)
	f.StringVar(&o.Region, "region", "", "region of an external cluster")
	f.DurationVar(&o.Wait, "wait", 10*time.Minute, "how long to wait for one resource to become deletable")
	f.DurationVar(&interval, "interval", 10*time.Second, "accepted for compatibility; kops adapts its retries by itself")
	f.IntVar(&count, "count", 0, "accepted for compatibility; see --wait")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// external returns the flags that specify how to find the resources of a cluster without its
// objects.
func external(app *shell.App) string {
	var out []string
	for _, p := range app.Platforms() {
		flags := "--cloud " + string(p.Name)
		if p.Lookup.Region != nil && app.HasRegions(string(p.Name)) {
			flags += " --region REGION"
		}
		if p.Connect != nil && p.Stub != nil {
			out = append(out, flags)
		}
	}
	return diag.Or(out)
}

func deleteCluster(ctx context.Context, app *shell.App, client *kops.Client, name string, yes bool, o kops.DeleteOptions) error {
	progress := app.Progress()
	o.Apply = yes
	o.On = app.On(progress.On(func(u *kops.Update) error {
		app.Warn(u.Warnings)
		if len(u.Objects) > 0 {
			app.Printf("Files of the state store that will be deleted:\n")
		}
		for _, url := range u.Objects {
			app.Printf("  %s\n", url)
		}
		if o.Unregister {
			app.Printf("The cluster's cloud resources are kept\n")
		} else if err := text.Deletion(app.Out, shell.Inside[*plan.Plan](u.Plan)); err != nil {
			return err
		}
		if yes {
			progress.Start(u.Plan)
			return nil
		}
		app.PrintRisks(u.Risks)
		preview(app, u)
		return nil
	}))
	err := progress.Close(client.DeleteCluster(ctx, name, o))
	if fault.Is(err, fault.Gone) && !o.External {
		return fault.Wrap(fault.Gone, err, fmt.Sprintf("%s; if its objects are lost but its machines still run: kops delete cluster %s --external, with %s",
			fault.Remedy(err), name, external(app)))
	}
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

// preview prints how much a deletion removes, and how to continue.
func preview(app *shell.App, u *kops.Update) {
	var what []string
	if n := u.Plan.Count().Delete; n > 0 {
		what = append(what, fmt.Sprintf("%d resources", n))
	}
	if n := len(u.Objects); n > 0 {
		what = append(what, fmt.Sprintf("%d files of the state store", n))
	}
	if len(what) > 0 {
		app.Printf("\n%s will be deleted\nMust specify --yes to delete cluster\n", strings.Join(what, " and "))
	}
}

func instanceGroup(app *shell.App) *cobra.Command {
	var yes bool
	c := shell.Cobra("instancegroup NAME...", "Delete instance groups", `
Show the cloud resources of instance groups. With --yes, or after you confirm, delete
them and the groups.

If a control plane group runs etcd members, they leave etcd first, after a backup. The
number of members stays odd: of three groups, delete two at once. Their disks stay
until 'kops update cluster --prune'.`, `
  kops delete instancegroup nodes-us-east-1c --name cluster.example.com --yes

  # From three control planes to one
  kops delete ig control-plane-b control-plane-c --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return shell.OneGroup(args)
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			var sure func() error
			if !yes {
				sure = func() error { return ask(ctx, app, strings.Join(args, ", ")) }
			}
			return deleteGroup(ctx, app, client, name, args, true, sure)
		})
	c.Aliases = []string{"instancegroups", "ig"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete it without asking")
	c.ValidArgsFunction = shell.CompleteGroup(app)
	return c
}

func host(app *shell.App) *cobra.Command {
	var o kops.ReleaseOptions
	c := shell.Cobra("host NAME", "Release an enrolled host", `
Stop everything that the cluster runs on one of your machines, and remove the machine
from the inventory. If it runs workloads, drain its node first. The next update of the
cluster updates the other machines.`, `
  kops delete host node1 --name cluster.example.com --yes

  # a machine that is broken, or switched off for good
  kops delete host node1 --name cluster.example.com --lost --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("specify one host")
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			o.On = app.On(nil)
			if err := client.Hosts().Release(ctx, name, args[0], o); err != nil {
				return err
			}
			if !o.Apply {
				app.Printf("Host %s will be released\nMust specify --yes to do it\n", args[0])
				return nil
			}
			app.Printf("Released host: %q\nTo update the other machines, run: kops update cluster %s --yes --prune\n", args[0], name)
			return nil
		})
	c.Aliases = []string{"hosts"}
	c.Flags().BoolVarP(&o.Apply, "yes", "y", false, "release it")
	c.Flags().BoolVar(&o.Lost, "lost", false, "the machine is permanently gone: do not connect to it")
	return c
}

// ask asks whether to delete an instance group.
func ask(ctx context.Context, app *shell.App, group string) error {
	ok, err := app.Confirm(ctx, "Do you really want to delete instance group "+group+"? This action cannot be undone.")
	if err == nil && !ok {
		app.Notef("Instance group %s is kept\n", group)
		return shell.Refused
	}
	return err
}

// deleteGroup shows what is deleted with an instance group and, with apply, deletes it; sure may
// stop the deletion once everything was shown, and may be nil.
func deleteGroup(ctx context.Context, app *shell.App, client *kops.Client, cluster string, groups []string, apply bool, sure func() error) error {
	group := strings.Join(groups, ", ")
	progress := app.Progress()
	o := kops.DeleteOptions{Apply: apply, On: app.On(progress.On(func(u *kops.Update) error {
		app.Warn(u.Warnings)
		if err := text.Deletion(app.Out, shell.Inside[*plan.Plan](u.Plan)); err != nil {
			return err
		}
		app.PrintRisks(u.Risks)
		if !apply {
			return nil
		}
		if sure != nil {
			if err := sure(); err != nil {
				return err
			}
		}
		progress.Start(u.Plan)
		return nil
	}))}
	err := progress.Close(client.DeleteGroups(ctx, cluster, groups, o))
	if err != nil {
		return err
	}
	if !apply {
		app.Printf("\nMust specify --yes to delete instance group %s\n", group)
		return nil
	}
	app.Printf("\nDeleted InstanceGroup: %q\n", group)
	return nil
}

func sshPublicKey(app *shell.App) *cobra.Command {
	var yes bool
	c := shell.Cobra("sshpublickey [CLUSTER]", "Delete the SSH public keys of a cluster", `
Delete the SSH public keys of a cluster. At a terminal, the command asks for
confirmation. Existing machines keep the keys.`, `
  kops delete sshpublickey --name cluster.example.com
  kops delete sshpublickey --name cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			name, err := app.RequiredName(args)
			if err != nil {
				return err
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			keys, err := client.Keys().List(ctx, name)
			if err != nil {
				return err
			}
			if len(keys) > 0 && !yes && app.Interactive { // do not ask in scripts, as kOps' command has no --yes
				app.Printf("SSH public keys that will be deleted:\n")
				for _, k := range keys {
					app.Printf("  %s  %s\n", k.Fingerprint, strings.TrimSpace(k.Text))
				}
				ok, err := app.Confirm(ctx, "Delete the SSH public keys of cluster "+name+"?")
				if err != nil {
					return err
				}
				if !ok {
					app.Notef("The SSH public keys of %s are kept\n", name)
					return shell.Refused
				}
			}
			if err := client.Keys().Delete(ctx, name); err != nil {
				return err
			}
			for _, k := range keys {
				app.Printf("Deleted sshpublickey/%s\n", k.Fingerprint)
			}
			return nil
		})
	c.Aliases = []string{"sshpublickeys", "ssh"}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "delete them without asking")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}
