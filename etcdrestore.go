package kops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// refusalTime is how long Diagnose tells of a restore that was refused.
const refusalTime = 24 * time.Hour

// Restore says what the restore of a back-up means and, with Apply, asks the
// managers of the etcd cluster for it, who do it when they look into their store next.
// The back-up is fetched and verified first; the error of a damaged one is of class
// fault.Permanent, and nothing is asked for. With Wait it returns when the restore is done, or
// withdrawn, which is an error of class fault.Permanent; where it takes longer the error
// is of class fault.NotYet, and the request stands. A name that is not that of a back-up
// is an error of class fault.Gone; LatestBackup stands for the youngest that is not
// damaged and holds keys.
func (e Etcd) Restore(ctx context.Context, cluster, name, from string, o RestoreEtcdOptions) (*EtcdRestore, error) {
	told := &call{cluster: cluster, on: o.On}
	if !o.Apply {
		r, _, _, err := e.c.planRestore(ctx, told, name, from)
		return r, err
	}
	var r *EtcdRestore
	var key string
	var at *etcdArchive
	err := e.c.leased(ctx, told, func(ctx context.Context, lease *clusterstore.Lease) (err error) {
		var a *etcdArchive
		var cl *Cluster
		if r, a, cl, err = e.c.planRestore(ctx, told, name, from); err != nil {
			return err
		}
		if err := lease.Check(ctx); err != nil {
			return err
		}
		if key, err = etcd.RequestRestore(ctx, a.store, r.Backup.Name, e.c.cfg.World.Now()); err != nil {
			return err
		}
		r.Requested, at = true, a
		_, err = e.c.store.Append(ctx, lease, cl.stored(), clusterstore.Revision{Result: "done",
			Message: fmt.Sprintf("asked for the restore of etcd %s from its back-up %s", name, r.Backup.Name)})
		return err
	})
	if err != nil || o.Wait <= 0 {
		return r, err
	}
	if err := told.tell(Event{Kind: EventAwaiting}); err != nil {
		return r, err
	}
	if err = e.c.awaitRestore(ctx, at, r, key, o.Wait); err == nil {
		r.Restored = true
	}
	return r, err
}

// awaitRestore waits until the managers have carried out a command, which they then
// remove, or have withdrawn it.
func (c *Client) awaitRestore(ctx context.Context, a *etcdArchive, r *EtcdRestore, key string, wait time.Duration) error {
	stands := "the request stands until the restore is done; to take it back remove " + store.URL(a.store, key)
	for start := c.cfg.World.Now(); ; {
		control, err := etcd.ReadControl(ctx, a.store)
		if err != nil {
			return fault.Wrap(fault.Of(err), fmt.Errorf("see whether etcd %s is restored: %w", a.name, err), stands)
		}
		refused := control.Refused != nil && control.Refused.Command == key
		switch {
		case refused:
			return fault.Wrap(fault.Permanent, fmt.Errorf("etcd %s is not restored: %s", a.name, control.Refused.Why),
				"nothing was changed, and the request is withdrawn; restore another back-up: "+a.list())
		case !slices.ContainsFunc(control.Commands, func(x etcd.Command) bool { return x.Key == key }):
			if control.Record == nil || control.Record.Command != key { // kOps' manager has done it, and leaves API servers alone
				r.Restart = a.apiServers(true)
			}
			return nil
		case c.cfg.World.Now().Sub(start) >= wait:
			return fault.Wrap(fault.NotYet, fmt.Errorf("etcd %s of cluster %s was not restored within %s", a.name, a.cluster, wait),
				stands+"; see whether the control plane runs: kops doctor "+a.cluster)
		}
		if err := c.cfg.World.Sleep(ctx, etcdPause); err != nil {
			return fault.Wrap(fault.NotYet, err, stands)
		}
	}
}

// planRestore chooses a back-up, verifies it, and says what its restore means.
func (c *Client) planRestore(ctx context.Context, told *call, name, from string) (*EtcdRestore, *etcdArchive, *Cluster, error) {
	a, cl, err := c.etcdArchive(ctx, told.cluster, name)
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := a.backups(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	r := &EtcdRestore{Restart: a.apiServers(false)}
	var i int
	if from == LatestBackup && len(all) > 0 {
		i, r.Skipped, err = a.latest(ctx, all)
	} else if i, err = a.find(all, from); err == nil {
		err = a.verify(ctx, &all[i])
	}
	if err != nil {
		return nil, nil, nil, err
	}
	r.Backup, r.Age, r.Younger = all[i], c.cfg.World.Now().Sub(all[i].Time), len(all)-i-1
	control, err := etcd.ReadControl(ctx, a.store)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, command := range control.Commands {
		r.Pending = append(r.Pending, command.Backup)
	}
	return r, a, cl, told.tell(Event{Kind: EventRestore, Restore: r})
}

// apiServers lists the groups whose machines have an API server that uses the etcd
// cluster: those without etcd, or with it as well.
func (a *etcdArchive) apiServers(controlPlanes bool) []string {
	var out []string
	for _, g := range a.groups {
		if a.name != "cilium" && (g.Spec.Role == api.RoleAPIServer || controlPlanes && g.Spec.Role == api.RoleControlPlane) {
			out = append(out, g.Name)
		}
	}
	return out
}

// verify fetches a back-up, and notes whether it holds any key; of a damaged one it is
// an error with etcd.ErrDamaged in its chain.
func (a *etcdArchive) verify(ctx context.Context, b *EtcdBackup) error {
	dir, err := os.MkdirTemp("", "kops-etcd-")
	if err != nil {
		return fmt.Errorf("verify the back-up %s: %w", b.Name, err)
	}
	held, err := (&backup.Archive{Store: a.store, Scratch: dir}).Verify(ctx, b.Name)
	b.Empty = err == nil && held.Keys == 0
	return errors.Join(err, os.RemoveAll(dir))
}

// latest returns the place of the youngest back-up that is whole and holds keys, and
// those that are younger. Whoever wants the latest wants what was there, and an empty
// cluster in its place is never that.
func (a *etcdArchive) latest(ctx context.Context, all []EtcdBackup) (int, []SkippedBackup, error) {
	var skipped []SkippedBackup
	for i := len(all) - 1; i >= 0; i-- {
		b := &all[i]
		if !b.Damaged && !b.Empty {
			if err := a.verify(ctx, b); errors.Is(err, etcd.ErrDamaged) {
				b.Damaged, b.Problem = true, err.Error()
			} else if err != nil {
				return 0, nil, err
			}
		}
		switch {
		case b.Damaged:
			skipped = append(skipped, SkippedBackup{b.Name, b.Problem})
		case b.Empty:
			skipped = append(skipped, SkippedBackup{b.Name, "it holds no keys"})
		default:
			return i, skipped, nil
		}
	}
	return 0, nil, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no back-up that is whole and holds keys; the youngest, %s, is refused: %s",
		a.name, a.cluster, skipped[0].Name, skipped[0].Why),
		fmt.Sprintf("take one with `kops etcd backup %s --etcd %s --yes`; to restore one without keys all the same, name it: %s", a.cluster, a.name, a.list()))
}

// find returns the place of a back-up in a list; of a damaged one it is an error.
func (a *etcdArchive) find(all []EtcdBackup, name string) (int, error) {
	remedy := a.list()
	var known []string
	for i, b := range all {
		switch {
		case b.Name == name && b.Damaged:
			return 0, fault.Wrap(fault.Permanent, fmt.Errorf("the back-up %s of etcd %s is %w, and cannot be restored: %s", name, a.name, etcd.ErrDamaged, b.Problem), "restore another; "+remedy)
		case b.Name == name:
			return i, nil
		}
		known = append(known, b.Name)
	}
	if len(all) == 0 {
		return 0, fault.New(fault.Gone, "etcd %s of cluster %s has no back-up yet", a.name, a.cluster)
	}
	if near := diag.Nearest(name, known); near != "" {
		remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
	}
	return 0, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no back-up %q", a.name, a.cluster, name), remedy)
}

// refusals are the restores that managers of etcd have refused lately. What cannot be
// read is passed over: a diagnosis tells what it can.
func (c *Client) refusals(ctx context.Context, cl *Cluster) []health.Failure {
	archives, err := c.etcdArchives(ctx, cl, "")
	if err != nil {
		return nil
	}
	var out []health.Failure
	for _, a := range archives {
		r, err := etcd.ReadRefusal(ctx, a.store)
		if err == nil && r != nil && c.cfg.World.Now().Sub(r.At) < refusalTime {
			out = append(out, health.Failure{Kind: "Etcd", Name: a.name,
				Message: fmt.Sprintf("the restore of %s was asked for, and withdrawn at %s: %s", r.Backup, r.At.UTC().Format(time.RFC3339), r.Why),
				Remedy:  "nothing was changed; restore another back-up: " + a.list()})
		}
	}
	return out
}
