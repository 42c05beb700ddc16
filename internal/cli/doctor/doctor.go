// Package doctor implements `kops doctor`.
package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/ops/health"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	var o kops.DiagnoseOptions
	var format string
	c := shell.Cobra("doctor [CLUSTER]", "Diagnose a cluster or a machine that does not come up", `
Collect everything that is known about a cluster in trouble: the findings of validate
cluster; for each machine, the phases of its boot with their times, the error of a
phase that failed, and the end of its console; parts of a machine that have failed
since, such as its kubelet or its API server, with the end of their logs; and the end
of the logs of critical pods that are not running.

The exit code is 0 when nothing is wrong, and 2 otherwise.`, `
  kops doctor cluster.example.com
  kops doctor cluster.example.com --machine i-0123456789abcdef0 --lines 100
  kops doctor --name cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, "text", shell.YAML, shell.JSON); err != nil {
				return err
			}
			if o.Lines < 1 {
				return shell.Usagef("--lines %d: specify a number of lines of each log", o.Lines)
			}
			validate.Reach(app, &o.ReachOptions)
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			return app.OfCluster(ctx, client, name, func(name string) error { return run(ctx, app, client, name, format, o) })
		})
	f := c.Flags()
	f.StringVarP(&format, "output", "o", "text", "format: text, yaml or json")
	shell.Complete(c, "output", "text", shell.YAML, shell.JSON)
	f.StringVar(&o.Machine, "machine", "", "only this machine or node")
	f.IntVar(&o.Lines, "lines", 20, "number of lines of each console and log")
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

func run(ctx context.Context, app *shell.App, client *kops.Client, name, format string, o kops.DiagnoseOptions) error {
	o.On = app.On(nil)
	d, err := client.Diagnose(ctx, name, o)
	if err != nil {
		return err
	}
	shell.SpellFailures(d.Failures)
	for i := range d.Machines {
		m := &d.Machines[i]
		m.Message, m.Remedy = shell.Spell(m.Message), shell.Spell(m.Remedy)
	}
	err = app.PrintAs(format, d, func() error { show(app, d); return nil })
	if err == nil && len(d.Failures) > 0 {
		return shell.Pending
	}
	return err
}

func show(app *shell.App, d *kops.Diagnosis) {
	if len(d.Failures) == 0 {
		app.Printf("No problems found in %s\n", d.Cluster)
	} else {
		validate.Failures(app, d.Failures)
	}
	for _, m := range d.Machines {
		machine(app, m)
	}
	for _, p := range d.Pods {
		pod(app, p)
	}
}

func machine(app *shell.App, m health.MachineDiagnosis) {
	app.Printf("\nMACHINE %s: %s\n", m.Name, m.Status)
	for _, f := range [][2]string{{"group", m.Group}, {"node", m.Node}, {"addresses", strings.Join(m.Addresses, ", ")}, {"state", m.State},
		{"created", stamp(m.Created)}, {"stale", why(m)}, {"problem", m.Message}, {"remedy", m.Remedy}} {
		if f[1] != "" {
			app.Printf("  %-10s %s\n", f[0], f[1])
		}
	}
	if r := m.Boot; r != nil {
		app.Printf("  start at %s by nodeup %s, run %d\n", stamp(r.Started), r.Version, r.Run)
		lines(app, strings.Split(strings.TrimSpace(r.String()), "\n"))
		for _, w := range r.Warnings {
			app.Printf("    warning: %s\n", w)
		}
		if len(r.Adapted) > 0 {
			app.Printf("    adapted because it is a container: %s\n", strings.Join(fields(r.Adapted), ", "))
		}
		for _, p := range r.Down {
			app.Printf("  %s is down since %s; the end of its log\n", p.Name, stamp(p.Since))
			lines(app, p.Log)
		}
	}
	if len(m.Console) > 0 && (m.Status != "ready" || m.Message != "") {
		app.Printf("  end of its console\n")
		lines(app, m.Console)
	}
}

// why says what a machine needs in order to match the spec, and for which reasons.
func why(m health.MachineDiagnosis) string {
	if m.Effect == "" {
		return ""
	}
	return string(m.Effect) + ": " + shell.Listed(m.Reasons, len(m.Reasons))
}

// fields returns the field names at the beginning of lines of the form "FIELD: VALUE, WHY".
func fields(lines []string) []string {
	var out []string
	for _, l := range lines {
		name, _, _ := strings.Cut(l, ":")
		out = append(out, name)
	}
	return out
}

func pod(app *shell.App, p health.PodDiagnosis) {
	app.Printf("\nPOD %s/%s: %s\n", p.Namespace, p.Name, p.Message)
	if p.Node != "" {
		app.Printf("  node       %s\n", p.Node)
	}
	for _, l := range p.Logs {
		life := ""
		if l.Previous {
			life = ", from its previous run"
		}
		if l.Error != "" {
			app.Printf("  the log of %s%s could not be read: %s\n", l.Container, life, l.Error)
			continue
		}
		app.Printf("  end of the log of %s%s\n", l.Container, life)
		lines(app, l.Lines)
	}
}

func lines(app *shell.App, text []string) {
	for _, l := range text {
		app.Printf("    %s\n", l)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
