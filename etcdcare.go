package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/ops/health"
)

// EtcdStatus is the last reported status of an etcd cluster.
type EtcdStatus struct {
	// Etcd is the cluster's name in the spec.
	Etcd string `json:"etcd"`
	// ReportedAt is the time of the report. Old means that the report is out of date.
	ReportedAt time.Time `json:"told,omitzero"`
	Old        bool      `json:"old,omitempty"`
	// Leader is the peer with the leading manager, Wanted the desired number of members.
	Leader string `json:"leader,omitempty"`
	Wanted int    `json:"wanted"`
	// Waiting is what prevents the desired state.
	Waiting string       `json:"waiting,omitempty"`
	Members []EtcdMember `json:"members"`
}

// EtcdMember is a member of an etcd cluster. Sizes are in bytes.
type EtcdMember struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Healthy bool   `json:"healthy"`
	Leads   bool   `json:"leads,omitempty"`
	// Learner means that it has no vote yet.
	Learner     bool   `json:"learner,omitempty"`
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Size is the size of the database, InUse the part that holds data, and Quota the maximum size.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// Alarms are NOSPACE or CORRUPT.
	Alarms []string `json:"alarms,omitempty"`
}

// Full returns the fraction of the quota that the member's database uses.
func (m EtcdMember) Full() float64 { return float64(m.Size) / float64(max(m.Quota, 1)) }

// EtcdCare is the result of a maintenance task on an etcd cluster.
type EtcdCare struct {
	Etcd string `json:"etcd"`
	// Defragmented are the members whose databases were defragmented, in this order; sizes in bytes.
	Defragmented []EtcdDefragmented `json:"defragmented,omitempty"`
	// Disarmed lists the alarms that were cleared, such as "NOSPACE of etcd-a".
	Disarmed []string   `json:"disarmed,omitempty"`
	Drill    *EtcdDrill `json:"drill,omitempty"`
}

// EtcdDefragmented is the result of defragmenting a member's database, in bytes.
type EtcdDefragmented struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// EtcdDrill is the result of restoring a backup beside its cluster.
type EtcdDrill struct {
	Backup EtcdBackup `json:"backup"`
	// Age is the time since the backup, in nanoseconds.
	Age time.Duration `json:"age"`
	// Took is how long it took until etcd served the backup, in nanoseconds.
	Took time.Duration `json:"took"`
	// Revision and Keys describe the restored data, Now is the cluster's revision at that time.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	Now      int64 `json:"now"`
	// Same is the number of keys that are equal in both. The others were changed, created or deleted
	// since the backup, which its restore would undo.
	Same    int64 `json:"same"`
	Changed int64 `json:"changed"`
	Made    int64 `json:"made"`
	Deleted int64 `json:"deleted"`
	// Wrong are some of the keys whose values in the backup differ from the cluster's.
	Wrong []string `json:"wrong,omitempty"`
	// Decrypted are encrypted objects of the backup, one or two per key, that were
	// decrypted with the available keys.
	Decrypted []string `json:"decrypted,omitempty"`
}

// EtcdCareOptions configure how a task is awaited.
type EtcdCareOptions struct {
	// Wait is how long to wait until it is done.
	Wait time.Duration
	// On receives the events of the task.
	On On
}

// Status returns the state of an etcd cluster, or of all etcd clusters if no name is given, in the order of the spec.
func (e Etcd) Status(ctx context.Context, cluster, name string) ([]EtcdStatus, error) {
	cl, err := e.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	archives, err := e.c.etcdArchives(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	var out []EtcdStatus
	for _, a := range archives {
		s, err := etcd.ReadStatus(ctx, a.store)
		if err != nil {
			return nil, err
		}
		out = append(out, a.status(s, e.c.cfg.World.Now()))
	}
	return out, nil
}

func (a *etcdArchive) status(s *etcd.Status, now time.Time) EtcdStatus {
	out := EtcdStatus{Etcd: a.name, Members: []EtcdMember{}}
	if s == nil {
		return out
	}
	out.ReportedAt, out.Old, out.Leader, out.Wanted, out.Waiting = s.At, now.Sub(s.At) > 2*etcd.StatusLife, s.Leader, s.Wanted, s.Waiting
	for _, m := range s.Members {
		out.Members = append(out.Members, EtcdMember{Name: m.Name, ID: m.ID, Healthy: m.Healthy, Leads: m.Leader, Learner: m.Learner, EtcdVersion: m.Version,
			Size: m.Size, InUse: m.InUse, Quota: m.Quota, Alarms: m.Alarms})
	}
	return out
}

// Defragment returns unused space of an etcd cluster's databases to the disks, one member
// after the other and etcd's leader last. An error of class fault.Permanent is the reason why
// it could not, together with what was done before.
func (e Etcd) Defragment(ctx context.Context, cluster, name string, o EtcdCareOptions) (*EtcdCare, error) {
	return e.c.care(ctx, cluster, name, etcd.Request{Task: etcd.Defragment}, o)
}

// DisarmAlarms clears the alarms of an etcd cluster whose causes are gone; an error of class
// fault.Permanent names an alarm whose cause remains.
func (e Etcd) DisarmAlarms(ctx context.Context, cluster, name string, o EtcdCareOptions) (*EtcdCare, error) {
	return e.c.care(ctx, cluster, name, etcd.Request{Task: etcd.DisarmAlarms}, o)
}

// Drill has the latest backup of an etcd cluster restored beside it, on the machine of the
// managers' leader, compared with the cluster, and discarded. One or two encrypted objects per
// key are decrypted. A backup that cannot be restored, or read, is an error of
// class fault.Permanent.
func (e Etcd) Drill(ctx context.Context, cluster, name string, o EtcdCareOptions) (*EtcdCare, error) {
	a, cl, err := e.c.etcdArchive(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	if a.keys, err = e.c.keyring(ctx, cl); err != nil {
		return nil, err
	}
	all, err := a.backups(ctx)
	if err != nil {
		return nil, err
	}
	i := len(all) - 1
	for i >= 0 && all[i].Foreign != "" {
		i--
	}
	if i < 0 {
		return nil, fault.Wrap(fault.Gone, fmt.Errorf("etcd %s of cluster %s has no backup yet", name, cluster),
			fmt.Sprintf("take one with `kops etcd backup %s --etcd %s --yes`", cluster, name))
	}
	out, err := e.c.care(ctx, cluster, name, etcd.Request{Task: etcd.Drill, Backup: all[i].Name}, o)
	if err != nil || out.Drill == nil {
		return out, err
	}
	err = a.verify(ctx, all, i)
	out.Drill.Backup, out.Drill.Age, out.Drill.Decrypted = all[i], e.c.cfg.World.Now().Sub(all[i].Time), a.decrypted
	if err == nil {
		err = a.restoreRefusal(all[i], true)
	}
	return out, err
}

// care requests a task from the managers of an etcd cluster, and waits until it is done.
func (c *Client) care(ctx context.Context, cluster, name string, r etcd.Request, o EtcdCareOptions) (*EtcdCare, error) {
	progress := &reporter{cluster: cluster, on: o.On}
	a, _, err := c.etcdArchive(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	start := c.cfg.World.Now()
	r.At, r.ID = start.UTC(), fmt.Sprintf("%s-%d", r.Task, start.UnixNano())
	if err := etcd.Ask(ctx, a.store, r); err != nil {
		return nil, fmt.Errorf("etcd %s of cluster %s: %w", name, cluster, err)
	}
	for done := -1; ; {
		answer, err := etcd.ReadAnswer(ctx, a.store)
		if err != nil {
			return nil, err
		}
		if answer == nil || answer.Request != r.ID {
			answer = &etcd.Answer{}
		}
		out := newCare(name, answer)
		if n := len(answer.Members); n > done {
			done = n
			if err := progress.report(Event{Kind: EventCare, Care: out}); err != nil {
				return out, err
			}
		}
		switch {
		case answer.Done && answer.Problem != "":
			return out, fault.Wrap(fault.Permanent, fmt.Errorf("etcd %s of cluster %s: %s", name, cluster, answer.Problem), "see the state of its members: kops etcd status "+cluster)
		case answer.Done:
			return out, nil
		case c.cfg.World.Now().Sub(start) >= o.Wait:
			return out, fault.Wrap(fault.NotYet, fmt.Errorf("etcd-manager did not complete the request for etcd %s of cluster %s within %s", name, cluster, o.Wait),
				"the request is still pending; to withdraw it, remove "+etcd.RequestURL(a.store)+"; check the control plane: kops doctor "+cluster)
		}
		if err := c.cfg.World.Sleep(ctx, etcdPause); err != nil {
			return out, fault.Wrap(fault.NotYet, err, "the request is still pending; to withdraw it, remove "+etcd.RequestURL(a.store))
		}
	}
}

func newCare(name string, a *etcd.Answer) *EtcdCare {
	out := &EtcdCare{Etcd: name, Disarmed: a.Disarmed}
	for _, m := range a.Members {
		out.Defragmented = append(out.Defragmented, EtcdDefragmented(m))
	}
	if d := a.Drill; d != nil && d.Problem == "" {
		out.Drill = &EtcdDrill{Took: d.Took, Revision: d.Revision, Keys: d.Keys, Now: d.Now,
			Same: d.Same, Changed: d.Changed, Made: d.Made, Deleted: d.Deleted, Wrong: d.Wrong}
	}
	return out
}

// roomy is the fraction of its quota up to which a database has room; from crammed on, that is a
// failure of the cluster.
const roomy, crammed = 0.8, 0.95

// etcdTrouble reports alarms of etcd, and databases that have reached a fraction of their
// quotas. Statuses that cannot be read are skipped: a check reports what it can.
func (c *Client) etcdTrouble(ctx context.Context, cl *Cluster, share float64) []health.Failure {
	archives, err := c.etcdArchives(ctx, cl, "")
	if err != nil {
		return nil
	}
	var out []health.Failure
	for _, a := range archives {
		status, err := etcd.ReadStatus(ctx, a.store)
		if err != nil {
			continue
		}
		if s := a.status(status, c.cfg.World.Now()); !s.Old {
			out = append(out, a.trouble(s, share)...)
		}
	}
	return out
}

func (a *etcdArchive) trouble(s EtcdStatus, share float64) []health.Failure {
	var out []health.Failure
	of := func(m EtcdMember, message, remedy string) {
		out = append(out, health.Failure{Kind: "Etcd", Name: a.name, Message: m.Name + ": " + message, Remedy: remedy})
	}
	command := func(verb string) string {
		return fmt.Sprintf("kops etcd %s %s --etcd %s --yes", verb, a.cluster, a.name)
	}
	for _, m := range s.Members {
		switch {
		case slices.Contains(m.Alarms, etcd.NoSpace):
			of(m, "alarm NOSPACE: its database is full, and etcd rejects writes", command("defrag")+", then "+command("alarm disarm"))
		case slices.Contains(m.Alarms, etcd.Corrupt):
			of(m, "alarm CORRUPT: its data differ from the other members' data", "empty its disk, so that it copies their data, then "+command("alarm disarm")+"; or restore a backup")
		case len(m.Alarms) > 0:
			of(m, "alarm "+strings.Join(m.Alarms, ", "), command("alarm disarm"))
		case m.Full() >= share:
			of(m, fmt.Sprintf("its database uses %.0f%% of its quota of %d MiB, and %d MiB hold data; etcd rejects writes when the quota is full", 100*m.Full(), m.Quota>>20, m.InUse>>20),
				command("defrag")+", or find the data that fills it")
		}
	}
	return out
}
