// Package upgrade implements `kops upgrade`.
package upgrade

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/finding"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "upgrade", Short: "Upgrade Kubernetes and machine images of a cluster", Example: "  kops upgrade cluster --name cluster.example.com"}
	c.AddCommand(cluster(app))
	return c
}

type options struct {
	kops.UpgradeOptions
	yes, rollback bool
	revision      int
	format        string
}

func cluster(app *shell.App) *cobra.Command {
	var o options
	c := shell.Cobra("cluster [CLUSTER]", "Upgrade Kubernetes and machine images of a cluster", `
Show the Kubernetes version and machine images that the channel recommends for a
cluster, and what prevents the upgrade. With --yes, write them into the cluster's
objects. To apply the upgrade to machines, run kops update cluster and kops
rolling-update cluster, or kops reconcile cluster, which does both.

Kubernetes does not support skipping minor versions. With --to, an upgrade over
several minor versions is a plan of hops: the first hop is written into the objects,
and kops reconcile cluster carries out all hops in order. Your own machine images are
kept.

With --rollback, restore the objects from before the last upgrade; with --revision,
from any earlier change. This is possible as long as no control plane machine runs a
later minor version.`, `
  # Preview, and upgrade as kOps does
  kops upgrade cluster cluster.example.com
  kops upgrade cluster cluster.example.com --yes

  # Over several minor versions, to the last machine
  kops upgrade cluster cluster.example.com --to 1.36 --yes
  kops reconcile cluster cluster.example.com --yes

  # Even if a disruption budget allows no eviction
  kops upgrade cluster cluster.example.com --yes --skip-checks disruption-budgets

  # Roll back, before the control plane is upgraded
  kops upgrade cluster cluster.example.com --rollback --yes

  # Roll back to the objects of an earlier change
  kops get revisions --name cluster.example.com
  kops upgrade cluster cluster.example.com --rollback --revision 7 --yes`,
		func(ctx context.Context, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(ctx, app, args, o)
		})
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "change the objects")
	f.StringVar(&o.To, "to", "", "target version of Kubernetes, such as 1.36 or 1.36.3")
	f.StringVar(&o.KubernetesVersion, "kubernetes-version", "", "same as --to; a version older than the cluster's changes nothing")
	f.StringVar(&o.Channel, "channel", "", "channel to use instead of the cluster's channel")
	shell.Complete(c, "channel", "stable", "alpha")
	f.BoolVar(&o.rollback, "rollback", false, "restore the objects from before the last upgrade")
	f.IntVar(&o.revision, "revision", 0, "with --rollback: restore the objects of this revision; kops get revisions shows the numbers")
	f.StringSliceVar(&o.SkipChecks, "skip-checks", nil, "`check`s of the cluster to skip: "+strings.Join(kops.PreChecks(), ", "))
	shell.Complete(c, "skip-checks", kops.PreChecks()...)
	f.StringVarP(&o.format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	validate.ReachFlags(c, &o.ReachOptions)
	c.Aliases = []string{"clusters"}
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// check rejects flags that exclude each other.
func (o *options) check() error {
	if o.To != "" && o.KubernetesVersion != "" {
		return shell.Usagef("--to and --kubernetes-version both set the target version; leave one of them out")
	}
	if o.rollback && o.To+o.KubernetesVersion+o.Channel != "" {
		return shell.Usagef("--rollback restores the previous version; leave out --to, --kubernetes-version and --channel")
	}
	if o.revision != 0 && !o.rollback {
		return shell.Usagef("--revision is for --rollback; add --rollback")
	}
	if o.revision < 0 {
		return shell.Usagef("--revision %d: specify a number that kops get revisions shows", o.revision)
	}
	return shell.CheckFormat(o.format, shell.Table, shell.YAML, shell.JSON)
}

func run(ctx context.Context, app *shell.App, args []string, o options) error {
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	validate.Reach(app, &o.ReachOptions)
	o.Apply, o.On = o.yes, app.On(nil)
	if o.rollback {
		return rollBack(ctx, app, client, name, o)
	}
	u, err := client.Upgrade(ctx, name, o.UpgradeOptions)
	if err != nil {
		return err
	}
	if o.format != shell.Table {
		return app.PrintAs(o.format, u, nil)
	}
	return show(app, name, u, o.yes)
}

// show prints an upgrade as kOps does: the changes to stdout, the rest to stderr.
func show(app *shell.App, name string, u *kops.Upgrade, done bool) error {
	if len(u.Hops) == 0 {
		app.Notef("No upgrade required.\n")
		return nil
	}
	if err := Hops(app, u.Hops); err != nil {
		return err
	}
	Findings(app, u.Findings)
	app.Warn(u.Warnings)
	if !done {
		app.Notef("\nMust specify --yes to perform upgrade\n")
		return nil
	}
	app.Printf("\nUpdates applied to configuration.\n")
	if rest := len(u.Hops) - 1; rest > 0 {
		app.Notef("\nThis is the first of %d hops; each hop has to reach every machine before the next begins. To carry out all hops, run:\n  kops reconcile cluster %s --yes\n", rest+1, name)
		return nil
	}
	app.Printf("You can now apply these changes, using `kops update cluster %s`\n", name)
	app.Notef("To apply them and replace the machines in order, run:\n  kops reconcile cluster %s --yes\n", name)
	return nil
}

// Hops prints what each hop changes.
func Hops(app *shell.App, hops []kops.UpgradeHop) error {
	for i, h := range hops {
		if len(hops) > 1 {
			app.Printf("%sHop %d of %d: Kubernetes %s\n", map[bool]string{true: "\n"}[i > 0], i+1, len(hops), h.Version)
		}
		if err := changes(app, h.Changes); err != nil {
			return err
		}
		for _, e := range h.Etcd {
			app.Notef("With Kubernetes %s, etcd %s is upgraded from %s to %s.\n", h.Version, e.Item, e.Old, e.New)
		}
	}
	return nil
}

func changes(app *shell.App, list []kops.UpgradeChange) error {
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{c.Item, c.Property, c.Old, c.New})
	}
	return app.PrintTable([]string{"ITEM", "PROPERTY", "OLD", "NEW"}, rows)
}

// Findings prints the findings of pre-checks.
func Findings(app *shell.App, l finding.List) {
	for _, f := range l {
		app.Notef("%s\n", FormatFinding(f))
	}
}

// FormatFinding formats a pre-check's finding in a line.
func FormatFinding(f finding.Finding) string {
	what := "error"
	if f.Warning {
		what = "warning"
	}
	return fmt.Sprintf("%s: %s: %s", what, f.Rule, f)
}

func rollBack(ctx context.Context, app *shell.App, client *kops.Client, name string, o options) error {
	r, err := client.RollBackUpgrade(ctx, name, kops.RollBackOptions{Apply: o.yes, Revision: o.revision, ReachOptions: o.ReachOptions, On: o.On})
	if err != nil {
		return err
	}
	if o.format != shell.Table {
		return app.PrintAs(o.format, r, nil)
	}
	if err := changes(app, r.Changes); err != nil {
		return err
	}
	app.Warn(r.Warnings)
	if !o.yes {
		app.Notef("\nMust specify --yes to restore the objects of revision %d\n", r.Revision)
		return nil
	}
	app.Printf("\nRestored the objects of revision %d, with Kubernetes %s.\n", r.Revision, r.To)
	app.Notef("To apply them to existing machines, run:\n  kops reconcile cluster %s --yes\n", name)
	return nil
}
