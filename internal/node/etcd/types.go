package etcd

import (
	"slices"
	"time"
)

// Spec is the specification of an etcd cluster: the object control/etcd-cluster-spec.
type Spec struct {
	// MemberCount is the wanted number of voting members; at least 1, and preferably odd.
	MemberCount int `json:"memberCount"`
	// EtcdVersion is the version to run, such as 3.6.12.
	EtcdVersion string `json:"etcdVersion"`
}

// quorum returns how many of a number of voters make a majority.
func quorum(voters int) int { return voters/2 + 1 }

// Phase is the phase of a cluster.
type Phase string

const (
	// Forming means that the founder starts etcd; no client may write, and the cluster may still be given up.
	Forming Phase = "forming"
	// Running means that this is the valid cluster; only the restore of a backup replaces it.
	Running Phase = "running"
)

// Record defines which cluster is valid. It is the object .kops/cluster, which is
// replaced only if it is unchanged.
type Record struct {
	// Token identifies one life of the cluster; etcd calls it the cluster token.
	Token string `json:"token"`
	Phase Phase  `json:"phase"`
	// Founder is the peer whose etcd started the cluster.
	Founder string `json:"founder"`
	// FounderMember is the founder's first member ID; known once the cluster is running.
	FounderMember string `json:"founderMember,omitempty"`
	// Version is the version that the founder started with.
	Version string `json:"etcdVersion"`
	// Backup is the backup that the cluster was restored from; empty if it began empty.
	Backup string `json:"backup,omitempty"`
	// Command is the key of the command that requested the restore.
	Command string `json:"command,omitempty"`
	// Founded is when the cluster was begun, in seconds since 1970; earlier backups are not of this cluster.
	Founded int64 `json:"founded,omitempty"`
	// Revision is the highest revision that the clusters of this store are known to have served.
	// It is stored here, and not on a disk, because it has to outlive all machines; and in the
	// record, because a deposed leader cannot restore an old record.
	Revision int64 `json:"revision,omitempty"`
}

// Command is a request, found in the store, to restore a backup.
type Command struct {
	Key    string // of its object
	Time   time.Time
	Spec   Spec   // the cluster's spec afterwards
	Backup string // name of the backup
	// BackupVersion is the version of etcd from which the backup was taken.
	BackupVersion string
	// Unusable is why the command cannot be carried out; empty if no reason is known.
	Unusable string
}

// Refusal is why a request for a restore was withdrawn. It is the object .kops/refused,
// which the next request removes.
type Refusal struct {
	Command string    `json:"command"` // the key of its object, which is removed
	Backup  string    `json:"backup"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
}

// FounderSeat is the seat of a cluster's first member, whose ID is not known
// before it runs. Every other seat is named by its member ID.
const FounderSeat = "founder"

// State is the content of a peer's disk, and how its etcd is run.
type State struct {
	// Token and Seat identify the cluster and the member whose data are on the disk; empty for none.
	Token string `json:"token,omitempty"`
	Seat  string `json:"seat,omitempty"`
	// Version is the version of etcd that is run.
	Version string `json:"etcdVersion,omitempty"`
	// Quarantined is set if etcd listens for clients only on the quarantine port.
	Quarantined bool `json:"quarantined,omitempty"`
	// Stopped is set if etcd is not run although there are data.
	Stopped bool `json:"stopped,omitempty"`
	// Started is set if etcd was started with the data at least once.
	Started bool `json:"started,omitempty"`
}

// Peer is a machine that can run one member: a manager and its disk.
type Peer struct {
	// ID is the name of the peer and of its member.
	ID string `json:"id"`
	// Endpoint is host:port of the manager.
	Endpoint string `json:"endpoint"`
	// PeerURLs, ClientURLs and QuarantineURLs are the URLs of its etcd.
	PeerURLs       []string `json:"peerURLs"`
	ClientURLs     []string `json:"clientURLs"`
	QuarantineURLs []string `json:"quarantineURLs"`
	// Versions are the versions of etcd that it can run.
	Versions []string `json:"versions"`
	State    State    `json:"state"`
}

// Member is an entry of etcd's own list of members, and that member's state.
type Member struct {
	ID       string // in hexadecimal, as etcd prints it
	Name     string // empty until the member has started once
	PeerURLs []string
	Learner  bool
	// Healthy is set if the member answers and knows a leader.
	Healthy bool
	Leader  bool
	// Version is the version that the member reports; empty unless healthy.
	Version string
	// Index is the end of its log, and Revision the last revision that it has served.
	Index    uint64
	Revision int64
	// Errors are the errors that it reports about the cluster, such as that there is no space left.
	Errors []string
	// Size is the size of the database, InUse the part of it that contains data, and Quota its
	// limit, all in bytes; 0 if not reported.
	Size, InUse, Quota int64
	// Alarms are the alarms raised for it, such as NOSPACE.
	Alarms []string
	// Storage is the version that its data are written for, such as 3.6.0, and
	// Downgrade the version that it may be downgraded to; empty if not reported.
	Storage, Downgrade string
}

// Observed is everything that a decision depends on.
type Observed struct {
	Now time.Time
	// Token is fresh and random, for a cluster that has to be founded.
	Token string

	// Spec is nil if the store has none.
	Spec *Spec
	// Created is set if a cluster was once created (control/etcd-cluster-created).
	Created bool
	// Record is nil if there is none.
	Record *Record
	// Seats are the peers that should be members; nil if any may be.
	Seats []string
	// Commands are the requested restores, oldest first.
	Commands []Command
	// Refused is the last request that was withdrawn; nil for none.
	Refused *Refusal
	// Failing is set if the last decision, other than for a backup, failed.
	Failing bool

	// BackupAfter requests a backup that is newer than this; nil for none.
	BackupAfter *time.Time
	// Request is the current maintenance request, Answer the last answer to any request, and
	// DrillResult the result of this request's drill; nil for none.
	Request     *Request
	Answer      *Answer
	DrillResult *DrillResult
	// Peers are the peers that follow the leader, including the leader itself.
	Peers []Peer
	// Members is etcd's list of members, read from a majority; nil if there is none.
	Members []Member
	// LastBackup is when the latest backup of this cluster was taken, in whole
	// seconds, according to its name: by the clock of the manager that took it, or
	// later.
	LastBackup time.Time
	// BackupSeen is when the leader first knew of that backup, by its own clock.
	BackupSeen time.Time
	// BackupEmpty is set if the latest backup is known to have no keys.
	BackupEmpty bool
}

// Policy holds the waiting times.
type Policy struct {
	// Replace is how long after it was last seen healthy a member is considered lost.
	Replace time.Duration
	// Gather is how long after its founding a cluster stays closed to clients although
	// it has a majority, because the other peers are about to join it: in quarantine
	// etcd accepts them one after another at once, and later only with seconds in
	// between.
	Gather time.Duration
	// Nudge is how long a new member may take to answer before its etcd is restarted,
	// once.
	Nudge time.Duration
	// CatchUp is how long a new member may take to copy the data from the other members.
	CatchUp time.Duration
	// Backup is the time between two backups.
	Backup time.Duration
	// Early is the age at which a cluster that began empty is first backed up, and at which a
	// backup without keys is followed by one with keys.
	Early time.Duration
	// Fresh is how old a backup may be when a member is removed or the version is changed.
	Fresh time.Duration
}

// DefaultPolicy replaces a member after a minute and takes a backup every quarter
// of an hour, as kOps' manager does.
func DefaultPolicy() Policy {
	return Policy{Replace: time.Minute, Gather: 20 * time.Second, Nudge: 2 * time.Second, CatchUp: 15 * time.Minute, Backup: 15 * time.Minute, Early: time.Minute, Fresh: 5 * time.Minute}
}

// Memory is what Step remembers between calls: since when something has been
// missing. A new leader starts with an empty one, and so waits longer.
type Memory struct {
	Missing map[string]time.Time
	// Nudged are the new members whose etcd was restarted.
	Nudged map[string]bool
}

// sorted returns the peers by name.
func sorted(peers []Peer) []Peer {
	out := slices.Clone(peers)
	slices.SortFunc(out, func(a, b Peer) int { return compare(a.ID, b.ID) })
	return out
}
