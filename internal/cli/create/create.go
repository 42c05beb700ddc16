// Package create implements `kops create`.
package create

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	var files []string
	var c *cobra.Command
	c = shell.Cobra("create", "Create objects", `
Create the objects in files: a Cluster, InstanceGroups, SSHCredentials, and other
Kubernetes objects, which become additional objects of the cluster. If any object is
invalid or already exists, nothing is written.`, `
  kops create -f cluster.yaml
  kops create -f https://example.com/clusters/cluster.yaml
  kops create -f s3://my-specs/cluster.yaml
  cat cluster.yaml | kops create -f -`,
		func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return app.UnknownCommand(c, args[0])
			}
			if len(files) == 0 {
				return shell.Usagef("specify a file with -f, or a kind of object to create")
			}
			return fromFiles(ctx, app, files)
		})
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file` with objects, an https:// URL, a URL of a state store, or - for standard input; repeatable")
	c.AddCommand(cluster(app), instanceGroup(app), keypair(app), secret(app), sshPublicKey(app))
	return c
}

func fromFiles(ctx context.Context, app *shell.App, files []string) error {
	objs, err := app.DecodeOwned(ctx, files)
	if err != nil {
		return err
	}
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	created, err := client.Clusters().Create(ctx, objs)
	for _, o := range created {
		app.Warn(o.Warnings)
		app.Printf("Created %s\n", o.Name)
	}
	if err != nil {
		return err
	}
	app.SuggestPreview(created...)
	return nil
}

// checkDryRun rejects a format that a command would not use, or a missing one.
func checkDryRun(dryRun bool, format string) error {
	switch {
	case dryRun && format == "":
		return shell.Usagef("--dry-run prints the objects; choose a format with --output yaml or json")
	case format == "":
		return nil
	case !dryRun:
		return shell.Usagef("--output is the format of --dry-run; leave it out, or add --dry-run")
	}
	return shell.CheckFormat(format, shell.YAML, shell.JSON)
}
