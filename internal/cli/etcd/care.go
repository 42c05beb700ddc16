package etcd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/render/text"
)

func (v *subcommand) status() *cobra.Command {
	var name string
	c := shell.Cobra("status [CLUSTER]", "Show the members of etcd and their health", `
Show the members of each etcd cluster as etcd-manager sees them: which members are
healthy, which one leads, the size of each database, the space in use, its quota, and
alarms. The command also shows what keeps etcd from reaching the members that the spec
asks for.`, `
  kops etcd status cluster.example.com
  kops etcd status cluster.example.com --etcd main -o json`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			list, err := client.Etcd().Status(ctx, cluster, name)
			if err != nil {
				return err
			}
			return v.PrintAs(v.format, list, func() error { return v.printStatus(list) })
		})
	addNameFlag(c, &name, "", "etcd cluster to show (default: all)")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

func (v *subcommand) printStatus(list []kops.EtcdStatus) error {
	var rows [][]string
	for _, s := range list {
		for _, m := range s.Members {
			of, used := "-", "-"
			if m.Size > 0 {
				of, used = size(m.Size), size(m.InUse)
			}
			rows = append(rows, []string{s.Etcd, m.Name, state(m), cmp.Or(m.EtcdVersion, "-"), of, used, size(m.Quota), cmp.Or(strings.Join(m.Alarms, ","), "-")})
		}
	}
	if len(rows) > 0 {
		if err := v.PrintTable([]string{"ETCD", "MEMBER", "STATE", "VERSION", "SIZE", "IN USE", "QUOTA", "ALARMS"}, rows); err != nil {
			return err
		}
	}
	for _, s := range list {
		switch {
		case s.ReportedAt.IsZero():
			v.Notef("\netcd-manager has not reported for etcd %s yet.\n", s.Etcd)
		case s.Old:
			v.Notef("\netcd-manager has not reported for etcd %s for %s.\n", s.Etcd, age(v.Now().Sub(s.ReportedAt)))
		case s.Waiting != "":
			v.Notef("\netcd-manager cannot change etcd %s yet: %s\n", s.Etcd, s.Waiting)
		}
	}
	return nil
}

// state describes a member's health in a word or two.
func state(m kops.EtcdMember) string {
	switch {
	case !m.Healthy:
		return "not well"
	case m.Learner:
		return "joins"
	case m.Leads:
		return "leads"
	}
	return "well"
}

func (v *subcommand) defrag() *cobra.Command {
	var name string
	var yes bool
	var wait time.Duration
	c := shell.Cobra("defrag [CLUSTER]", "Defragment etcd's databases to free unused space", `
Ask etcd-manager to defragment the databases of an etcd cluster's members, one after
the other. The leader comes last, after it has handed over. While its database is
rewritten, a few seconds for each GiB, a member and the API server on its machine do
not answer; a load balancer sends requests elsewhere. etcd-manager takes a backup
first, and does not start on a member while any member is unhealthy. If etcd has no
space left, it first compacts all revisions but the latest.`, `
  kops etcd defrag cluster.example.com          # how much space it would free
  kops etcd defrag cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			if !yes {
				list, err := client.Etcd().Status(ctx, cluster, name)
				if err != nil {
					return err
				}
				if err := v.PrintAs(v.format, list, func() error { return v.printStatus(list) }); err != nil || v.format != shell.Table {
					return err
				}
				v.Printf("\nDefragmentation frees the difference between SIZE and IN USE, member by member\n\nMust specify --yes to do it\n")
				return nil
			}
			return v.care(name, "to defragment its members", wait, func(o kops.EtcdCareOptions) (*kops.EtcdCare, error) {
				return client.Etcd().Defragment(ctx, cluster, name, o)
			})
		})
	addNameFlag(c, &name, defaultName, "etcd cluster to defragment")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "defragment it")
	c.Flags().DurationVar(&wait, "wait", 10*time.Minute, "how long to wait for completion")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

func (v *subcommand) alarm() *cobra.Command {
	c := &cobra.Command{Use: "alarm", Short: "Show or clear alarms of etcd", Long: `etcd raises NOSPACE when a database has reached its quota, and then accepts no more
writes. Defragment the database and disarm the alarm. etcd raises CORRUPT when a
member's data differ from the other members' data. Empty that member's disk, so that
it copies their data, or restore a backup.`,
		Example: "  kops etcd alarm list cluster.example.com\n  kops etcd alarm disarm cluster.example.com --yes"}
	c.AddCommand(v.alarms(), v.disarm())
	return c
}

func (v *subcommand) alarms() *cobra.Command {
	var name string
	c := shell.Cobra("list [CLUSTER]", "Show the alarms of etcd", "Show the alarms of each etcd cluster from the latest report of etcd-manager.", `
  kops etcd alarm list cluster.example.com`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			list, err := client.Etcd().Status(ctx, cluster, name)
			if err != nil {
				return err
			}
			type alarm struct {
				Etcd   string `json:"etcd"`
				Member string `json:"member"`
				Alarm  string `json:"alarm"`
			}
			found, rows := []alarm{}, [][]string{}
			for _, s := range list {
				for _, m := range s.Members {
					for _, a := range m.Alarms {
						found, rows = append(found, alarm{s.Etcd, m.Name, a}), append(rows, []string{s.Etcd, m.Name, a})
					}
				}
			}
			return v.PrintAs(v.format, found, func() error {
				if len(rows) == 0 {
					v.Notef("No alarms\n")
					return nil
				}
				return v.PrintTable([]string{"ETCD", "MEMBER", "ALARM"}, rows)
			})
		})
	addNameFlag(c, &name, "", "etcd cluster to show (default: all)")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

func (v *subcommand) disarm() *cobra.Command {
	var name string
	var yes bool
	var wait time.Duration
	c := shell.Cobra("disarm [CLUSTER]", "Clear alarms after you have removed their cause", `
Ask etcd-manager to clear the alarms of an etcd cluster. It refuses to clear NOSPACE
while a database is full, and CORRUPT while the members' data differ.`, `
  kops etcd alarm disarm cluster.example.com --yes`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			if !yes {
				v.Printf("The alarms of etcd %s of %s would be cleared if their cause is gone\n\nMust specify --yes to do it\n", name, cluster)
				return nil
			}
			return v.care(name, "to disarm its alarms", wait, func(o kops.EtcdCareOptions) (*kops.EtcdCare, error) {
				return client.Etcd().DisarmAlarms(ctx, cluster, name, o)
			})
		})
	addNameFlag(c, &name, defaultName, "etcd cluster whose alarms to clear")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "clear them")
	c.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long to wait for completion")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

func (v *subcommand) drill() *cobra.Command {
	var name string
	var wait time.Duration
	c := shell.Cobra("drill [CLUSTER]", "Test that the newest backup can be restored", `
Restore the newest backup of an etcd cluster without touching the cluster.
etcd-manager restores it on a control plane machine, into a folder of the member's
disk, and starts a separate etcd of the same version that nothing else can reach. It
compares all keys with the cluster's keys: a key that was not written since the backup
must be the same. Then it deletes the copy. The cluster keeps serving meanwhile. If
the backup has encrypted objects, this command decrypts one or two objects of each key
with the keys in the state store.`, `
  kops etcd drill cluster.example.com
  kops etcd drill cluster.example.com --etcd events -o json`,
		func(ctx context.Context, args []string) error {
			cluster, client, err := v.begin(ctx, args)
			if err != nil {
				return err
			}
			return v.care(name, "to test its newest backup", wait, func(o kops.EtcdCareOptions) (*kops.EtcdCare, error) {
				return client.Etcd().Drill(ctx, cluster, name, o)
			})
		})
	addNameFlag(c, &name, defaultName, "etcd cluster whose backup to test")
	c.Flags().DurationVar(&wait, "wait", 10*time.Minute, "how long to wait for completion")
	c.ValidArgsFunction = shell.CompleteCluster(v.App)
	return c
}

// care waits until the managers have done what was requested, and prints the results.
func (v *subcommand) care(name, what string, wait time.Duration, do func(kops.EtcdCareOptions) (*kops.EtcdCare, error)) error {
	var show *text.Waiting
	stop := func() {}
	o := kops.EtcdCareOptions{Wait: wait, On: v.On(func(e kops.Event) error {
		if e.Kind != kops.EventCare {
			return nil
		}
		if show == nil {
			show, stop = v.Waiting()
		}
		said := fmt.Sprintf("asked etcd-manager %s; waiting for up to %s; it checks for requests every 30 seconds", what, wait)
		if n := len(e.Care.Defragmented); n > 0 {
			said = fmt.Sprintf("%s was defragmented", e.Care.Defragmented[n-1].Name)
		}
		show.Update([]text.Reason{{Of: "etcd " + name, Text: said}})
		return nil
	})}
	done, err := do(o)
	stop()
	if done == nil || err != nil && len(done.Defragmented)+len(done.Disarmed) == 0 {
		return err
	}
	if perr := v.PrintAs(v.format, done, func() error { return v.printCare(done, err == nil) }); perr != nil {
		return perr
	}
	if d := done.Drill; err == nil && d != nil && len(d.Wrong) > 0 {
		return shell.Failed
	}
	return err
}

func (v *subcommand) printCare(done *kops.EtcdCare, whole bool) error {
	if d := done.Drill; d != nil {
		v.printDrill(d)
		return nil
	}
	if len(done.Defragmented) > 0 {
		rows, won := [][]string{}, int64(0)
		for _, m := range done.Defragmented {
			won += m.Before - m.After
			rows = append(rows, []string{m.Name, size(m.Before), size(m.After), size(max(m.Before-m.After, 0))})
		}
		if err := v.PrintTable([]string{"MEMBER", "BEFORE", "AFTER", "WON"}, rows); err != nil {
			return err
		}
		if whole {
			v.Notef("\nFreed %s in total\n", size(max(won, 0)))
		}
		return nil
	}
	for _, a := range done.Disarmed {
		v.Printf("Disarmed %s\n", a)
	}
	if len(done.Disarmed) == 0 && whole {
		v.Notef("No alarms\n")
	}
	return nil
}

// printDrill prints the results of a drill.
func (v *subcommand) printDrill(d *kops.EtcdDrill) {
	v.Printf("The backup %s of etcd %s can be restored\n", d.Backup.Name, d.Backup.Etcd)
	v.Printf("  age       %s\n", age(d.Age))
	v.Printf("  size      %s\n", size(d.Backup.Size))
	v.Printf("  restored  %d keys at revision %d, in %s, by etcd %s\n", d.Keys, d.Revision, d.Took.Round(10*time.Millisecond), d.Backup.EtcdVersion)
	v.Printf("  compared  %d keys are the same in the cluster, which is at revision %d\n", d.Same, d.Now)
	v.Printf("  lost      a restore would undo %d changes: %d keys created since, %d changed, %d deleted\n", d.Made+d.Changed+d.Deleted, d.Made, d.Changed, d.Deleted)
	if len(d.Decrypted) > 0 {
		v.Printf("  read      decrypted with the current keys: %s\n", strings.Join(d.Decrypted, ", "))
	}
	if d.Backup.Encryption.State == kops.EtcdNeedsKey {
		v.Printf("  keys      it %s, which a restore puts back\n", d.Backup.Encryption)
	}
	if len(d.Wrong) > 0 {
		v.Printf("WARNING: the backup differs from the cluster at the time of the backup: %s\n", strings.Join(d.Wrong, ", "))
	}
}
