package kops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/unseal"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// refusalTime is how long Diagnose reports a refused restore.
const refusalTime = 24 * time.Hour

// apiTime is the minimum time limit for an API server to answer after a restore, and apiPause
// the interval of polling it.
const apiTime, apiPause = time.Minute, time.Second

// Restore returns the consequences of restoring a backup and, with Apply, asks etcd-manager
// for the restore, which it starts when it reads its store next. Restore first downloads and
// verifies the backup. If the backup is damaged, comes from another cluster, or API servers
// could not read it, the error is of class fault.Permanent, and nothing is requested. Restore
// first puts back retired keys that the backup needs. With Wait, it returns when the restore
// is done and the API server answers again, or has not answered for some time, or when the
// request is withdrawn, which is an error of class fault.Permanent. If the restore takes
// longer, the error is of class fault.NotYet, and the request stays pending. If no backup has
// the name, the error is of class fault.Gone; LatestBackup selects the newest intact backup
// of this cluster that holds keys.
func (e Etcd) Restore(ctx context.Context, cluster, name, from string, o RestoreEtcdOptions) (*EtcdRestore, error) {
	p := &restoring{c: e.c, progress: &reporter{cluster: cluster, on: o.On}, o: o, name: name, backup: from}
	if !o.Apply {
		return p.EtcdRestore, p.plan(ctx)
	}
	err := p.request(ctx)
	if err == nil && !p.Requested {
		if err = p.putBack(ctx); err == nil {
			err = p.request(ctx)
		}
	}
	if err != nil || o.Wait <= 0 {
		return p.EtcdRestore, err
	}
	if err := p.progress.report(Event{Kind: EventAwaiting}); err != nil {
		return p.EtcdRestore, err
	}
	start := e.c.cfg.World.Now()
	if err = e.c.awaitRestore(ctx, p.archive, p.EtcdRestore, p.key, o.Wait); err != nil {
		return p.EtcdRestore, err
	}
	p.Restored = true
	return p.EtcdRestore, p.awaitAPI(ctx, max(o.Wait-e.c.cfg.World.Now().Sub(start), apiTime))
}

// restoring is one call of Restore.
type restoring struct {
	*EtcdRestore // nil until planned
	c            *Client
	progress     *reporter
	o            RestoreEtcdOptions
	name, backup string

	archive *etcdArchive
	cl      *Cluster
	key     string // of the request
	// back are the retired keys that the backup needs, and ready means that the API servers have them.
	back  []encryption.Retired
	ready bool
}

// request requests the restore from the managers, unless keys must be put back first.
func (p *restoring) request(ctx context.Context) error {
	return p.c.withLease(ctx, p.progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		if err := p.plan(ctx); err != nil {
			return err
		}
		if len(p.back) > 0 && !p.ready {
			return nil
		}
		if err := lease.Check(ctx); err != nil {
			return err
		}
		if err := p.c.rewindRotation(ctx, p.progress.cluster); err != nil {
			return err
		}
		key, err := etcd.RequestRestore(ctx, p.archive.store, p.Backup.Name, p.c.cfg.World.Now())
		if err != nil {
			return err
		}
		p.key, p.Requested = key, true
		_, err = p.c.store.Append(ctx, lease, p.cl.stored(), clusterstore.Revision{Result: "done",
			Message: fmt.Sprintf("requested the restore of etcd %s from its backup %s", p.name, p.Backup.Name)})
		return err
	})
}

// awaitRestore waits until the managers have carried out a command, which they then
// remove, or have withdrawn it.
func (c *Client) awaitRestore(ctx context.Context, a *etcdArchive, r *EtcdRestore, key string, wait time.Duration) error {
	stands := "the request is pending until the restore is done; to withdraw it, remove " + store.URL(a.store, key)
	for start := c.cfg.World.Now(); ; {
		control, err := etcd.ReadControl(ctx, a.store)
		if err != nil {
			return fault.Wrap(fault.Of(err), fmt.Errorf("see whether etcd %s is restored: %w", a.name, err), stands)
		}
		refused := control.Refused != nil && control.Refused.Command == key
		switch {
		case refused:
			return fault.Wrap(fault.Permanent, fmt.Errorf("etcd %s is not restored: %s", a.name, control.Refused.Why),
				"nothing was changed, and the request is withdrawn; restore another backup: "+a.list())
		case !slices.ContainsFunc(control.Commands, func(x etcd.Command) bool { return x.Key == key }):
			if control.Record == nil || control.Record.Command != key { // kOps' manager has done it, and does not restart API servers
				r.Restart = a.apiServers(true)
			}
			return nil
		case c.cfg.World.Now().Sub(start) >= wait:
			return fault.Wrap(fault.NotYet, fmt.Errorf("etcd %s of cluster %s was not restored within %s", a.name, a.cluster, wait),
				stands+"; check the control plane: kops doctor "+a.cluster)
		}
		if err := c.cfg.World.Sleep(ctx, etcdPause); err != nil {
			return fault.Wrap(fault.NotYet, err, stands)
		}
	}
}

// awaitAPI waits until an API server is ready after the restore, and otherwise records the reason.
func (p *restoring) awaitAPI(ctx context.Context, most time.Duration) error {
	if p.name == "cilium" {
		return nil
	}
	k, err := p.c.checkup(ctx, &reporter{cluster: p.progress.cluster}, p.o.ReachOptions, time.Hour)
	if err != nil {
		p.NotServing = err.Error()
		return ctx.Err()
	}
	client, err := k.Kubernetes(ctx)
	if err != nil {
		p.NotServing = err.Error()
		return ctx.Err()
	}
	for start := p.c.cfg.World.Now(); ; {
		_, err := client.Path("/readyz").Timeout(5 * time.Second).DoRaw(ctx)
		if p.Serving, p.NotServing = err == nil, ""; err == nil {
			return nil
		}
		p.NotServing = fmt.Sprintf("no API server was ready within %s: %v", most, err)
		if p.c.cfg.World.Now().Sub(start) >= most {
			return nil
		}
		if err := p.c.cfg.World.Sleep(ctx, apiPause); err != nil {
			return err
		}
	}
}

// plan selects a backup, verifies it, and determines the consequences of its restore.
func (p *restoring) plan(ctx context.Context) error {
	a, cl, err := p.c.etcdArchive(ctx, p.progress.cluster, p.name)
	if err != nil {
		return err
	}
	if a.keys, err = p.c.keyring(ctx, cl); err != nil {
		return err
	}
	all, err := a.backups(ctx)
	if err != nil {
		return err
	}
	r := &EtcdRestore{Restart: a.apiServers(false)}
	var i int
	if p.backup == LatestBackup && len(all) > 0 {
		i, r.Skipped, err = a.latest(ctx, all, p.o.Foreign)
	} else if i, err = a.find(all, p.backup); err == nil {
		err = a.verify(ctx, all, i)
	}
	if err != nil {
		return err
	}
	b := all[i]
	if err := a.restoreRefusal(b, p.o.Foreign); err != nil {
		return err
	}
	r.Backup, r.Age, r.Younger = b, p.c.cfg.World.Now().Sub(b.Time), len(all)-i-1
	control, err := etcd.ReadControl(ctx, a.store)
	if err != nil {
		return err
	}
	for _, command := range control.Commands {
		r.Pending = append(r.Pending, command.Backup)
	}
	if r.Notes, err = p.c.restoreNotes(ctx, cl, b); err != nil {
		return err
	}
	for _, k := range a.back {
		r.PutBack = append(r.PutBack, EtcdKey(k.ID()))
		r.Reencrypt = "kops rotate encryption " + cl.Spec.Name + " --yes"
	}
	first := p.EtcdRestore == nil
	if !first { // determined since the first plan
		r.Unconfirmed = p.Unconfirmed
	}
	p.EtcdRestore, p.archive, p.cl, p.back = r, a, cl, a.back
	if !first {
		return nil
	}
	return p.progress.report(Event{Kind: EventRestore, Restore: r})
}

// apiServers lists the groups whose machines have an API server that uses the etcd
// cluster: those without etcd, or also those with it.
func (a *etcdArchive) apiServers(controlPlanes bool) []string {
	var out []string
	for _, g := range a.groups {
		if a.name != "cilium" && (g.Spec.Role == api.RoleAPIServer || controlPlanes && g.Spec.Role == api.RoleControlPlane) {
			out = append(out, g.Name)
		}
	}
	return out
}

// verify downloads the backup at an index of a list, and records its contents; for a damaged one it
// returns an error with etcd.ErrDamaged in its chain.
func (a *etcdArchive) verify(ctx context.Context, all []EtcdBackup, i int) error {
	b := &all[i]
	dir, err := os.MkdirTemp("", "kops-etcd-")
	if err != nil {
		return fmt.Errorf("verify the backup %s: %w", b.Name, err)
	}
	held, err := (&backup.Archive{Store: a.store, Scratch: dir}).Verify(ctx, b.Name)
	if err == nil {
		b.Empty = held.Keys == 0
		needs := unseal.Needs(held.Sealed, a.keys.all())
		b.Encryption, a.back = a.keys.judgeObjects(needs)
		a.decrypted = nil
		for _, n := range needs {
			for _, o := range n.Samples {
				if !n.Missing && !n.KMS() {
					a.decrypted = append(a.decrypted, o.Key)
				}
			}
		}
		a.identify(all, i, held.Cluster)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// latest returns the index of the most recent backup that is intact, of this cluster unless
// foreign ones are allowed, and contains keys, and the more recent ones. An empty backup is skipped
// because the user wants the previous data, and not an empty cluster.
func (a *etcdArchive) latest(ctx context.Context, all []EtcdBackup, foreign bool) (int, []SkippedBackup, error) {
	var skipped []SkippedBackup
	for i := len(all) - 1; i >= 0; i-- {
		b := &all[i]
		if !b.Damaged && !b.Empty {
			if err := a.verify(ctx, all, i); errors.Is(err, etcd.ErrDamaged) {
				b.Damaged, b.Problem = true, err.Error()
			} else if err != nil {
				return 0, nil, err
			}
		}
		switch {
		case b.Damaged:
			skipped = append(skipped, SkippedBackup{b.Name, b.Problem})
		case b.Foreign != "" && !foreign:
			skipped = append(skipped, SkippedBackup{b.Name, b.Foreign})
		case b.Empty:
			skipped = append(skipped, SkippedBackup{b.Name, "it holds no keys"})
		default:
			return i, skipped, nil
		}
	}
	return 0, nil, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no intact backup of its own that holds keys; the newest, %s, is refused: %s",
		a.name, a.cluster, skipped[0].Name, skipped[0].Why),
		fmt.Sprintf("take one with `kops etcd backup %s --etcd %s --yes`; to restore a backup without keys anyway, specify it: %s", a.cluster, a.name, a.list()))
}

// find returns the index of a backup in a list; for a damaged one it returns an error.
func (a *etcdArchive) find(all []EtcdBackup, name string) (int, error) {
	remedy := a.list()
	var known []string
	for i, b := range all {
		switch {
		case b.Name == name && b.Damaged:
			return 0, fault.Wrap(fault.Permanent, fmt.Errorf("the backup %s of etcd %s is %w, and cannot be restored: %s", name, a.name, etcd.ErrDamaged, b.Problem), "restore another; "+remedy)
		case b.Name == name:
			return i, nil
		}
		known = append(known, b.Name)
	}
	if len(all) == 0 {
		return 0, fault.New(fault.Gone, "etcd %s of cluster %s has no backup yet", a.name, a.cluster)
	}
	if near := diag.Nearest(name, known); near != "" {
		remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
	}
	return 0, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no backup %q", a.name, a.cluster, name), remedy)
}

// refusals returns the restores that etcd's managers have refused recently. Archives that cannot be
// read are skipped: a diagnosis reports what it can.
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
				Message: fmt.Sprintf("the requested restore of %s was withdrawn at %s: %s", r.Backup, r.At.UTC().Format(time.RFC3339), r.Why),
				Remedy:  "nothing was changed; restore another backup: " + a.list()})
		}
	}
	return out
}
