package rollingupdate

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/engine/clock"
)

func statusOf(app *shell.App) *cobra.Command {
	var format string
	var watch bool
	c := shell.Cobra("status [CLUSTER]", "Show the progress of the last rollout", `
Show the progress of a cluster's last rollout, machine by machine, and which process
drives it.`, `
  kops rolling-update status cluster.example.com
  kops rolling-update status cluster.example.com --watch
  kops rolling-update status cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.YAML, shell.JSON); err != nil {
				return err
			}
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			if watch {
				return Watch(ctx, app, client, name, format)
			}
			r, err := client.RolloutStatus(ctx, name)
			if err != nil {
				return err
			}
			return app.PrintAs(format, r, func() error { return printStatus(app, name, r) })
		})
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	c.Flags().BoolVar(&watch, "watch", false, "keep showing it until it ends")
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// printStatus prints the progress of a cluster's rollout.
func printStatus(app *shell.App, name string, r *kops.Rollout) error {
	rows := [][]string{{"GROUP", "MACHINE", "NODE", "PHASE", "SINCE", "WHAT"}}
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			since := ""
			if !m.Since.IsZero() {
				since = app.Now().Sub(m.Since).Round(time.Second).String()
			}
			rows = append(rows, []string{g.Name, m.Name, m.Node, m.Phase, since, shell.Spell(phase(m))})
		}
	}
	if err := app.PrintRows(rows); err != nil {
		return err
	}
	app.Printf("\n")
	for _, g := range r.Groups {
		switch {
		case g.Stopped != "":
			app.Printf("%s stopped: %s\n", g.Name, shell.Spell(g.Stopped))
			if g.Revision > 0 {
				app.Printf("  Back to the objects of revision %d: kops upgrade cluster %s --rollback --revision %d --yes\n", g.Revision, name, g.Revision)
			}
		case g.Waits != "":
			app.Printf("%s waits for %s\n", g.Name, shell.Spell(g.Waits))
		}
	}
	done, all := r.Done()
	switch {
	case !r.Ended.IsZero():
		return printResult(app, r)
	case r.Driver == "":
		app.Printf("%d of %d machines are done, and no process is driving it; to continue: kops rolling-update cluster --yes\n", done, all)
	default:
		app.Printf("%d of %d machines are done; %s\n", done, all, r.Driver)
	}
	if r.Paused {
		app.Printf("It is paused; to continue: kops rolling-update resume\n")
	}
	return nil
}

// watchPause is the time between two checks of a rollout that another process drives.
const watchPause = 2 * time.Second

// Watch shows a rollout that another process drives until it has ended.
func Watch(ctx context.Context, app *shell.App, client *kops.Client, name, format string) error {
	show, stop := app.Stages()
	for {
		r, err := client.RolloutStatus(ctx, name)
		if err != nil {
			stop()
			return err
		}
		ShowProgress(show, r)
		if !r.Ended.IsZero() || r.Driver == "" {
			stop()
			return app.PrintAs(format, r, func() error { return printStatus(app, name, r) })
		}
		if err := clock.Sleep(ctx, watchPause); err != nil {
			stop()
			return err
		}
	}
}

// steer returns a command that controls a rollout.
func steer(app *shell.App, verb, short, long string, do func(context.Context, *kops.Client, string) (*kops.Rollout, error), after func(name string, r *kops.Rollout) error) *cobra.Command {
	c := shell.Cobra(verb+" [CLUSTER]", short, long, "  kops rolling-update "+verb+" cluster.example.com",
		func(ctx context.Context, args []string) error {
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			r, err := do(ctx, client, name)
			if err != nil {
				return err
			}
			return after(name, r)
		})
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

func pause(app *shell.App) *cobra.Command {
	return steer(app, "pause", "Pause a rollout", `
Pause the rollout of a cluster: no further machine is started, and machines in
progress are finished. The process that drives the rollout pauses within seconds.`,
		func(ctx context.Context, c *kops.Client, name string) (*kops.Rollout, error) {
			return c.PauseRollout(ctx, name)
		},
		func(name string, r *kops.Rollout) error {
			app.Printf("The rollout of %s is paused; to continue: kops rolling-update resume %s\n", name, name)
			return nil
		})
}

func resume(app *shell.App) *cobra.Command {
	return steer(app, "resume", "Resume a paused rollout", `
Resume a paused rollout, including groups that were stopped.`,
		func(ctx context.Context, c *kops.Client, name string) (*kops.Rollout, error) {
			return c.ResumeRollout(ctx, name)
		},
		func(name string, r *kops.Rollout) error {
			app.Printf("The rollout of %s is resumed.\n", name)
			if r.Driver == "" {
				app.Printf("No process is driving it; to drive it: kops rolling-update cluster %s --yes\n", name)
			}
			return nil
		})
}

func abort(app *shell.App) *cobra.Command {
	o := kops.DefaultRollout()
	c := shell.Cobra("abort [CLUSTER]", "End a rollout without finishing it", `
End the rollout of a cluster without finishing it. No further machine is started.
Machines in progress are put back into service if possible; otherwise they are
finished.`, `
  kops rolling-update abort cluster.example.com`,
		func(ctx context.Context, args []string) error {
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			r, err := client.AbortRollout(ctx, name)
			if err != nil {
				return err
			}
			if r.Driver != "" {
				app.Printf("The rollout of %s is ending; to watch it: kops rolling-update status %s --watch\n", name, name)
				return nil
			}
			validate.Reach(app, &o.ReachOptions)
			return Drive(app, shell.Table, o, func(ro kops.RolloutOptions) (*kops.Rollout, error) {
				r, err := client.Rollout(ctx, name, ro)
				if errors.Is(err, kops.ErrAborted) { // this was requested
					err = nil
				}
				return r, err
			})
		})
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}
