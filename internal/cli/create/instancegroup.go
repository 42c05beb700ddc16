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
	var format string
	c := shell.Cobra("instancegroup NAME...", "Add instance groups", `
Add an instance group to a cluster, after it was looked at in the editor; or several
without the editor. The cloud is changed by 'kops update cluster'.

Groups of the control plane get members of etcd, whose number has to be odd: two more
groups at once make three control planes of one.`, `
  kops create instancegroup workers --name cluster.example.com --subnet us-east-1a
  kops create ig workers --name cluster.example.com --role node --subnet us-east-1a --edit=false
  kops create ig workers --name cluster.example.com --subnet us-east-1a --dry-run -o yaml

  # From one control plane to three
  kops create ig control-plane-b control-plane-c --role control-plane --subnet us-east-1a --edit=false`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 && (openEditor || dryRun) || len(args) == 0 {
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
					done, err = client.Clusters().AddGroupText(ctx, cl, text) // its name may be another one
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
	f.StringVar(&r.Role, "role", "node", "what the machines are for: control-plane, apiserver, node or bastion")
	f.StringSliceVar(&r.Subnets, "subnet", nil, "subnets of the machines")
	f.StringSliceVar(&r.Zones, "zone", nil, "zones of the machines, where subnets span a region")
	f.BoolVar(&openEditor, "edit", true, "open the editor before the group is stored")
	f.BoolVar(&dryRun, "dry-run", false, "write nothing, and print the object; needs --output")
	f.StringVarP(&format, "output", "o", "", "format of --dry-run: yaml or json")
	shell.Complete(c, "role", "control-plane", "apiserver", "node", "bastion")
	return c
}
