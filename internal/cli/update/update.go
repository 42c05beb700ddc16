// Package update implements `kops update`.
package update

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/export"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "update", Short: "Update the cloud to match the objects", Example: "  kops update cluster --name cluster.example.com --yes"}
	c.AddCommand(cluster(app))
	return c
}

// Targets of an update.
const (
	direct    = "direct"
	dryrun    = "dryrun"
	terraform = "terraform"
)

type options struct {
	kops.UpdateOptions
	yes, exitCode, createKubeconfig      bool
	target, out, sshKey                  string
	facts, recordFacts, plan, recordPlan string
	format                               string
	overrides                            []string
	access                               kops.KubeconfigOptions
}

func cluster(app *shell.App) *cobra.Command {
	var o options
	c := shell.Cobra("cluster [CLUSTER]", "Update the cloud to match a cluster's objects", `
Show what must be created, changed and deleted to make the cloud match the objects of
a cluster. With --yes, make these changes: exactly the plan that is shown. If an
update is interrupted, the next one finishes it. The end of the output shows what
happens to running machines: nothing, a restart in place, or a replacement.

With --target terraform, write the resources as Terraform configuration instead. With
--facts, read everything that kops would look up from a file, so that no access to a
cloud is needed.`, `
  # Preview, and apply
  kops update cluster cluster.example.com
  kops update cluster cluster.example.com --yes --admin

  # Save a plan, review it, and carry out exactly that plan
  kops update cluster cluster.example.com --save-plan plan.json
  kops update cluster cluster.example.com --plan plan.json --yes

  # Let machines install a file without a published SHA-256, such as your own build
  kops update cluster cluster.example.com --allow-unverified --yes

  # Terraform, and the same without a cloud
  kops update cluster cluster.example.com --target terraform --out ./terraform --record-facts facts.yaml
  kops update cluster cluster.example.com --target terraform --out ./terraform --facts facts.yaml`,
		func(ctx context.Context, args []string) error {
			name, err := app.ClusterName(args)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return run(ctx, app, name, o)
		})
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "carry out the plan")
	shell.Choose(c, &o.target, "target", direct, "target", "`mode`: direct, dryrun or terraform", direct, dryrun, terraform)
	f.StringVar(&o.out, "out", "", "folder for the files that --target terraform writes; your own files in it are kept (default out/terraform)")
	f.BoolVar(&o.Prune, "prune", false, "delete resources that are no longer wanted")
	shell.Choose(c, &o.Phase, "phase", "", "string", "apply only one part: network, security (or iam) or cluster", "network", "security", "iam", "cluster")
	f.StringSliceVar(&o.overrides, "lifecycle-overrides", nil, "how resources are treated: `TYPE=LIFECYCLE` or TYPE/NAME=LIFECYCLE, such as IAMRole=ExistsAndWarnIfChanges")
	f.StringSliceVar(&o.Groups, "instance-group", nil, "only these instance `group`s")
	shell.CompleteGroupFlag(app, c, "instance-group")
	f.StringSliceVar(&o.Roles, "instance-group-roles", nil, "only instance groups of these `role`s: control-plane, apiserver, node, bastion")
	shell.Complete(c, "instance-group-roles", "control-plane", "apiserver", "node", "bastion")
	c.Aliases = []string{"clusters"}
	f.StringVar(&o.sshKey, "ssh-public-key", "", "file of an SSH public key to add first")
	f.BoolVar(&o.AllowDowngrade, "allow-kops-downgrade", false, "continue even if a newer kops applied the cluster last")
	f.BoolVar(&o.AllowUnverified, "allow-unverified", false, "let machines install files without a known or published SHA-256; the command lists each file")
	f.BoolVar(&o.createKubeconfig, "create-kube-config", true, "add the cluster to the kubeconfig file after the update; with --target terraform, only with --admin, --user, --internal or --api-server")
	f.StringVar(&o.facts, "facts", "", "facts file with everything that kops would look up")
	f.StringVar(&o.recordFacts, "record-facts", "", "write all values that kops looked up to this facts file")
	f.StringVar(&o.plan, "plan", "", "carry out this saved plan with its options; refused if the cloud has changed since")
	f.StringVar(&o.recordPlan, "save-plan", "", "write the plan to this file")
	f.StringVarP(&o.format, "output", "o", "", "format of the plan, or with --yes of its result: yaml or json")
	f.BoolVar(&app.FullDiff, "full-diff", false, "show long values in full, and the tags and texts of new resources")
	f.BoolVar(&o.Refresh, "refresh", false, "read everything again instead of using the cache of earlier runs")
	f.BoolVar(&o.exitCode, "detailed-exitcode", false, "exit with code 2 if a preview has changes, or deletions that need --prune")
	f.BoolVar(&o.IgnoreSkew, "ignore-kubelet-version-skew", false, "give new workers the version in the spec, even if the control plane still runs an older version")
	f.Bool("use-kubeconfig", false, "accepted for compatibility; kops creates credentials by itself when it asks the control plane for its version")
	export.AccessFlags(c, &o.access)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// check rejects flags that exclude each other.
func (o *options) check() error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"--plan", o.plan != ""}, {"--save-plan", o.recordPlan != ""}, {"--output", o.format != ""}, {"--detailed-exitcode", o.exitCode}} {
		if f.given && o.target == terraform {
			return shell.Usagef("%s needs a plan for a cloud, but --target terraform makes none; leave one of them out", f.name)
		}
	}
	if o.recordPlan == "-" {
		return shell.Usagef("--save-plan needs the name of a file; to print the plan, use --output json")
	}
	if o.out != "" && o.target != terraform {
		return shell.Usagef("--out is the folder for --target terraform; add --target terraform, or save a plan with --save-plan %s", o.out)
	}
	return export.CheckAccess(o.access)
}

// Request is an update requested by another command.
type Request struct {
	Yes         bool
	Target, Out string
	Facts       *kops.Facts // if they were already looked up
	// AllowUnverified is --allow-unverified.
	AllowUnverified bool
	// Admin is the validity period of an admin certificate to write; if 0, none is written.
	Admin time.Duration
}

// Run does what `kops update cluster` does.
func Run(ctx context.Context, app *shell.App, name string, r Request) error {
	return run(ctx, app, name, options{UpdateOptions: kops.UpdateOptions{Facts: r.Facts, AllowUnverified: r.AllowUnverified},
		yes: r.Yes, target: r.Target, out: r.Out, createKubeconfig: true, access: kops.KubeconfigOptions{Admin: r.Admin}})
}

func run(ctx context.Context, app *shell.App, name string, o options) error {
	if o.format != "" {
		if err := shell.CheckFormat(o.format, shell.JSON, shell.YAML); err != nil {
			return err
		}
	}
	var err error
	if o.Lifecycles, err = overrides(o.overrides); err != nil {
		return err
	}
	if o.facts != "" {
		if o.Facts, err = app.ReadFacts(ctx, o.facts); err != nil {
			return err
		}
		app.Offline = OnlyWrites(o.yes, o.target) // otherwise it keeps the calling command's value
	}
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	if o.yes {
		return target(ctx, app, client, name, o)
	}
	return app.OfCluster(ctx, client, name, func(cluster string) error { return target(ctx, app, client, cluster, o) })
}

// OnlyWrites reports whether an update changes no cloud: it only shows what it would do, or writes
// it for Terraform. With a file of facts it only accesses stores.
func OnlyWrites(yes bool, target string) bool { return !yes || target == terraform }

// target updates a cluster in the way that the options specify.
func target(ctx context.Context, app *shell.App, client *kops.Client, name string, o options) error {
	if o.sshKey != "" {
		data, err := app.ReadFile(ctx, o.sshKey)
		if err != nil {
			return err
		}
		if _, _, err := client.Keys().Add(ctx, name, data); err != nil {
			return err
		}
	}
	if o.target == terraform {
		return toTerraform(ctx, app, client, name, o)
	}
	o.yes = o.yes && o.target != dryrun
	if o.yes {
		if err := checkRehearsal(ctx, app, client, name, o); err != nil {
			return err
		}
	}
	return toCloud(ctx, app, client, name, o)
}

// overrides parses TYPE=LIFECYCLE and TYPE/NAME=LIFECYCLE.
func overrides(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		kind, lifecycle, ok := strings.Cut(s, "=")
		if !ok {
			return nil, shell.Usagef("--lifecycle-overrides %q: write TYPE=LIFECYCLE or TYPE/NAME=LIFECYCLE", s)
		}
		out[kind] = lifecycle
	}
	return out, nil
}

func toTerraform(ctx context.Context, app *shell.App, client *kops.Client, name string, o options) error {
	if o.out == "" {
		o.out = filepath.Join("out", "terraform")
	}
	o.On = app.On(nil)
	result, err := client.Terraform(ctx, name, o.UpdateOptions)
	if err != nil {
		return err
	}
	app.Warn(result.Warnings)
	if err := recordFacts(o.recordFacts, result); err != nil {
		return err
	}
	if err := writeModule(o.out, result.Files); err != nil {
		return err
	}
	app.Notef("\nTerraform output has been placed into %s\n\nRun these commands to apply the configuration:\n  cd %s\n  terraform init\n  terraform plan\n  terraform apply\n", o.out, o.out)
	if result.Unnamed {
		app.Notef("\nMachines join at the API address that Terraform assigns; no second run is needed. To configure kubectl afterwards, run:\n  kops export kubeconfig %s --admin\n", name)
	}
	if o.createKubeconfig && (o.access.HasCredentials() || o.access.Internal || o.access.Server != "") {
		access, err := client.Kubeconfig(ctx, name, o.access)
		writeKubeconfig(app, name, o, access, err)
	}
	return nil
}

func toCloud(ctx context.Context, app *shell.App, client *kops.Client, name string, o options) error {
	if o.plan != "" {
		saved, err := shell.ReadPlan(ctx, o.plan)
		if err != nil {
			return err
		}
		o.Plan = saved
	}
	progress, outcome := app.Progress(), text.NewResult(app.Now)
	o.Apply, o.KeepKeys = o.yes, o.recordPlan != ""
	planned := func(u *kops.Update) error {
		app.Warn(u.Warnings)
		if err := recordFacts(o.recordFacts, u); err != nil {
			return err
		}
		if err := savePlan(app, o.recordPlan, u); err != nil {
			return err
		}
		if o.format != "" && !o.yes {
			return app.PrintPlan(o.format, name, u)
		}
		if !o.yes {
			return show(app, name, u)
		}
		app.Warn(u.Risks)
		outcome.Start(shell.Inside[*plan.Plan](u.Plan))
		progress.Start(u.Plan)
		return nil
	}
	o.On = app.On(func(e kops.Event) error {
		switch e.Kind {
		case kops.EventPlan:
			return planned(e.Plan)
		case kops.EventStep:
			outcome.Report(shell.Inside[exec.Event](e.Step))
			progress.Step(e.Step)
		}
		return nil
	})
	result, err := client.Update(ctx, name, o.UpdateOptions)
	if o.format != "" && o.yes {
		err = errors.Join(err, app.PrintResult(o.format, name, outcome, result, err))
	}
	err = progress.Close(err)
	if err != nil {
		return err
	}
	if !o.yes {
		return preview(result, o)
	}
	return afterApply(ctx, app, client, name, result, o)
}

// show prints a plan, what machines will need afterwards, and what deserves a second look.
func show(app *shell.App, name string, u *kops.Update) error {
	made := shell.Inside[*plan.Plan](u.Plan)
	if err := text.Plan(app.Out, made, app.PlanOptions()); err != nil {
		return err
	}
	if err := printAftermath(app, name, u.Aftermath); err != nil {
		return err
	}
	app.PrintRisks(u.Risks)
	app.Printf("%s", text.Next(made))
	return nil
}

func preview(u *kops.Update, o options) error {
	if o.exitCode && (!u.Plan.Empty() || len(u.Plan.Deferred) > 0) {
		return shell.Pending
	}
	return nil
}

func afterApply(ctx context.Context, app *shell.App, client *kops.Client, name string, u *kops.Update, o options) error {
	if o.format == "" {
		app.Printf("%s\n", u.Summary())
		if err := printAftermath(app, name, u.Aftermath); err != nil {
			return err
		}
	}
	if !o.createKubeconfig || o.Phase != "" {
		return nil
	}
	access, err := client.KubeconfigOf(ctx, u, o.access)
	writeKubeconfig(app, name, o, access, err)
	if u.Starts() {
		app.Notef(`
Cluster is starting. It should be ready in a few minutes.

Suggestions:
 * validate cluster: kops validate cluster --wait 10m
 * list nodes: kubectl get nodes
`)
		return nil
	}
	if n := len(u.Plan.Deferred); n > 0 {
		app.Notef("\n%s no longer wanted but not deleted; to delete them, run: kops update cluster %s --prune --yes\n", resources(n), name)
	}
	if !u.Plan.Empty() {
		app.Notef("\nCluster changes have been applied to the cloud.\n")
	}
	return nil
}

func resources(n int) string {
	if n == 1 {
		return "1 resource is"
	}
	return fmt.Sprintf("%d resources are", n)
}

// writeKubeconfig writes how the cluster is reached, unless err says that this is not known. The
// update is already done, so errors are only warnings.
func writeKubeconfig(app *shell.App, name string, o options, access *kops.Access, err error) {
	if err == nil {
		err = app.WriteKubeconfig(access, name, app.Kubeconfig(), o.access)
	}
	if err != nil {
		app.Notef("warning: %v\n", err)
	}
}

// savePlan saves a plan that can be carried out later, if a file was specified.
func savePlan(app *shell.App, file string, u *kops.Update) error {
	if file == "" {
		return nil
	}
	if u.KeysMade {
		app.Notef("The cluster's keys and secrets were created in its state store, because the plan needs them when it is carried out.\n\n")
	}
	saved, err := u.Saved()
	if err != nil {
		return err
	}
	return shell.WritePlan(file, saved)
}

func recordFacts(file string, u *kops.Update) error {
	if file == "" {
		return nil
	}
	return shell.WriteFacts(file, u.Facts)
}
