// Package etcd implements `kops etcd`: the back-ups of a cluster's etcd and their restore, the
// health of its members, and their maintenance.
package etcd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	v := &subcommand{App: app}
	c := &cobra.Command{Use: "etcd", Short: "Maintain etcd: backups, restore, disk space, alarms", Long: `etcd stores every object of a cluster: the etcd cluster "events" stores events, and
"main" stores all other objects. etcd-manager takes a backup of each every 15 minutes,
the first one a minute after the cluster was created.`,
		Example: "  kops etcd list --name cluster.example.com\n  kops etcd restore latest --name cluster.example.com"}
	c.PersistentFlags().StringVarP(&v.format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	c.AddCommand(v.status(), v.list(), v.backup(), v.restore(), v.drill(), v.defrag(), v.alarm())
	return c
}

// defaultName is the etcd cluster that is used by default.
const defaultName = "main"

type subcommand struct {
	*shell.App
	format string
}

// begin checks the format and opens the command's cluster.
func (v *subcommand) begin(ctx context.Context, args []string) (string, *kops.Client, error) {
	if err := shell.CheckFormat(v.format, shell.Table, shell.YAML, shell.JSON); err != nil {
		return "", nil, err
	}
	return v.Open(ctx, args)
}

// addNameFlag adds the flag that names an etcd cluster.
func addNameFlag(c *cobra.Command, to *string, value, usage string) {
	c.Flags().StringVar(to, "etcd", value, usage)
	shell.Complete(c, "etcd", "main", "events", "cilium", "leases")
}

func (v *subcommand) list() *cobra.Command {
	var name string
	c := shell.Cobra("list [CLUSTER]", "Show the backups of etcd", `
Show the backups of each etcd cluster, oldest first: all of the last hour, then one
per hour for a week, then one per day. NOTE is "damaged" if a backup cannot be
restored, "no keys" if it holds nothing, as right after the cluster was created, and
"not of this cluster" if the cluster's etcd-manager did not record it; "latest" means
the newest backup without these notes. Damage is detected by comparing with what was
recorded when the backup was taken; a restore checks more. ENCRYPTION shows whether
API servers can read the encrypted objects with the present keys.`, `
  kops etcd list cluster.example.com
  kops etcd list cluster.example.com --etcd main -o json`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			list, err := client.Etcd().Backups(ctx, cluster, name)
			if err != nil {
				return err
			}
			return v.printBackups(list)
		})
	addNameFlag(c, &name, "", "etcd cluster to show (default: all)")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

func (v *subcommand) printBackups(list []kops.EtcdBackup) error {
	if v.format != shell.Table && list == nil {
		list = []kops.EtcdBackup{} // an empty list instead of null
	}
	return v.PrintAs(v.format, list, func() error {
		if len(list) == 0 {
			v.Notef("No backups yet\n")
			return nil
		}
		rows := make([][]string, len(list))
		for i, b := range list {
			rows[i] = []string{b.Etcd, b.Name, age(v.Now().Sub(b.Time)), size(b.Size), cmp.Or(b.EtcdVersion, "-"), strconv.Itoa(b.MemberCount), b.Encryption.String(), remark(b)}
			if b.EtcdVersion == "" {
				rows[i][5] = "-"
			}
		}
		return v.PrintTable([]string{"ETCD", "BACKUP", "AGE", "SIZE", "VERSION", "MEMBERS", "ENCRYPTION", "NOTE"}, rows)
	})
}

// remark says what prevents a back-up from being restored as the latest.
func remark(b kops.EtcdBackup) string {
	switch {
	case b.Damaged:
		return "damaged"
	case b.Foreign != "":
		return "not of this cluster"
	case b.Empty:
		return "no keys"
	}
	return "-"
}

func (v *subcommand) backup() *cobra.Command {
	var name string
	var yes bool
	var wait time.Duration
	c := shell.Cobra("backup [CLUSTER]", "Take a backup of etcd now", `
Ask etcd-manager for a backup of an etcd cluster, and wait until it is in the store.
kOps' own etcd-manager ignores the request and takes only its regular backups.`, `
  kops etcd backup cluster.example.com --yes
  kops etcd backup cluster.example.com --etcd events --yes`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			if !yes {
				if _, err := client.Etcd().Backups(ctx, cluster, name); err != nil {
					return err
				}
				v.Printf("A backup of etcd %s of %s would be taken\n\nMust specify --yes to take it\n", name, cluster)
				return nil
			}
			made, err := client.Etcd().BackUp(ctx, cluster, name, wait)
			if err != nil {
				return err
			}
			return v.printBackups([]kops.EtcdBackup{*made})
		})
	addNameFlag(c, &name, defaultName, "etcd cluster to back up; main stores all objects except events")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "take the backup")
	c.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long to wait for it")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

// age formats the time that has passed, in its two largest units.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// size formats a number of bytes, in the largest suitable unit.
func size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	n, i := float64(bytes), 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
