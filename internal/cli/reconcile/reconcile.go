// Package reconcile implements `kops reconcile`.
package reconcile

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/rollingupdate"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/upgrade"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "reconcile", Short: "Update a cluster and its machines to match its objects", Example: "  kops reconcile cluster --name cluster.example.com --yes"}
	c.AddCommand(cluster(app))
	return c
}

func cluster(app *shell.App) *cobra.Command {
	o := kops.ReconcileOptions{Rollout: kops.DefaultRollout()}
	c := shell.Cobra("cluster [CLUSTER]", "Update a cluster and its machines to match its objects", `
Update a cluster and replace its machines in the order that is safe for a Kubernetes
upgrade: update the control plane and API servers, wait until they are healthy, and
replace them; then update everything, replace the other machines, and delete the
resources that are no longer wanted. Steps that are already done are skipped.

An upgrade of several hops (kops upgrade cluster --to) runs hop by hop, with a check
of the cluster before each. If the command is interrupted, run it again to continue;
any computer will do. kops does not reconcile clusters that Terraform manages: apply
their files, and replace machines with kops rolling-update cluster.`, `
  # Preview, and apply
  kops reconcile cluster cluster.example.com
  kops reconcile cluster cluster.example.com --yes

  # An upgrade over several minor versions of Kubernetes
  kops upgrade cluster cluster.example.com --to 1.36 --yes
  kops reconcile cluster cluster.example.com --yes`,
		func(ctx context.Context, args []string) error { return run(ctx, app, args, o) })
	f := c.Flags()
	f.BoolVarP(&o.Apply, "yes", "y", false, "carry out the steps")
	f.BoolVar(&o.AllowDowngrade, "allow-kops-downgrade", false, "continue even if a newer kops applied the cluster last")
	f.BoolVar(&o.AllowUnverified, "allow-unverified", false, "let machines install files without a known or published SHA-256; the command lists each file")
	f.StringSliceVar(&o.SkipChecks, "skip-checks", nil, "`check`s before an upgrade to skip: "+strings.Join(kops.PreChecks(), ", "))
	shell.Complete(c, "skip-checks", kops.PreChecks()...)
	rollingupdate.Flags(c, &o.Rollout)
	c.Aliases = []string{"clusters"}
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

func run(ctx context.Context, app *shell.App, args []string, o kops.ReconcileOptions) error {
	if err := rollingupdate.Check(o.Rollout); err != nil {
		return err
	}
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	validate.Reach(app, &o.Rollout.ReachOptions)
	s := &screen{app: app}
	o.On = app.On(s.event)
	r, err := client.ReconcileCluster(ctx, name, o)
	if err = s.close(err); err != nil {
		return err
	}
	if !o.Apply {
		return preview(app, name, r)
	}
	app.Printf("Cluster %s matches its objects, with Kubernetes %s\n", name, r.Version)
	return nil
}

// preview prints what the update would do now, and what would follow.
func preview(app *shell.App, name string, r *kops.Reconciliation) error {
	app.Warn(r.Update.Warnings)
	made := shell.Inside[*plan.Plan](r.Update.Plan)
	if err := text.Plan(app.Out, made, app.PlanOptions()); err != nil {
		return err
	}
	app.PrintRisks(r.Update.Risks)
	if made.Empty() {
		app.Printf("%s", text.Next(made))
	}
	if len(r.Hops) > 0 {
		app.Printf("\nNext, hop by hop to Kubernetes %s:\n", r.Version)
		if err := upgrade.Hops(app, r.Hops); err != nil {
			return err
		}
	}
	app.Notef("\nFor each version of Kubernetes, in this order: %s.\nTo see which machines will be replaced, run: kops get instances --name %s\n", strings.Join(r.Stages, ", "), name)
	app.Notef("\nMust specify --yes to reconcile\n")
	return nil
}

// screen shows the progress: stages as lines, and each update in the same way as the command
// update.
type screen struct {
	app      *shell.App
	progress *shell.Progress // of an update
	rollout  *text.Stages    // of a rollout
	stop     func()
	applying bool
}

func (s *screen) event(e kops.Event) error {
	switch e.Kind {
	case kops.EventStage:
		if err := s.close(nil); err != nil {
			return err
		}
		s.applying = true
		s.app.Notef("[%s, %d of %d] %s\n", e.Stage.Version, e.Stage.Number, e.Stage.Of, e.Stage.Name)
	case kops.EventChecked:
		upgrade.Findings(s.app, e.Findings)
	case kops.EventPlan:
		if s.applying {
			s.app.Warn(e.Plan.Warnings)
			s.progress = s.app.Progress()
			s.progress.Start(e.Plan.Plan)
		}
	case kops.EventStep:
		s.progress.Step(e.Step)
	case kops.EventRollout:
		if s.rollout == nil {
			s.rollout, s.stop = s.app.Stages()
		}
		rollingupdate.ShowProgress(s.rollout, e.Rollout)
	case kops.EventValidation:
		for _, f := range e.Validation.Failures {
			s.app.Notef("waiting for %s\n", f)
		}
	}
	return nil
}

// close closes the display of an update or a rollout.
func (s *screen) close(err error) error {
	if s.rollout != nil {
		s.stop()
		s.rollout = nil
	}
	if s.progress == nil {
		return err
	}
	p := s.progress
	s.progress = nil
	return p.Close(err)
}
