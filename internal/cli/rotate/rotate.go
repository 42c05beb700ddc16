// Package rotate implements `kops rotate`: the replacement of a cluster's keys while it serves.
package rotate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "rotate", Short: "Replace the keys of a cluster while it serves", Long: `Replace the keys of a cluster while it serves. First, machines trust the new keys next
to the old ones; then the new keys sign, and machines and pods get certificates and
tokens from them; and once it is proven that nothing uses the old keys, they are
distrusted. Without --yes, the steps are shown. The progress of a rotation is kept in
the state store: anyone can run the same command again to continue.`,
		Example: "  kops rotate ca --name cluster.example.com\n  kops rotate ca --name cluster.example.com --yes"}
	for _, what := range [][2]string{
		{"ca", "Replace the certificate authorities of the cluster and of its extension servers"},
		{"service-account", "Replace the key that signs service account tokens"},
		{"etcd", "Replace the certificate authorities of etcd"},
		{"encryption", "Replace the key that encrypts objects in etcd"},
		{"all", "Replace all keys of a cluster"},
	} {
		c.AddCommand(command(app, what[0], what[1]))
	}
	return c
}

func command(app *shell.App, what, short string) *cobra.Command {
	var o kops.RotateOptions
	var format, facts string
	c := shell.Cobra(what+" [CLUSTER]", short, short+`,
step by step, while the cluster keeps serving. The rotation also applies pending
changes of the cluster's objects. With --yes, start the rotation, or continue it.`, `
  kops rotate `+what+` cluster.example.com
  kops rotate `+what+` cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			if err := shell.CheckFormat(format, shell.Table, shell.YAML, shell.JSON); err != nil {
				return err
			}
			name, client, err := app.Open(ctx, args)
			if err != nil {
				return err
			}
			if facts != "" {
				if o.Facts, err = app.ReadFacts(ctx, facts); err != nil {
					return err
				}
			}
			validate.Reach(app, &o.ReachOptions)
			o.Roll = func(ctx context.Context) error {
				roll := kops.DefaultRollout()
				roll.ReachOptions, roll.On = o.ReachOptions, app.On(nil)
				roll.BastionInterval, roll.ControlPlaneInterval, roll.NodeInterval = 0, 0, 0 // each machine must be healthy for some time anyway
				_, err := client.Rollout(ctx, name, roll)
				return err
			}
			o.On = app.On(func(e kops.Event) error {
				if e.Kind == kops.EventRotation && progress(app, e.Rotation) {
					renew(ctx, app, client, name, e.Rotation.Step)
				}
				return nil
			})
			r, err := client.Rotate(ctx, name, what, o)
			if err != nil {
				return err
			}
			if o.Apply {
				renew(ctx, app, client, name, r.Step)
			}
			return app.PrintAs(format, r, func() error { return show(app, name, r, o.Apply) })
		})
	c.Flags().BoolVarP(&o.Apply, "yes", "y", false, "start the rotation, or continue it")
	c.Flags().StringVarP(&format, "output", "o", shell.Table, "format: table, yaml or json")
	c.Flags().StringVar(&facts, "facts", "", "facts file with everything that kops would look up")
	c.Flags().BoolVar(&o.AllowUnverified, "allow-unverified", false, "let machines install files without a known or published SHA-256; the command lists each file")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// progress prints which step begins, and reports whether one does.
func progress(app *shell.App, r *kops.Rotation) bool {
	if r.Progress != "" {
		app.Notef("  rewritten: %s\n", r.Progress)
		return false
	}
	for i, s := range r.Steps {
		if s.Name == r.Step {
			app.Notef("step %d of %d, %s: %s\n", i+1, len(r.Steps), s.Name, s.Text)
		}
	}
	return true
}

// renew updates the user's kubeconfig file to the keys: at the beginning of each step that
// distributes the previous step's changes to machines, and at the end. From the step reissue on,
// the new keys sign.
func renew(ctx context.Context, app *shell.App, client *kops.Client, cluster, step string) {
	var issue func(time.Time) ([]byte, []byte, error)
	switch step {
	case "trust", "done":
	case "reissue":
		issue = func(ends time.Time) ([]byte, []byte, error) {
			if left := time.Until(ends); left > 0 {
				return client.AdminCertificate(ctx, cluster, left)
			}
			return nil, nil, nil
		}
	default:
		return
	}
	access, err := client.Kubeconfig(ctx, cluster, kops.KubeconfigOptions{Server: "https://" + cluster}) // only the authorities matter
	if err != nil {
		app.Notef("warning: %v\n", err)
		return
	}
	app.RenewKubeconfig(access, cluster, issue)
}

func show(app *shell.App, cluster string, r *kops.Rotation, applied bool) error {
	if len(r.Left) > 0 {
		app.Notef("These pods read the changed data only when they start, and kops cannot restart them; their owners must do so:\n  %s\n", strings.Join(r.Left, "\n  "))
	}
	if applied {
		app.Printf("Rotated %s of %s\n", r.What, cluster)
		if r.NoBackup != "" {
			app.Notef("warning: the newest backup of etcd is older than the rotation: %s\n", r.NoBackup)
		}
		if r.Encryption {
			app.Notef("\nThe old key stays in the secret encryptionconfig-retired while backups need it: kops etcd list %s\n", cluster)
		}
		app.Notef("\nOther users' kubeconfig files need the new certificate authority: kops export kubeconfig %s --admin\n", cluster)
		return nil
	}
	if r.Unknown != "" {
		app.Notef("warning: the effect on machines and pods is unknown: %s\n", r.Unknown)
	}
	app.Printf("Keys to replace: %s\n\n", keys(r))
	var rows [][]string
	for i, s := range r.Steps {
		state := ""
		switch {
		case s.Done:
			state = "done"
		case s.Name == r.Step && !r.Began.IsZero():
			state = "next"
		}
		machines := ""
		if s.Moves && !s.Done {
			machines = machineEffect(s)
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), s.Name, state, machines, s.Text})
	}
	if err := app.PrintTable([]string{"#", "STEP", "STATE", "MACHINES", "WHAT HAPPENS"}, rows); err != nil {
		return err
	}
	app.Printf("\nMust specify --yes to rotate them\n")
	return nil
}

// machineEffect says what happens to machines in a step.
func machineEffect(s kops.RotationStep) string {
	var parts []string
	if s.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("%d in place", s.Restarts))
	}
	if s.Replaces > 0 {
		parts = append(parts, fmt.Sprintf("%d replaced", s.Replaces))
	}
	if len(parts) == 0 {
		return "all"
	}
	return fmt.Sprintf("%s, about %d min", strings.Join(parts, " and "), s.Minutes)
}

// keys says what is replaced.
func keys(r *kops.Rotation) string {
	all := append([]string(nil), r.Keysets...)
	if r.Encryption {
		all = append(all, "the key of the secret encryptionconfig")
	}
	return strings.Join(all, ", ")
}
