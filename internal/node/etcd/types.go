package etcd

import (
	"slices"
	"time"
)

// Spec is what an etcd cluster shall be: the object control/etcd-cluster-spec.
type Spec struct {
	// MemberCount is the wanted number of voting members; at least 1, sensibly odd.
	MemberCount int `json:"memberCount"`
	// EtcdVersion is the version to run, such as 3.6.12.
	EtcdVersion string `json:"etcdVersion"`
}

// quorum is how many of a number of voters make a majority.
func quorum(voters int) int { return voters/2 + 1 }

// Phase is how far a cluster has come.
type Phase string

const (
	// Forming: the founder starts etcd; no client may write, and the cluster may still be given up.
	Forming Phase = "forming"
	// Running: this is the cluster; only the restore of a back-up replaces it.
	Running Phase = "running"
)

// Record says which cluster is the one. It is the object .kops/cluster, written
// only on condition that it is what it was.
type Record struct {
	// Token names one life of the cluster; etcd calls it the cluster token.
	Token string `json:"token"`
	Phase Phase  `json:"phase"`
	// Founder is the peer whose etcd the cluster started as.
	Founder string `json:"founder"`
	// FounderMember is the founder's first member identifier; known when running.
	FounderMember string `json:"founderMember,omitempty"`
	// Version is what the founder started with.
	Version string `json:"etcdVersion"`
	// Backup is the back-up that the cluster was restored from; empty for one that began empty.
	Backup string `json:"backup,omitempty"`
	// Command is the key of the command that asked for the restore.
	Command string `json:"command,omitempty"`
	// Founded is when the cluster was begun, in seconds since 1970; back-ups before are not of it.
	Founded int64 `json:"founded,omitempty"`
	// Revision is the highest that the clusters of this store are known to have served. It is
	// stored here, and not on a disk, because it has to outlive all machines; and in the record,
	// because a deposed leader cannot restore an old record.
	Revision int64 `json:"revision,omitempty"`
}

// Command is a request, found in the store, to restore a back-up.
type Command struct {
	Key    string // of its object
	Time   time.Time
	Spec   Spec   // what the cluster shall be afterwards
	Backup string // name of the back-up
	// BackupVersion is the version of etcd that took the back-up.
	BackupVersion string
	// Unusable says why the command cannot be carried out; empty where nothing is known against it.
	Unusable string
}

// Refusal says why a request for a restore was withdrawn. It is the object .kops/refused,
// which the next request removes.
type Refusal struct {
	Command string    `json:"command"` // the key of its object, which is gone
	Backup  string    `json:"backup"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
}

// FounderSeat is the seat of a cluster's first member, whose identifier is not
// known before it runs. Every other seat is named by its member identifier.
const FounderSeat = "founder"

// State is what the disk of a peer holds, and how its etcd is run.
type State struct {
	// Token and Seat say which cluster's and which member's data are there; empty for none.
	Token string `json:"token,omitempty"`
	Seat  string `json:"seat,omitempty"`
	// Version names the etcd that is run.
	Version string `json:"etcdVersion,omitempty"`
	// Quarantined etcd listens for clients on the quarantine port only.
	Quarantined bool `json:"quarantined,omitempty"`
	// Stopped etcd is not run, though there are data.
	Stopped bool `json:"stopped,omitempty"`
	// Started says that etcd was started with the data at least once.
	Started bool `json:"started,omitempty"`
}

// Peer is a machine that can run one member: a manager and its disk.
type Peer struct {
	// ID is the peer's name, and its member's.
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

// Member is an entry of etcd's own list, and how that member fares.
type Member struct {
	ID       string // in hexadecimal, as etcd prints it
	Name     string // empty until the member has started once
	PeerURLs []string
	Learner  bool
	// Healthy says that the member answers, and knows a leader.
	Healthy bool
	Leader  bool
	// Version is what the member says it runs; empty unless healthy.
	Version string
	// Index is how far its log goes, and Revision the last that it has served.
	Index    uint64
	Revision int64
	// Errors are what it says is wrong with the cluster, such as that there is no space left.
	Errors []string
	// Size is the size of the database, InUse the part of it that holds data, and Quota its limit,
	// all in bytes; 0 if it does not say.
	Size, InUse, Quota int64
	// Alarms are those that were raised for it, such as NOSPACE.
	Alarms []string
	// Storage is the version that its data are written for, such as 3.6.0, and
	// Downgrade the one that it is allowed to go back to; empty where it does not say.
	Storage, Downgrade string
}

// Observed is all that a decision depends on.
type Observed struct {
	Now time.Time
	// Token is fresh and random, for a cluster that has to be founded.
	Token string

	// Spec is nil when the store has none.
	Spec *Spec
	// Created says that a cluster was once created (control/etcd-cluster-created).
	Created bool
	// Record is nil when there is none.
	Record *Record
	// Seats are the peers that shall be the members; nil where any may be.
	Seats []string
	// Commands are the restores asked for, oldest first.
	Commands []Command
	// Refused is the last request that was withdrawn; nil for none.
	Refused *Refusal
	// Failing says that the last decision was another than a back-up, and failed.
	Failing bool

	// BackupAfter asks for a back-up that is younger than this; nil for none.
	BackupAfter *time.Time
	// Request is the current maintenance request, Answer the last answer to any request, and
	// Drilled the result of this request's drill; nil for none.
	Request *Request
	Answer  *Answer
	Drilled *Drilled
	// Peers are the peers that follow the leader, itself included.
	Peers []Peer
	// Members is etcd's list of members, read from a majority; nil when etcd has none.
	Members []Member
	// LastBackup is when the youngest back-up of this cluster was taken, in whole
	// seconds, as its name says: by the clock of who took it, or later.
	LastBackup time.Time
	// BackupSeen is when the leader first knew of that one, by its own clock.
	BackupSeen time.Time
	// BackupEmpty says that the youngest back-up is known to hold no keys.
	BackupEmpty bool
}

// Policy holds the waiting times.
type Policy struct {
	// Replace is how long after it was last seen well a member is given up for lost.
	Replace time.Duration
	// Gather is how long after its founding a cluster stays closed to clients though
	// it has a majority, because the other peers are about to join it: in quarantine
	// etcd takes one after the other at once, and later each only after seconds.
	Gather time.Duration
	// Nudge is how long a new member may take to answer before its etcd is started
	// again, once.
	Nudge time.Duration
	// CatchUp is how long a new member may take to copy the data of the others.
	CatchUp time.Duration
	// Backup is the time between two back-ups.
	Backup time.Duration
	// Early is the age at which a cluster that began empty is first backed up, and at which a
	// backup without keys is followed by one with keys.
	Early time.Duration
	// Fresh is how old a back-up may be for the removal of a member or a change of version.
	Fresh time.Duration
}

// DefaultPolicy replaces a member after a minute and takes a back-up every
// quarter of an hour, as kOps' manager does.
func DefaultPolicy() Policy {
	return Policy{Replace: time.Minute, Gather: 20 * time.Second, Nudge: 2 * time.Second, CatchUp: 15 * time.Minute, Backup: 15 * time.Minute, Early: time.Minute, Fresh: 5 * time.Minute}
}

// Memory is what Step remembers from one time to the next: since when something
// has been missing. A new leader starts with an empty one, and so waits longer.
type Memory struct {
	Missing map[string]time.Time
	// Nudged are the new members whose etcd was started again.
	Nudged map[string]bool
}

// sorted returns the peers by their names.
func sorted(peers []Peer) []Peer {
	out := slices.Clone(peers)
	slices.SortFunc(out, func(a, b Peer) int { return compare(a.ID, b.ID) })
	return out
}
