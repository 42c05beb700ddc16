package kops

import (
	"fmt"
	"slices"

	"kops.local/kops/internal/node/etcd"
)

// markForeign marks the backups that do not seem to be of this cluster, according to what its
// managers have recorded: once backups are recorded, all later ones are, too. Those from before the
// first recorded one were taken by kOps' manager.
func (a *etcdArchive) markForeign(all []EtcdBackup) {
	recorded := false
	for i := range all {
		b := &all[i]
		switch {
		case b.Damaged:
		case b.isRecorded:
			recorded = true
		case (etcd.Backup{Time: b.Time}).IsFromFuture(a.now()):
			b.Foreign = "its time is in the future, and this cluster's etcd-manager did not record it"
		case recorded:
			b.Foreign = "this cluster's etcd-manager did not record it, but recorded earlier ones" + a.otherMembers(b)
		}
	}
}

// otherMembers returns a problem if a backup is of a cluster with another number of members.
func (a *etcdArchive) otherMembers(b *EtcdBackup) string {
	if b.MemberCount == a.members {
		return ""
	}
	return fmt.Sprintf("; it was taken with %d members, and this cluster has %d", b.MemberCount, a.members)
}

// identify judges a backup without a record by the UID of its namespace kube-system, if recorded
// backups contain the UID of this cluster's namespace.
func (a *etcdArchive) identify(all []EtcdBackup, i int, uid string) {
	b := &all[i]
	if b.isRecorded || uid == "" || b.Foreign != "" && (etcd.Backup{Time: b.Time}).IsFromFuture(a.now()) {
		return
	}
	var own []string
	for _, o := range all {
		if o.facts != nil && o.facts.Cluster != "" {
			own = append(own, o.facts.Cluster)
		}
	}
	switch {
	case slices.Contains(own, uid):
		b.Foreign = ""
	case len(own) > 0:
		b.Foreign = fmt.Sprintf("it comes from another cluster: its namespace kube-system has the UID %s, not %s", uid, own[len(own)-1]) + a.otherMembers(b)
	}
}
