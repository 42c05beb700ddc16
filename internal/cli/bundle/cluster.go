package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/pipeline"
)

// describedCluster is the cluster that a command is about, if any.
type describedCluster struct {
	files []string
	facts string
}

func (d *describedCluster) flags(c *cobra.Command) {
	c.Flags().StringSliceVarP(&d.files, "filename", "f", nil, "`file`s that describe the cluster, instead of the state store; - is standard input")
	c.Flags().StringVar(&d.facts, "facts", "", "facts file with everything that kops would look up for the cluster")
	if err := c.MarkFlagFilename("filename", "yaml", "json"); err != nil {
		panic(err) // the flag does not exist: a bug in the lines above
	}
}

// isSet reports whether a cluster is named or described. The environment's cluster does not count:
// a bundle without one is for clusters on this host.
func (d *describedCluster) isSet(app *shell.App) bool { return app.Name != "" || len(d.files) > 0 }

// assets returns what the cluster downloads, for the given architectures or, by default, its machines' own.
func (d *describedCluster) assets(ctx context.Context, app *shell.App, arches []download.Arch) (*pipeline.Assets, error) {
	o := kops.AssetsOptions{}
	for _, a := range arches {
		o.Arches = append(o.Arches, string(a))
	}
	found, err := app.Assets(ctx, d.files, d.facts, o)
	if err != nil {
		return nil, err
	}
	app.Warn(found.Warnings)
	return shell.Inside[*pipeline.Assets](found), nil
}

// WantOf returns what a bundle of assets should hold.
func WantOf(a *pipeline.Assets) bundle.Want {
	return bundle.Want{Kops: a.Kops, Kubernetes: a.Kubernetes, Files: a.Files, Images: a.Images}
}

func diff(app *shell.App) *cobra.Command {
	var dir, format string
	var of describedCluster
	var arches []string
	c := shell.Cobra("diff [FOLDER]", "Compare a bundle with another bundle or with a cluster's needs", `
List what a bundle lacks, has in addition, or has with another digest, compared with
the bundle in FOLDER or with the files and images that a cluster fetches. The cluster
is the one that --name or the file given with -f describes.

The exit code is 2 if anything differs. Contents that the cluster does not need are
listed, but do not count as a difference, because one bundle can serve several
clusters.`, `
  kops bundle diff /mnt/usb/bundle
  kops bundle diff --name cluster.example.com --dir ./bundle
  kops bundle diff -f cluster.yaml --facts facts.yaml -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.JSON, shell.YAML); err != nil {
				return err
			}
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			all, err := compare(ctx, app, b, args, of, arches)
			if err != nil {
				return err
			}
			if err := printDiff(app, format, b, all); err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(d bundle.Difference) bool { return len(args) > 0 || d.State != bundle.More }) {
				return shell.Pending
			}
			return nil
		})
	dirFlag(c, &dir)
	of.flags(c)
	c.Flags().StringSliceVar(&arches, "arch", nil, "architectures of the machines: amd64, arm64 (default: the architectures of the cluster's machines)")
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "arch", archNames()...)
	shell.Complete(c, "output", shell.Table, shell.JSON, shell.YAML)
	return c
}

// compare compares a bundle with the one in a folder, or with what a cluster fetches.
func compare(ctx context.Context, app *shell.App, b *bundle.Bundle, args []string, of describedCluster, arches []string) ([]bundle.Difference, error) {
	if len(args) == 1 != !of.isSet(app) || len(args) > 1 {
		return nil, shell.Usagef("name one folder of a bundle, or a cluster with --name or -f")
	}
	if len(args) == 1 {
		with, err := bundle.Open(args[0])
		if err != nil {
			return nil, err
		}
		return b.Diff(with), nil
	}
	only, err := parseArches(arches)
	if err != nil {
		return nil, err
	}
	a, err := of.assets(ctx, app, only)
	if err != nil {
		return nil, err
	}
	return b.Missing(WantOf(a), a.Arches), nil
}

func printDiff(app *shell.App, format string, b *bundle.Bundle, all []bundle.Difference) error {
	if all == nil {
		all = []bundle.Difference{} // an empty list instead of null
	}
	return app.PrintAs(format, all, func() error {
		if len(all) == 0 {
			app.Printf("The bundle %s has no differences\n", b.Dir())
			return nil
		}
		var rows [][]string
		for _, d := range all {
			rows = append(rows, []string{string(d.State), d.Name, explain(d)})
		}
		return app.PrintTable([]string{"STATE", "NAME", "WHY"}, rows)
	})
}

// explain describes one difference.
func explain(d bundle.Difference) string {
	switch {
	case d.State != bundle.Other:
		return "-"
	case len(d.Lacks) > 0:
		return "it lacks " + strings.Join(d.Lacks, ", ")
	}
	return fmt.Sprintf("it is %s, not %s", d.Have, d.Want)
}
