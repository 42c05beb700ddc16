package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/engine/render/text"
)

// completionTime limits how long shell completion waits for the store of the back-ups.
const completionTime = 3 * time.Second

func (v *subcommand) restore() *cobra.Command {
	var name string
	var o kops.RestoreEtcdOptions
	c := shell.Cobra("restore [CLUSTER] BACKUP", "Restore an etcd cluster from a backup", `
Show what the restore of a backup changes. With --yes, ask etcd-manager to restore it,
and wait for completion. Everything written since the backup is lost. During the
restore, for some seconds, the API does not answer; containers keep running. The API
servers of the control plane restart with etcd.

BACKUP is a name that `+"`kops etcd list`"+` shows, or latest: the newest backup of this
cluster that is intact and holds keys. The command downloads and verifies the backup
first, also for the preview. The replaced data stay on the disks, in data-trashcan,
until two more restores have moved data there. kOps' own etcd-manager has to be
restarted on each machine to pick up the request.

A backup from before "kops rotate encryption" needs the key of that time. The command
puts that key back for reading and restarts control planes with it before the restore;
afterwards, rotate again so that everything is encrypted with a new key. A backup that
this cluster's etcd-manager did not record, or whose time is in the future, is
restored only with --foreign.`, `
  kops etcd restore cluster.example.com latest
  kops etcd restore cluster.example.com 2026-08-01T10:15:00Z-000042 --yes
  kops etcd restore cluster.example.com latest --etcd events --yes
  kops etcd restore cluster.example.com 2026-08-01T10:15:00Z-000042 --foreign --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return shell.Usagef("specify a backup, or latest; to list backups, run `kops etcd list`")
			}
			if len(args) > 2 {
				return shell.Usagef("specify only one backup: %s", strings.Join(args[1:], ", "))
			}
			cluster, client, err := v.begin(ctx, args[:len(args)-1])
			if err != nil {
				return err
			}
			validate.Reach(v.App, &o.ReachOptions)
			o.Roll = func(ctx context.Context) error {
				roll := kops.DefaultRollout()
				roll.ReachOptions, roll.On = o.ReachOptions, v.On(nil)
				roll.BastionInterval, roll.ControlPlaneInterval, roll.NodeInterval = 0, 0, 0 // each machine must be healthy for some time anyway
				_, err := client.Rollout(ctx, cluster, roll)
				return err
			}
			return v.restoreFrom(ctx, client, cluster, name, args[len(args)-1], o)
		})
	addNameFlag(c, &name, defaultName, "etcd cluster to restore; main stores all objects except events")
	c.Flags().BoolVarP(&o.Apply, "yes", "y", false, "restore it")
	c.Flags().BoolVar(&o.Foreign, "foreign", false, "restore a backup that does not seem to come from this cluster")
	c.Flags().DurationVar(&o.Wait, "wait", 2*time.Minute, "how long to wait for completion; 0: only ask for the restore")
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = v.completeBackups(&name)
	return c
}

func (v *subcommand) restoreFrom(ctx context.Context, client *kops.Client, cluster, name, backup string, o kops.RestoreEtcdOptions) error {
	stop := func() {}
	o.On = v.On(func(e kops.Event) error {
		switch {
		case e.Kind == kops.EventRestore && v.format == shell.Table:
			v.preview(cluster, e.Restore)
		case e.Kind == kops.EventAwaiting:
			var show *text.Waiting
			show, stop = v.Waiting()
			show.Update([]text.Reason{{Of: "etcd " + name, Text: fmt.Sprintf("asked etcd-manager to restore it; waiting for up to %s (^C stops only the waiting)", o.Wait)}})
		}
		return nil
	})
	r, err := client.Etcd().Restore(ctx, cluster, name, backup, o)
	stop()
	if err != nil {
		return err
	}
	return v.PrintAs(v.format, r, func() error { v.printNext(cluster, r); return nil })
}

// printNext prints what comes next.
func (v *subcommand) printNext(cluster string, r *kops.EtcdRestore) {
	switch {
	case r.Restored:
		v.Printf("\nRestored etcd %s. ", r.Backup.Etcd)
		if r.NotServing != "" {
			v.Printf("The API does not answer yet: %s.\n", strings.TrimSuffix(r.NotServing, "."))
		}
		v.Printf("To wait until the cluster is ready again, run:\n\n  kops validate cluster %s --wait 10m\n", cluster)
		if len(r.Restart) > 0 {
			v.Printf("\nRestart kube-apiserver on the machines of %s: its cache still has the data from before the restore.\n", strings.Join(r.Restart, ", "))
		}
		if r.Unconfirmed != "" {
			v.Printf("\nThe API did not answer before the restore, so kops cannot tell whether API servers have the keys that were put back: %s\nIf Secrets cannot be read, run: kops rolling-update cluster %s --cloudonly --instance-group-roles control-plane --yes\n", r.Unconfirmed, cluster)
		}
		if r.Reencrypt != "" {
			v.Printf("\nObjects are encrypted with a retired key. To encrypt them with a new key, run:\n\n  %s\n", r.Reencrypt)
		}
	case r.Requested:
		v.Printf(`
etcd-manager was asked to restore etcd %s. Until it starts, within 30 seconds, the
cluster is unchanged and validates; another preview of a restore shows whether this
one is still pending.
`, r.Backup.Etcd)
	default:
		v.Printf("\nMust specify --yes to restore it\n")
	}
}

// preview prints the consequences of a restore.
func (v *subcommand) preview(cluster string, r *kops.EtcdRestore) {
	b := r.Backup
	v.Printf("Etcd %s of %s will be restored from a backup\n", b.Etcd, cluster)
	v.Printf("  name     %s\n", b.Name)
	v.Printf("  taken    %s, %s ago, by etcd %s\n", b.Time.UTC().Format("2006-01-02 15:04:05 UTC"), age(r.Age), b.EtcdVersion)
	v.Printf("  size     %s\n", size(b.Size))
	v.Printf("  younger  %d\n\n", r.Younger)
	v.Printf("Everything written in the %s since then will be lost: objects created since then are gone,\n", age(r.Age))
	v.Printf("changes are undone, and deleted objects are back.\n")
	if b.Foreign != "" {
		v.Printf("WARNING: this backup does not seem to come from this cluster: %s.\n", b.Foreign)
	}
	if len(r.PutBack) > 0 {
		var names []string
		for _, k := range r.PutBack {
			names = append(names, fmt.Sprintf("%s (%s)", k.Name, k.Provider))
		}
		v.Printf("Objects in it are encrypted with a retired key, which API servers will use again for reading: %s.\nControl planes restart for that before the restore.\n", strings.Join(names, ", "))
	}
	for _, n := range r.Notes {
		v.Printf("%s\n", n)
	}
	for _, s := range r.Skipped {
		v.Printf("The newer backup %s is not used: %s.\n", s.Name, s.Why)
	}
	if b.Empty {
		v.Printf("WARNING: this backup holds no keys. Nothing will be left: no nodes, no pods, no secrets.\n")
	}
	if len(r.Pending) > 0 {
		v.Printf("It replaces the pending restore of %s.\n", strings.Join(r.Pending, ", "))
	}
}

// completeBackups offers clusters, and then the names of a cluster's back-ups.
func (v *subcommand) completeBackups(name *string) cobra.CompletionFunc {
	clusters := shell.CompleteClusters(v.App)
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		cluster, err := v.ExplicitName(args)
		if err != nil || cluster == "" {
			return clusters(c, args, start)
		}
		client, err := v.Client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := client.Etcd().Backups(ctx, cluster, *name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out := []string{kops.LatestBackup}
		for _, b := range list {
			out = append(out, b.Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
