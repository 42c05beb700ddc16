package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/clusterstore"
	"kops.local/kops/internal/diag"
	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/store"
)

// LatestBackup stands for the youngest back-up of an etcd cluster.
const LatestBackup = "latest"

const (
	// metaReaders is how many descriptions of back-ups are read at once.
	metaReaders = 16
	// etcdPause is how often it is looked whether a back-up is there, or restored.
	etcdPause = 500 * time.Millisecond
)

// EtcdBackup is one whole back-up of an etcd cluster.
type EtcdBackup struct {
	// Etcd is the cluster's name in the spec, such as main or events.
	Etcd string    `json:"etcd"`
	Name string    `json:"name"`
	Time time.Time `json:"time"`
	// Size is that of the compressed snapshot, in bytes.
	Size int64 `json:"size"`
	// EtcdVersion took the back-up; MemberCount was wanted at the time.
	EtcdVersion string `json:"etcdVersion"`
	MemberCount int    `json:"memberCount"`
	// Damaged says that what the back-up is of cannot be read, so that it cannot be restored.
	Damaged bool `json:"damaged,omitempty"`
}

// EtcdRestore is what the restore of a back-up means.
type EtcdRestore struct {
	Backup EtcdBackup `json:"backup"`
	// Age is the time since the back-up, whose changes the restore undoes, in nanoseconds.
	Age time.Duration `json:"age"`
	// Younger counts the back-ups that are younger than this one.
	Younger int `json:"younger"`
	// Pending are the back-ups that were asked for before, and are not restored yet.
	Pending []string `json:"pending,omitempty"`
	// Requested says that the managers were asked to restore it, and Restored that they have done so.
	Requested bool `json:"requested"`
	Restored  bool `json:"restored"`
}

// RestoreEtcdOptions say what RestoreEtcd does.
type RestoreEtcdOptions struct {
	// Apply asks for the restore; otherwise it is only said what it means.
	Apply bool
	// Wait is how long to wait until it is carried out; 0: not at all.
	Wait time.Duration
	// Planned is called before anything is done; an error stops the restore. May be nil.
	Planned func(*EtcdRestore) error
	// Awaited is called before the wait, when nothing can stop the restore any more. May be nil.
	Awaited func()
}

// EtcdBackups lists the back-ups of an etcd cluster, or of all when none is
// named, in the order of the spec and oldest first. One that is still being
// written is left out.
func (c *Client) EtcdBackups(ctx context.Context, cluster, name string) ([]EtcdBackup, error) {
	cl, err := c.Cluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	archives, err := c.etcdArchives(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	var out []EtcdBackup
	for _, a := range archives {
		list, err := a.backups(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// BackUpEtcd asks the managers of an etcd cluster for a back-up and returns it
// when it is there, or an error of class fault.NotYet when that takes longer than wait.
func (c *Client) BackUpEtcd(ctx context.Context, cluster, name string, wait time.Duration) (*EtcdBackup, error) {
	a, _, err := c.etcdArchive(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	before, err := a.complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := etcd.RequestBackup(ctx, a.store); err != nil {
		return nil, err
	}
	for start := c.cfg.Now(); ; {
		now, err := a.complete(ctx)
		if err != nil {
			return nil, err
		}
		if n := len(now); n > 0 && (len(before) == 0 || now[n-1].Name > before[len(before)-1].Name) {
			made, err := a.describe(ctx, now[n-1])
			return &made, err
		}
		if c.cfg.Now().Sub(start) >= wait {
			return nil, fault.Wrap(fault.NotYet, fmt.Errorf("etcd %s of cluster %s took no back-up within %s", name, cluster, wait),
				"it is taken when its managers run and a majority of its members is well; see `kops validate cluster "+cluster+"`")
		}
		if err := c.cfg.Sleep(ctx, etcdPause); err != nil {
			return nil, err
		}
	}
}

// RestoreEtcd says what the restore of a back-up means and, with Apply, asks the
// managers of the etcd cluster to begin it anew from there, which they do when they
// look into their store next. With Wait it returns when they have done so; where that
// takes longer the error is of class fault.NotYet, and what was asked for stands. A name that is not that of a back-up is an error of
// class fault.Gone; LatestBackup stands for the youngest that is not damaged.
func (c *Client) RestoreEtcd(ctx context.Context, cluster, name, backup string, o RestoreEtcdOptions) (*EtcdRestore, error) {
	if !o.Apply {
		r, _, _, err := c.planRestore(ctx, cluster, name, backup, o)
		return r, err
	}
	var r *EtcdRestore
	var key string
	var from *etcdArchive
	err := c.leased(ctx, cluster, func(ctx context.Context, lease *clusterstore.Lease) (err error) {
		var a *etcdArchive
		var cl *Cluster
		if r, a, cl, err = c.planRestore(ctx, cluster, name, backup, o); err != nil {
			return err
		}
		if err := lease.Check(ctx); err != nil {
			return err
		}
		if key, err = etcd.RequestRestore(ctx, a.store, r.Backup.Name, c.cfg.Now()); err != nil {
			return err
		}
		r.Requested, from = true, a
		_, err = c.store.Append(ctx, lease, cl.Contents, clusterstore.Revision{Result: "done",
			Message: fmt.Sprintf("asked for the restore of etcd %s from its back-up %s", name, r.Backup.Name)})
		return err
	})
	if err != nil || o.Wait <= 0 {
		return r, err
	}
	if o.Awaited != nil {
		o.Awaited()
	}
	err = c.awaitRestore(ctx, from, key, o.Wait)
	r.Restored = err == nil
	return r, err
}

// awaitRestore waits until the managers have carried out a command, which they then remove.
func (c *Client) awaitRestore(ctx context.Context, a *etcdArchive, key string, wait time.Duration) error {
	const stands = "the request stands, and is carried out whether or not anybody waits"
	for start := c.cfg.Now(); ; {
		control, err := etcd.ReadControl(ctx, a.store)
		if err != nil {
			return fault.Wrap(fault.Of(err), fmt.Errorf("see whether etcd %s is restored: %w", a.name, err), stands)
		}
		i := slices.IndexFunc(control.Commands, func(x etcd.Command) bool { return x.Key == key })
		switch {
		case i < 0:
			return nil
		case control.Commands[i].Unusable != "":
			return fault.Wrap(fault.Permanent, fmt.Errorf("etcd %s cannot be restored: %s", a.name, control.Commands[i].Unusable),
				"restore another back-up; "+a.list())
		case c.cfg.Now().Sub(start) >= wait:
			return fault.Wrap(fault.NotYet, fmt.Errorf("etcd %s of cluster %s was not restored within %s", a.name, a.cluster, wait),
				stands+": "+store.URL(a.store, key)+"; see whether the control plane runs: kops doctor "+a.cluster)
		}
		if err := c.cfg.Sleep(ctx, etcdPause); err != nil {
			return fault.Wrap(fault.NotYet, err, stands)
		}
	}
}

// planRestore finds a back-up and says what its restore means.
func (c *Client) planRestore(ctx context.Context, cluster, name, backup string, o RestoreEtcdOptions) (*EtcdRestore, *etcdArchive, *Cluster, error) {
	a, cl, err := c.etcdArchive(ctx, cluster, name)
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := a.backups(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	i, err := a.find(all, backup)
	if err != nil {
		return nil, nil, nil, err
	}
	r := &EtcdRestore{Backup: all[i], Age: c.cfg.Now().Sub(all[i].Time), Younger: len(all) - i - 1}
	control, err := etcd.ReadControl(ctx, a.store)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, command := range control.Commands {
		r.Pending = append(r.Pending, command.Backup)
	}
	if o.Planned != nil {
		err = o.Planned(r)
	}
	return r, a, cl, err
}

// etcdArchive is the store of the back-ups of one etcd cluster.
type etcdArchive struct {
	cluster, name string
	store         store.Store
}

// etcdArchive opens the store of one etcd cluster's back-ups.
func (c *Client) etcdArchive(ctx context.Context, cluster, name string) (*etcdArchive, *Cluster, error) {
	cl, err := c.Cluster(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		return nil, nil, fmt.Errorf("name the etcd cluster: %s", strings.Join(etcdNames(cl.Spec), " or "))
	}
	all, err := c.etcdArchives(ctx, cl, name)
	if err != nil {
		return nil, nil, err
	}
	return &all[0], cl, nil
}

// etcdArchives opens the store of the back-ups of an etcd cluster, or of each when none is named.
func (c *Client) etcdArchives(ctx context.Context, cl *Cluster, name string) ([]etcdArchive, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.Contents)
	if err != nil {
		return nil, err
	}
	var out []etcdArchive
	for _, e := range cl.Spec.Spec.EtcdClusters {
		if name != "" && e.Name != name {
			continue
		}
		url := f.Base.URL + "/backups/etcd/" + e.Name
		if e.Backups != nil && e.Backups.BackupStore != "" {
			url = strings.TrimSuffix(e.Backups.BackupStore, "/")
		}
		a := etcdArchive{cluster: cl.Spec.Name, name: e.Name}
		if rest, ok := strings.CutPrefix(url, f.Base.URL+"/"); ok && f.Base.Store != nil {
			a.store = store.Sub(f.Base.Store, rest)
		} else if a.store, err = c.cfg.Backends.Open(ctx, url); err != nil {
			return nil, fmt.Errorf("open the back-ups of etcd %s: %w", e.Name, err)
		}
		out = append(out, a)
	}
	if len(out) == 0 && name != "" {
		return nil, noEtcd(cl.Spec, name)
	}
	return out, nil
}

func etcdNames(c *api.Cluster) []string {
	var out []string
	for _, e := range c.Spec.EtcdClusters {
		out = append(out, e.Name)
	}
	return out
}

func noEtcd(c *api.Cluster, name string) error {
	known := etcdNames(c)
	if near := diag.Nearest(name, known); near != "" {
		return fault.New(fault.Gone, "cluster %s has no etcd cluster %q; did you mean %q?", c.Name, name, near)
	}
	return fault.New(fault.Gone, "cluster %s has no etcd cluster %q; it has %s", c.Name, name, strings.Join(known, ", "))
}

// complete lists the whole back-ups, oldest first.
func (a *etcdArchive) complete(ctx context.Context) ([]etcd.Backup, error) {
	all, err := etcd.Backups(ctx, a.store)
	return slices.DeleteFunc(all, func(b etcd.Backup) bool { return !b.Complete }), err
}

// describe reads what a back-up is of.
func (a *etcdArchive) describe(ctx context.Context, b etcd.Backup) (EtcdBackup, error) {
	m, err := etcd.ReadMeta(ctx, a.store, b.Name)
	return EtcdBackup{Etcd: a.name, Name: b.Name, Time: b.Time, Size: b.Size, EtcdVersion: m.EtcdVersion, MemberCount: m.Spec.MemberCount}, err
}

// backups describes the whole back-ups, oldest first. One that is removed meanwhile is left out.
func (a *etcdArchive) backups(ctx context.Context) ([]EtcdBackup, error) {
	list, err := a.complete(ctx)
	if err != nil {
		return nil, err
	}
	described, errs := make([]EtcdBackup, len(list)), make([]error, len(list))
	var readers sync.WaitGroup
	turn := make(chan struct{}, metaReaders)
	for i, b := range list {
		turn <- struct{}{}
		readers.Go(func() {
			defer func() { <-turn }()
			described[i], errs[i] = a.describe(ctx, b)
		})
	}
	readers.Wait()
	var out []EtcdBackup
	for i, err := range errs {
		switch {
		case errors.Is(err, etcd.ErrDamaged):
			described[i].Damaged = true
			out = append(out, described[i])
		case err == nil:
			out = append(out, described[i])
		case !fault.Is(err, fault.Gone):
			return nil, err
		}
	}
	return out, nil
}

// list says how the back-ups are listed.
func (a *etcdArchive) list() string {
	return fmt.Sprintf("list them with `kops etcd list %s --etcd %s`", a.cluster, a.name)
}

// find returns the place of a back-up in a list; of a damaged one it is an error.
func (a *etcdArchive) find(all []EtcdBackup, backup string) (int, error) {
	remedy := a.list()
	var known []string
	latest := -1
	for i, b := range all {
		switch {
		case b.Name == backup && b.Damaged:
			return 0, fault.Wrap(fault.Permanent, fmt.Errorf("the back-up %s of etcd %s is %w", backup, a.name, etcd.ErrDamaged), "restore another; "+remedy)
		case b.Name == backup:
			return i, nil
		case !b.Damaged:
			latest = i
		}
		known = append(known, b.Name)
	}
	if len(all) == 0 {
		return 0, fault.New(fault.Gone, "etcd %s of cluster %s has no back-up yet", a.name, a.cluster)
	}
	if backup == LatestBackup && latest >= 0 {
		return latest, nil
	}
	if near := diag.Nearest(backup, known); near != "" {
		remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
	}
	return 0, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no back-up %q", a.name, a.cluster, backup), remedy)
}
