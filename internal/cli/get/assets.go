package get

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/bundle"
	"kops.local/kops/internal/cli/shell"
)

func (g *subcommand) assets() *cobra.Command {
	var files []string
	var facts string
	var transfer bool
	c := shell.Cobra("assets", "Show the files and images that a cluster fetches", `
Show the files and images that the machines and pods of a cluster fetch: their
publishers' names, and where the cluster fetches them from. These differ if the spec
has mirrors (spec.assets.fileRepository, containerRegistry or containerProxy).

With --copy, copy them to these mirrors: files to a bucket with their digests next to
them, images to the registry. Contents that are already there are not sent again.
Downloads are kept in the user's cache for the next time.`, `
  kops get assets --name cluster.example.com
  kops get assets --name cluster.example.com -o yaml
  kops get assets -f cluster.yaml --facts facts.yaml -o json
  kops get assets --name cluster.example.com --copy`,
		func(ctx context.Context, _ []string) error {
			if err := g.check(); err != nil {
				return err
			}
			a, err := g.Assets(ctx, files, facts, kops.AssetsOptions{Hashes: true})
			if err != nil {
				return err
			}
			g.Warn(a.Warnings)
			if transfer {
				if err := bundle.Copy(ctx, g.App, a); err != nil {
					return err
				}
			}
			return g.PrintAs(g.format, a, func() error { return g.assetTables(a) })
		})
	c.Args = shell.NoArguments("specify the cluster with --name")
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "`file`s that describe the cluster, instead of the state store; - is standard input")
	c.Flags().BoolVar(&transfer, "copy", false, "copy them to the mirrors in the cluster's spec")
	c.Flags().StringVar(&facts, "facts", "", "facts file with everything that kops would look up for the cluster")
	return c
}

func (g *subcommand) assetTables(a *kops.Assets) error {
	var rows [][]string
	for _, i := range a.Images {
		rows = append(rows, []string{i.Canonical, i.Download})
	}
	g.Printf("Images\n")
	if err := g.PrintTable([]string{"CANONICAL", "DOWNLOAD"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, f := range a.Files {
		rows = append(rows, []string{f.Canonical, f.Download, f.SHA})
	}
	g.Printf("\nFiles\n")
	return g.PrintTable([]string{"CANONICAL", "DOWNLOAD", "SHA"}, rows)
}
