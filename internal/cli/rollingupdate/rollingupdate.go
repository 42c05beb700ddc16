// Package rollingupdate implements `kops rolling-update`.
package rollingupdate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/upgrade"
	"kops.local/kops/internal/cli/validate"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "rolling-update", Short: "Replace or restart machines that are not up to date",
		Example: "  kops rolling-update cluster cluster.example.com --yes"}
	c.AddCommand(cluster(app), statusOf(app), pause(app), resume(app), abort(app))
	return c
}

type options struct {
	kops.RolloutOptions
	yes, watch bool
	format     string
	commands   []string
}

func cluster(app *shell.App) *cobra.Command {
	o := options{RolloutOptions: kops.DefaultRollout()}
	c := shell.Cobra("cluster [CLUSTER]", "Replace or restart machines that are not up to date", `
Show which machines of a cluster do not match its objects, why, and what could block
replacing them. With --yes, replace or restart them, one by one, within the limits of
instance groups and pod disruption budgets, while the cluster serves.

Problems that exist before the start are listed and do not stop the rollout; new
problems stop the group. The state of a rollout is kept in the state store: if it is
interrupted, by a signal or a lost connection, run the same command again, on any
computer, to continue.`, `
  # Preview, and apply
  kops rolling-update cluster cluster.example.com
  kops rolling-update cluster cluster.example.com --yes

  # Some groups only, and machines that are up to date, too
  kops rolling-update cluster cluster.example.com --instance-group nodes --force --yes

  # Only while the shop answers, and a check of your own passes
  kops rolling-update cluster --gate-http https://example.com/healthz --gate-command ./check.sh --yes

  # Watch it from another computer, and pause it
  kops rolling-update status cluster.example.com --watch
  kops rolling-update pause cluster.example.com`,
		func(ctx context.Context, args []string) error { return run(ctx, app, args, o) })
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "carry out the rollout")
	f.BoolVar(&o.Force, "force", false, "also roll machines that are up to date")
	f.BoolVar(&o.CloudOnly, "cloudonly", false, "do not contact the API server: no drain, no validation")
	f.BoolVarP(&o.Interactive, "interactive", "i", false, "ask after each machine whether to continue")
	f.StringSliceVar(&o.Groups, "instance-group", nil, "only these instance `group`s")
	shell.CompleteGroupFlag(app, c, "instance-group")
	f.StringSliceVar(&o.Roles, "instance-group-roles", nil, "only instance groups of these `role`s: control-plane, apiserver, node, bastion")
	shell.Complete(c, "instance-group-roles", "control-plane", "apiserver", "node", "bastion")
	f.DurationVar(&o.BastionInterval, "bastion-interval", o.BastionInterval, "pause after a bastion")
	f.DurationVar(&o.ControlPlaneInterval, "control-plane-interval", o.ControlPlaneInterval, "pause after a machine of the control plane")
	f.DurationVar(&o.ControlPlaneInterval, "master-interval", o.ControlPlaneInterval, "pause after a machine of the control plane")
	shell.Deprecate(c, "master-interval", "use --control-plane-interval")
	f.DurationVar(&o.NodeInterval, "node-interval", o.NodeInterval, "pause after a worker node")
	f.StringArrayVar(&o.commands, "gate-command", nil, "shell `command` that must succeed between machines; repeatable")
	f.StringArrayVar(&o.GateURLs, "gate-http", nil, "`URL` that must answer 2xx between machines; repeatable")
	f.BoolVar(&o.watch, "watch", false, "watch a rollout that another process drives")
	f.StringVarP(&o.format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	f.DurationVar(&o.Life, "admin", o.Life, "lifetime of the credentials that are created for the rollout")
	Flags(c, &o.RolloutOptions)
	c.Aliases = []string{"clusters"}
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// Flags adds the flags of every command that replaces machines.
func Flags(c *cobra.Command, o *kops.RolloutOptions) {
	f := c.Flags()
	f.Int32Var(&o.ValidateCount, "validate-count", o.ValidateCount, "how many `times` in a row the cluster must validate between machines; 0: no validation")
	f.DurationVar(&o.ValidationTimeout, "validation-timeout", o.ValidationTimeout, "how long the cluster may take to validate after each machine")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long a drain may take")
	f.DurationVar(&o.PostDrainDelay, "post-drain-delay", o.PostDrainDelay, "pause after a drain")
	f.BoolVar(&o.FailOnDrainError, "fail-on-drain-error", o.FailOnDrainError, "stop if a machine cannot be drained; otherwise terminate it with its remaining pods")
	f.BoolVar(&o.FailOnValidateError, "fail-on-validate-error", o.FailOnValidateError, "stop if the cluster does not validate in time; otherwise continue")
	validate.ReachFlags(c, &o.ReachOptions)
}

// Check rejects options that no rollout can fulfil.
func Check(o kops.RolloutOptions) error {
	for _, d := range []struct {
		flag string
		time time.Duration
	}{{"bastion-interval", o.BastionInterval}, {"control-plane-interval", o.ControlPlaneInterval}, {"node-interval", o.NodeInterval},
		{"validation-timeout", o.ValidationTimeout}, {"drain-timeout", o.DrainTimeout}, {"post-drain-delay", o.PostDrainDelay}} {
		if d.time < 0 {
			return shell.Usagef("--%s %v: specify a duration such as 15s", d.flag, d.time)
		}
	}
	if o.ValidateCount < 0 {
		return shell.Usagef("--validate-count %d: specify how many times in a row the cluster must validate", o.ValidateCount)
	}
	return nil
}

func (o *options) check() error {
	if err := Check(o.RolloutOptions); err != nil {
		return err
	}
	for _, c := range o.commands {
		if strings.TrimSpace(c) == "" {
			return shell.Usagef("--gate-command is empty; specify a command")
		}
		o.GateCommands = append(o.GateCommands, []string{"/bin/sh", "-c", c})
	}
	return shell.CheckFormat(o.format, shell.Table, shell.YAML, shell.JSON)
}

func run(ctx context.Context, app *shell.App, args []string, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	validate.Reach(app, &o.ReachOptions)
	return app.OfCluster(ctx, client, name, func(name string) error {
		switch {
		case o.watch:
			return Watch(ctx, app, client, name, o.format)
		case o.yes:
			return Drive(app, o.format, o.RolloutOptions, func(ro kops.RolloutOptions) (*kops.Rollout, error) { return client.Rollout(ctx, name, ro) })
		}
		return Preview(ctx, app, client, name, o.format, o.RolloutOptions)
	})
}

// Drive shows a rollout while it runs, and asks its questions.
func Drive(app *shell.App, format string, o kops.RolloutOptions, do func(kops.RolloutOptions) (*kops.Rollout, error)) error {
	show, stop := app.Stages()
	if app.Interactive || o.Interactive {
		o.Ask = newPrompter(app, show.Note).ask
	}
	o.On = app.On(func(e kops.Event) error {
		switch e.Kind {
		case kops.EventChecked:
			for _, f := range e.Findings {
				show.Note(upgrade.FormatFinding(f))
			}
		case kops.EventRollout:
			if e.Continued {
				show.Note(continueHint(e.Rollout))
			}
			ShowProgress(show, e.Rollout)
		}
		return nil
	})
	r, err := do(o)
	stop()
	if r == nil && err == nil {
		return app.PrintAs(format, &kops.Rollout{}, func() error {
			app.Printf("No rolling-update required.\n")
			return nil
		})
	}
	if r != nil {
		err = errors.Join(app.PrintAs(format, r, func() error { return printResult(app, r) }), err)
	}
	if errors.Is(err, kops.ErrDeclined) || errors.Is(err, kops.ErrAborted) {
		return shell.Refused
	}
	return err
}
