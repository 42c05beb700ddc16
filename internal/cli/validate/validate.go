// Package validate implements `kops validate`.
package validate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/ops/health"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "validate", Short: "Validate a cluster", Example: "  kops validate cluster --name cluster.example.com --wait 10m"}
	c.AddCommand(cluster(app))
	return c
}

func cluster(app *shell.App) *cobra.Command {
	var o kops.ValidateOptions
	var format string
	c := shell.Cobra("cluster [CLUSTER]", "Check whether a cluster is ready and matches its objects", `
Compare the instance groups of a cluster with their machines, and the machines with
the nodes; check that the API server is ready; and check the pods of the control plane
and all other critical pods. Each problem is reported with its reason; for a machine
that has not joined, this is the boot phase that failed.

With --wait, check again until the cluster is ready or the time runs out. The exit
code is 0 if the cluster is ready, and 2 if it is not.`, `
  kops validate cluster cluster.example.com
  kops validate cluster cluster.example.com --wait 10m
  kops validate cluster cluster.example.com --wait 10m --count 3 --interval 5s
  kops validate cluster cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			if err := check(format, o); err != nil {
				return err
			}
			return run(ctx, app, args, format, o)
		})
	f := c.Flags()
	f.StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	f.DurationVar(&o.Wait, "wait", 0, "how long to wait until the cluster is ready")
	f.IntVar(&o.Count, "count", 0, "how many times in a row the cluster must be ready, with --wait")
	f.DurationVar(&o.Interval, "interval", 10*time.Second, "pause between two checks, with --wait")
	f.IntVar(&o.MaxUnready, "max-unready-nodes", 0, "how many worker nodes may be unready")
	ReachFlags(c, &o.ReachOptions)
	c.Aliases = []string{"clusters"}
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// ReachFlags adds the flags that specify how the API server is reached.
func ReachFlags(c *cobra.Command, o *kops.ReachOptions) {
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file to use (default $KUBECONFIG or ~/.kube/config)")
	f.BoolVar(&o.UseKubeconfig, "use-kubeconfig", false, "use the credentials of the kubeconfig file instead of new ones")
	f.StringVar(&o.Server, "api-server", "", "URL of the API, instead of the inferred one")
}

// Reach completes these flags: naming a file implies using it.
func Reach(app *shell.App, o *kops.ReachOptions) {
	o.UseKubeconfig = o.UseKubeconfig || o.Kubeconfig != ""
	if o.Kubeconfig == "" {
		o.Kubeconfig = app.Kubeconfig()
	}
}

func check(format string, o kops.ValidateOptions) error {
	switch {
	case o.Wait < 0:
		return shell.Usagef("--wait %v: specify a duration such as 10m", o.Wait)
	case o.Interval <= 0:
		return shell.Usagef("--interval %v: specify a duration such as 10s", o.Interval)
	case o.Count < 0:
		return shell.Usagef("--count %d: specify how many times in a row the cluster must be ready", o.Count)
	case o.Count > 1 && o.Wait == 0:
		return shell.Usagef("--count needs --wait: without --wait the cluster is checked once")
	case o.MaxUnready < 0:
		return shell.Usagef("--max-unready-nodes %d: specify a number of nodes", o.MaxUnready)
	}
	return shell.CheckFormat(format, shell.Table, shell.YAML, shell.JSON)
}

func run(ctx context.Context, app *shell.App, args []string, format string, o kops.ValidateOptions) error {
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	Reach(app, &o.ReachOptions)
	return app.OfCluster(ctx, client, name, func(name string) error {
		v, err := observe(ctx, app, client, name, o)
		if v == nil {
			return err
		}
		shell.SpellFailures(v.Failures)
		late := fault.Is(err, fault.NotYet)
		if err != nil && !late {
			return err
		}
		if perr := show(ctx, app, client, name, format, v, late); perr != nil {
			return perr
		}
		if late {
			app.PrintError(err)
		}
		if late || !v.Ready() {
			return shell.Pending
		}
		return nil
	})
}

// observe validates a cluster, and shows what it is waiting for if it may wait.
func observe(ctx context.Context, app *shell.App, client *kops.Client, name string, o kops.ValidateOptions) (*kops.Validation, error) {
	var seen kops.On
	if o.Wait > 0 {
		show, stop := app.Waiting()
		defer stop()
		seen = func(e kops.Event) error {
			if e.Kind != kops.EventValidation {
				return nil
			}
			var reasons []text.Reason
			for _, f := range e.Validation.Failures {
				reasons = append(reasons, text.Reason{Of: f.Kind + " " + f.Name, Text: shell.Spell(f.Text())})
			}
			show.Update(reasons)
			return nil
		}
	}
	o.On = app.On(seen)
	return client.ValidateCluster(ctx, name, o)
}

// show prints a result.
func show(ctx context.Context, app *shell.App, client *kops.Client, name, format string, v *kops.Validation, late bool) error {
	return app.PrintAs(format, v, func() error { return showText(ctx, app, client, name, v, late) })
}

func showText(ctx context.Context, app *shell.App, client *kops.Client, name string, v *kops.Validation, late bool) error {
	cl, err := client.Clusters().Get(ctx, name)
	if err != nil {
		return err
	}
	if err := table(app, name, cl.Groups, v); err != nil {
		return err
	}
	if v.Ready() && !late {
		app.Printf("Your cluster %s is ready\n", name)
	} else {
		app.Printf("Validation Failed\n")
	}
	for _, text := range v.Ending {
		app.Notef("warning: %s\n", text)
	}
	return nil
}

func table(app *shell.App, cluster string, groups []*api.InstanceGroup, v *kops.Validation) error {
	app.Printf("INSTANCE GROUPS\n")
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{g.Name, string(g.Spec.Role), g.Spec.MachineType, size(g.Spec.MinSize), size(g.Spec.MaxSize), strings.Join(g.Spec.Subnets, ",")})
	}
	if err := app.PrintTable([]string{"NAME", "ROLE", "MACHINETYPE", "MIN", "MAX", "SUBNETS"}, rows); err != nil {
		return err
	}
	app.Printf("\nNODE STATUS\n")
	rows = nil
	for _, n := range v.Nodes {
		rows = append(rows, []string{n.Name, n.Role, n.Status})
	}
	if err := app.PrintTable([]string{"NAME", "ROLE", "READY"}, rows); err != nil {
		return err
	}
	app.Printf("\n")
	if v.Stale > 0 {
		app.Printf("%s; see: kops get instances %s -o wide\n\n", stale(v.Stale), cluster)
	}
	if len(v.Leaving) > 0 {
		app.Printf("Not validated, because their instance group was removed from the spec: %s; delete their machines: kops update cluster %s --prune --yes\n\n", strings.Join(v.Leaving, ", "), cluster)
	}
	if v.Ready() {
		return nil
	}
	app.Printf("VALIDATION ERRORS\n")
	Failures(app, v.Failures)
	app.Printf("\n")
	return nil
}

func stale(n int) string {
	if n == 1 {
		return "1 machine is not up to date"
	}
	return fmt.Sprintf("%d machines are not up to date", n)
}

// Failures prints failures in order, causes before consequences.
func Failures(app *shell.App, failures []health.Failure) {
	kind, name := len("KIND"), len("NAME")
	for _, f := range failures {
		kind, name = max(kind, len(f.Kind)), max(name, len(f.Name))
	}
	line := func(a, b, c string) { app.Printf("%-*s  %-*s  %s\n", kind, a, name, b, c) }
	line("KIND", "NAME", "MESSAGE")
	for _, f := range failures {
		line(f.Kind, f.Name, f.Text())
	}
}

func size(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
