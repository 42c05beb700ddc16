package create

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/edit"
	"kops.local/kops/internal/cli/shell"
)

func instanceGroup(app *shell.App) *cobra.Command {
	var r kops.NewGroupRequest
	var dryRun, openEditor bool
	var format, inPlaceOf string
	c := shell.Cobra("instancegroup NAME...", "Add instance groups", `
Add an instance group to a cluster after editing it in your editor, or add several
without the editor. 'kops update cluster' then changes the cloud.

Each control plane group gets an etcd member, and the number of members must be odd:
add two groups at once to go from one control plane to three. A group can also replace
another one, for example in another zone; it copies that group's spec and skips the
editor.`, `
  kops create instancegroup workers --name cluster.example.com --subnet us-east-1a
  kops create ig workers --name cluster.example.com --role node --subnet us-east-1a --edit=false
  kops create ig workers --name cluster.example.com --subnet us-east-1a --dry-run -o yaml

  # From one control plane to three
  kops create ig control-plane-b control-plane-c --role control-plane --subnet us-east-1a --edit=false

  # A control plane moves to another zone
  kops create ig control-plane-d --in-place-of control-plane-a --subnet us-east-1d`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 && (openEditor || dryRun || inPlaceOf != "") || len(args) == 0 {
				if err := shell.OneGroup(args); err != nil {
					return err
				}
			}
			if err := checkDryRun(dryRun, format); err != nil {
				return err
			}
			name, client, err := app.Open(ctx, nil)
			if err != nil {
				return err
			}
			r.Cluster = name
			if inPlaceOf != "" {
				if dryRun {
					return shell.Usagef("--dry-run prints one object, but --in-place-of changes several; leave one of them out")
				}
				return inPlace(ctx, app, client, inPlaceOf, args[0], r)
			}
			var cl *kops.Cluster
			var groups []*api.InstanceGroup
			for _, r.Name = range args {
				c, g, err := client.NewGroup(ctx, r)
				if err != nil {
					return err
				}
				cl, groups = c, append(groups, g)
			}
			group := groups[0]
			if dryRun {
				return app.PrintObjects(format, group)
			}
			var done kops.Written
			stored := true
			if openEditor {
				stored, err = edit.New(ctx, app, group, func(ctx context.Context, text []byte) (err error) {
					done, err = client.Clusters().AddGroupText(ctx, cl, text) // the user may have changed its name
					return err
				})
			} else {
				done, err = client.Clusters().AddGroups(ctx, cl, groups...)
			}
			if err == nil && stored {
				app.Warn(done.Warnings)
				app.Printf("Created %s\n", done.Name)
				for _, g := range groups[1:] {
					app.Printf("Created instancegroup/%s\n", g.Name)
				}
				app.SuggestPreview(done)
			}
			return err
		})
	c.Aliases = []string{"instancegroups", "ig"}
	f := c.Flags()
	f.StringVar(&r.Role, "role", "node", "role of the machines: control-plane, apiserver, node or bastion")
	f.StringSliceVar(&r.Subnets, "subnet", nil, "`subnet`s of the machines")
	f.StringSliceVar(&r.Zones, "zone", nil, "`zone`s of the machines, if subnets span a region")
	f.StringVar(&inPlaceOf, "in-place-of", "", "control plane group that the new group replaces")
	shell.CompleteGroupFlag(app, c, "in-place-of")
	f.BoolVar(&openEditor, "edit", true, "open the editor before the group is stored")
	f.BoolVar(&dryRun, "dry-run", false, "write nothing and print the object; requires --output")
	f.StringVarP(&format, "output", "o", "", "format of --dry-run: yaml or json")
	shell.Complete(c, "role", "control-plane", "apiserver", "node", "bastion")
	return c
}

// inPlace replaces a group with another one.
func inPlace(ctx context.Context, app *shell.App, client *kops.Client, from, name string, r kops.NewGroupRequest) error {
	cl, err := client.Clusters().Get(ctx, r.Cluster)
	if err != nil {
		return err
	}
	r.Name = name
	done, err := client.Clusters().MoveGroup(ctx, cl, from, r)
	if err != nil {
		return err
	}
	app.Warn(done.Warnings)
	app.Printf("Created %s to replace instancegroup/%s\n", done.Name, from)
	app.SuggestPreview(done)
	app.Notef("\nAfter that, this command waits until etcd has moved, and deletes the remaining resources of %s:\n  kops update cluster --name %s --prune --yes\n", from, r.Cluster)
	return nil
}
