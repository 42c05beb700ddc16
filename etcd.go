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
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// LatestBackup is the name for the most recent backup of an etcd cluster.
const LatestBackup = "latest"

const (
	// metaReaders is how many backup descriptions are read concurrently.
	metaReaders = 16
	// etcdPause is the interval of polling whether a backup exists, or is restored.
	etcdPause = 500 * time.Millisecond
)

// EtcdBackup is one complete backup of an etcd cluster.
type EtcdBackup struct {
	// Etcd is the name of the etcd cluster in the spec, such as main or events.
	Etcd string    `json:"etcd"`
	Name string    `json:"name"`
	Time time.Time `json:"time"`
	// Size is the size of the compressed snapshot, in bytes.
	Size int64 `json:"size"`
	// EtcdVersion is the version that took the backup; MemberCount is the desired number of members at that time.
	EtcdVersion string `json:"etcdVersion"`
	MemberCount int    `json:"memberCount"`
	// Damaged means that the backup cannot be restored, and Problem why.
	Damaged bool   `json:"damaged,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Empty means that the backup is known to contain no keys, like the first backup of a new cluster.
	Empty bool `json:"empty,omitempty"`
	// Foreign is the reason why the backup does not seem to be of this cluster; it is restored
	// only with RestoreEtcdOptions.Foreign.
	Foreign string `json:"foreign,omitempty"`
	// Encryption reports whether API servers can read the encrypted objects in it.
	Encryption EtcdEncryption `json:"encryption"`

	isRecorded bool        // by a manager of this cluster
	facts      *etcd.Facts // the recorded facts; nil if unknown
}

// EtcdRestore describes the consequences of restoring a backup.
type EtcdRestore struct {
	Backup EtcdBackup `json:"backup"`
	// Age is the time since the backup, in nanoseconds; the restore undoes all changes since then.
	Age time.Duration `json:"age"`
	// Younger is the number of more recent backups.
	Younger int `json:"younger"`
	// Pending are the backups whose restore was requested before and has not been carried out yet.
	Pending []string `json:"pending,omitempty"`
	// Skipped are the more recent backups that LatestBackup does not select.
	Skipped []SkippedBackup `json:"skipped,omitempty"`
	// Requested means that the managers were asked to restore it, and Restored that they have done so.
	Requested bool `json:"requested"`
	Restored  bool `json:"restored"`
	// Serving means that an API server answers after the restore; NotServing is the reason if none does yet.
	Serving    bool   `json:"serving,omitempty"`
	NotServing string `json:"notServing,omitempty"`
	// PutBack are retired keys that API servers need again for reading: they are put back before
	// the restore, and control planes are restarted. Reencrypt is the command that rewrites everything
	// with a new key afterwards, so that they can be retired again.
	PutBack   []EtcdKey `json:"putBack,omitempty"`
	Reencrypt string    `json:"reencrypt,omitempty"`
	// Unconfirmed is the reason why it is not known whether the API servers have these keys.
	Unconfirmed string `json:"unconfirmed,omitempty"`
	// Notes list what else in the backup is out of date.
	Notes []string `json:"notes,omitempty"`
	// Restart are the instance groups whose API servers must be restarted manually after the
	// restore; on all others etcd's managers do so.
	Restart []string `json:"restart,omitempty"`
}

// SkippedBackup is a backup that is only restored if it is named.
type SkippedBackup struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// RestoreEtcdOptions configure a restore.
type RestoreEtcdOptions struct {
	ReachOptions
	// Foreign allows a backup that does not seem to be of this cluster.
	Foreign bool
	// Roll makes every machine apply the changes of an update, if retired keys must be put
	// back. It may be nil: then the restore waits until the machines have changed.
	Roll func(context.Context) error
	// Apply requests the restore; otherwise only its consequences are returned.
	Apply bool
	// Wait is how long to wait until it is carried out; 0 means not at all.
	Wait time.Duration
	// On receives the events of the restore, which can no longer be stopped once the call waits for it.
	On On
}

// Etcd operates on the etcd clusters of clusters.
type Etcd struct{ c *Client }

// Etcd returns the operations on etcd clusters.
func (c *Client) Etcd() Etcd { return Etcd{c} }

// Backups lists the backups of an etcd cluster, or of all etcd clusters if no name is given,
// in the order of the spec and oldest first. It leaves out a backup that is still being
// written.
func (e Etcd) Backups(ctx context.Context, cluster, name string) ([]EtcdBackup, error) {
	cl, err := e.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	archives, err := e.c.etcdArchives(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	var out []EtcdBackup
	keys, _ := e.c.keyring(ctx, cl) // without it, the readability of backups is unknown
	for _, a := range archives {
		a.keys = keys
		list, err := a.backups(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// BackUp requests a backup from the managers of an etcd cluster and returns it
// when it exists, or an error of class fault.NotYet if that takes longer than wait.
func (e Etcd) BackUp(ctx context.Context, cluster, name string, wait time.Duration) (*EtcdBackup, error) {
	a, cl, err := e.c.etcdArchive(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	a.keys, _ = e.c.keyring(ctx, cl) // without it, the readability of the backup is unknown
	before, err := a.completeBackups(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, b := range before {
		known[b.Name] = true
	}
	if err := etcd.RequestBackup(ctx, a.store, e.c.cfg.World.Now()); err != nil {
		return nil, err
	}
	for start := e.c.cfg.World.Now(); ; {
		now, err := a.completeBackups(ctx)
		if err != nil {
			return nil, err
		}
		now = slices.DeleteFunc(now, func(b etcd.Backup) bool { return known[b.Name] })
		if n := len(now); n > 0 {
			made, err := a.describe(ctx, now[n-1])
			return &made, err
		}
		if e.c.cfg.World.Now().Sub(start) >= wait {
			return nil, fault.Wrap(fault.NotYet, fmt.Errorf("etcd-manager took no backup of etcd %s of cluster %s within %s", name, cluster, wait),
				"it takes one when it runs and a majority of etcd's members is healthy; see `kops validate cluster "+cluster+"`")
		}
		if err := e.c.cfg.World.Sleep(ctx, etcdPause); err != nil {
			return nil, err
		}
	}
}

// etcdArchive is the store of the backups of one etcd cluster.
type etcdArchive struct {
	cluster, name string
	store         store.Store
	groups        []*api.InstanceGroup
	members       int // the number in the cluster's spec
	now           func() time.Time
	keys          *keyring // nil if not read
	// back are the retired keys that the most recently verified backup needs.
	back []encryption.Retired
	// decrypted identifies its objects that were decrypted.
	decrypted []string
}

// etcdArchive opens the store of one etcd cluster's backups.
func (c *Client) etcdArchive(ctx context.Context, cluster, name string) (*etcdArchive, *Cluster, error) {
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		return nil, nil, fmt.Errorf("name the etcd cluster: %s", diag.Or(etcdNames(cl.Spec)))
	}
	all, err := c.etcdArchives(ctx, cl, name)
	if err != nil {
		return nil, nil, err
	}
	return &all[0], cl, nil
}

// etcdArchives opens the store of the backups of the named etcd cluster, or of every one if name is empty.
func (c *Client) etcdArchives(ctx context.Context, cl *Cluster, name string) ([]etcdArchive, error) {
	f, err := c.ownedFolders(ctx, cl)
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
		a := etcdArchive{cluster: cl.Spec.Name, name: e.Name, groups: cl.Groups, members: len(e.EtcdMembers), now: c.cfg.World.Now}
		if rest, ok := strings.CutPrefix(url, f.Base.URL+"/"); ok && f.Base.Store != nil {
			a.store = store.Sub(f.Base.Store, rest)
		} else if a.store, err = c.world.Backends.Open(ctx, url); err != nil {
			return nil, fmt.Errorf("open the backups of etcd %s: %w", e.Name, err)
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

// completeBackups lists the complete backups, oldest first.
func (a *etcdArchive) completeBackups(ctx context.Context) ([]etcd.Backup, error) {
	all, err := etcd.Backups(ctx, a.store)
	return slices.DeleteFunc(all, func(b etcd.Backup) bool { return !b.Complete }), err
}

// describe reads the description of a backup, and checks whether it is damaged, as far as
// that is cheap.
func (a *etcdArchive) describe(ctx context.Context, b etcd.Backup) (EtcdBackup, error) {
	out := EtcdBackup{Etcd: a.name, Name: b.Name, Time: b.Time, Size: b.Size, isRecorded: b.Recorded, Encryption: EtcdEncryption{State: EtcdUnknown}}
	m, err := etcd.ReadMeta(ctx, a.store, b.Name)
	if err == nil {
		var facts *etcd.Facts
		out.EtcdVersion, out.MemberCount = m.EtcdVersion, m.Spec.MemberCount
		facts, err = backup.Inspect(ctx, a.store, b)
		out.facts, out.Empty = facts, facts != nil && facts.Keys == 0
		out.Encryption = a.keys.judgeRecorded(facts)
	}
	if errors.Is(err, etcd.ErrDamaged) {
		out.Damaged, out.Problem, err = true, err.Error(), nil
	}
	return out, err
}

// backups describes the complete backups, oldest first. A backup that is deleted meanwhile is omitted.
func (a *etcdArchive) backups(ctx context.Context) ([]EtcdBackup, error) {
	list, err := a.completeBackups(ctx)
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
		case err == nil:
			out = append(out, described[i])
		case !fault.Is(err, fault.Gone):
			return nil, err
		}
	}
	a.markForeign(out)
	return out, nil
}

// list returns advice on how to list the backups.
func (a *etcdArchive) list() string {
	return fmt.Sprintf("list them with `kops etcd list %s --etcd %s`", a.cluster, a.name)
}
