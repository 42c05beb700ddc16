// Package replace implements `kops replace`.
package replace

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	var files []string
	var force bool
	c := shell.Cobra("replace -f FILE", "Replace objects", `
Replace objects in the state store with the objects in files. With --force, create
objects that do not exist. If any object is invalid, nothing is written.`, `
  kops replace -f cluster.yaml
  kops get all --name cluster.example.com -o yaml | sed s/t3.medium/t3.large/ | kops replace -f -`,
		func(ctx context.Context, _ []string) error {
			if len(files) == 0 {
				return shell.Usagef("specify a file with -f")
			}
			objs, err := app.DecodeOwned(ctx, files)
			if err != nil {
				return err
			}
			client, err := app.Client(ctx)
			if err != nil {
				return err
			}
			done, err := client.Clusters().Replace(ctx, objs, force)
			for _, o := range done {
				verb := "Unchanged"
				switch {
				case o.Created:
					verb = "Created"
				case o.Changed:
					verb = "Replaced"
				}
				app.Warn(o.Warnings)
				app.Printf("%s %s\n", verb, o.Name)
			}
			if err == nil {
				app.SuggestPreview(done...)
			}
			return err
		})
	c.Args = shell.NoArguments("specify files with -f")
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file` with objects, an https:// URL, a URL of a state store, or - for standard input; repeatable")
	c.Flags().BoolVar(&force, "force", false, "create objects that do not exist")
	return c
}
