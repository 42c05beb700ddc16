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

// completionTime bounds how long a shell waits for the store of the back-ups.
const completionTime = 3 * time.Second

func (v *verb) restore() *cobra.Command {
	var name string
	var o kops.RestoreEtcdOptions
	c := shell.Cobra("restore [CLUSTER] BACKUP", "Restore an etcd cluster from a back-up", `
Show what the restore of a back-up means, and with --yes ask the managers of the
etcd cluster for it, and wait until it is done. All that was written since the back-up
is lost. While it is restored, for some seconds, the API does not answer; containers
go on to run. API servers of control planes are restarted with it.

BACKUP is a name that `+"`kops etcd list`"+` shows, or latest: the youngest of this cluster that
is whole and holds keys. It is fetched and verified first, also for the preview. The data that
are replaced stay on the disks, in data-trashcan, until two more were put there. Where kOps' own
etcd-manager runs, it has to be restarted on each machine to take up the request.

A back-up from before "kops rotate encryption" needs the key of that time. It is put back as a
key to read by, and control planes are restarted with it before the restore; have everything
written with a new key afterwards. A back-up that was not recorded by the managers of this
cluster, or that claims to be from the future, is restored with --foreign only.`, `
  kops etcd restore cluster.example.com latest
  kops etcd restore cluster.example.com 2026-08-01T10:15:00Z-000042 --yes
  kops etcd restore cluster.example.com latest --etcd events --yes
  kops etcd restore cluster.example.com 2026-08-01T10:15:00Z-000042 --foreign --yes`,
		func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return shell.Usagef("name a back-up, or latest; `kops etcd list` shows them")
			}
			if len(args) > 2 {
				return shell.Usagef("one back-up at a time: %s", strings.Join(args[1:], ", "))
			}
			cluster, client, err := v.begin(ctx, args[:len(args)-1])
			if err != nil {
				return err
			}
			validate.Reach(v.App, &o.ReachOptions)
			o.Roll = func(ctx context.Context) error {
				roll := kops.DefaultRollout()
				roll.ReachOptions, roll.On = o.ReachOptions, v.On(nil)
				roll.BastionInterval, roll.ControlPlaneInterval, roll.NodeInterval = 0, 0, 0 // each has to be well for some time, as it is
				_, err := client.Rollout(ctx, cluster, roll)
				return err
			}
			return v.restoreFrom(ctx, client, cluster, name, args[len(args)-1], o)
		})
	which(c, &name, usual, "etcd cluster to restore: main has all objects but events")
	c.Flags().BoolVarP(&o.Apply, "yes", "y", false, "restore it")
	c.Flags().BoolVar(&o.Foreign, "foreign", false, "restore a back-up that does not seem to be of this cluster")
	c.Flags().DurationVar(&o.Wait, "wait", 2*time.Minute, "how long to wait until it is done; 0: only ask for it")
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = v.completeBackups(&name)
	return c
}

func (v *verb) restoreFrom(ctx context.Context, client *kops.Client, cluster, name, backup string, o kops.RestoreEtcdOptions) error {
	stop := func() {}
	o.On = v.On(func(e kops.Event) error {
		switch {
		case e.Kind == kops.EventRestore && v.format == shell.Table:
			v.preview(cluster, e.Restore)
		case e.Kind == kops.EventAwaiting:
			var show *text.Waiting
			show, stop = v.Waiting()
			show.Saw([]text.Reason{{Of: "etcd " + name, Text: fmt.Sprintf("its managers were asked to restore it, and have at most %s; ^C ends the waiting only", o.Wait)}})
		}
		return nil
	})
	r, err := client.Etcd().Restore(ctx, cluster, name, backup, o)
	stop()
	if err != nil {
		return err
	}
	return v.PrintAs(v.format, r, func() error { v.goOn(cluster, r); return nil })
}

// goOn says what comes next.
func (v *verb) goOn(cluster string, r *kops.EtcdRestore) {
	switch {
	case r.Restored:
		v.Printf("\nEtcd %s is restored. ", r.Backup.Etcd)
		if r.NotServing != "" {
			v.Printf("The API does not answer yet: %s.\n", strings.TrimSuffix(r.NotServing, "."))
		}
		v.Printf("See when all is well again with:\n\n  kops validate cluster %s --wait 10m\n", cluster)
		if len(r.Restart) > 0 {
			v.Printf("\nRestart kube-apiserver on the machines of %s: what it has read is of the cluster before.\n", strings.Join(r.Restart, ", "))
		}
		if r.Unconfirmed != "" {
			v.Printf("\nThe API did not answer before the restore, so that it is not known whether API servers have the keys that were put back: %s\nIf Secrets cannot be read: kops rolling-update cluster %s --cloudonly --instance-group-roles control-plane --yes\n", r.Unconfirmed, cluster)
		}
		if r.Reencrypt != "" {
			v.Printf("\nObjects are encrypted by a key that was retired. Have them written with a new one:\n\n  %s\n", r.Reencrypt)
		}
	case r.Requested:
		v.Printf(`
The managers of etcd %s were asked to restore it. Until they have begun, within half a
minute, the cluster is as it was, and validates; a further preview of a restore tells
whether this one is still to come.
`, r.Backup.Etcd)
	default:
		v.Printf("\nMust specify --yes to restore it\n")
	}
}

// preview says what a restore means.
func (v *verb) preview(cluster string, r *kops.EtcdRestore) {
	b := r.Backup
	v.Printf("Etcd %s of %s will be restored from a back-up\n", b.Etcd, cluster)
	v.Printf("  name     %s\n", b.Name)
	v.Printf("  taken    %s, %s ago, by etcd %s\n", b.Time.UTC().Format("2006-01-02 15:04:05 UTC"), age(r.Age), b.EtcdVersion)
	v.Printf("  size     %s\n", size(b.Size))
	v.Printf("  younger  %d\n\n", r.Younger)
	v.Printf("Lost is whatever was written in the %s since: objects made since then are gone,\n", age(r.Age))
	v.Printf("changes are undone, and deleted objects are back.\n")
	if b.Foreign != "" {
		v.Printf("WARNING: this back-up does not seem to be of this cluster: %s.\n", b.Foreign)
	}
	if len(r.PutBack) > 0 {
		var names []string
		for _, k := range r.PutBack {
			names = append(names, fmt.Sprintf("%s (%s)", k.Name, k.Provider))
		}
		v.Printf("Objects of it are encrypted by a retired key, which API servers will read by again: %s.\nControl planes are restarted for that before the restore.\n", strings.Join(names, ", "))
	}
	for _, n := range r.Notes {
		v.Printf("%s\n", n)
	}
	for _, s := range r.Skipped {
		v.Printf("The younger back-up %s is not taken: %s.\n", s.Name, s.Why)
	}
	if b.Empty {
		v.Printf("WARNING: this back-up holds no keys. Nothing will be left: no nodes, no pods, no secrets.\n")
	}
	if len(r.Pending) > 0 {
		v.Printf("It takes the place of the restore of %s, which was asked for before.\n", strings.Join(r.Pending, ", "))
	}
}

// completeBackups offers clusters, and then the names of a cluster's back-ups.
func (v *verb) completeBackups(name *string) cobra.CompletionFunc {
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
