package etcd

import (
	"cmp"
	"fmt"
	"strings"
)

// Action is one thing the leader does. Doing it twice does no harm.
type Action interface {
	fmt.Stringer
	action()
}

// Node is the name and the URLs of a member, as given to a starting etcd.
type Node struct {
	Name string   `json:"name"`
	URLs []string `json:"urls"`
}

type (
	// SaveRecord replaces the record that was observed; it fails when another did so.
	SaveRecord struct{ Record Record }
	// MarkCreated writes the mark that forbids to create an empty cluster.
	MarkCreated struct{}
	// SaveSpec writes what the cluster shall be.
	SaveSpec struct{ Spec Spec }
	// FinishCommand removes a command that was carried out, or is not going to be.
	FinishCommand struct{ Key string }
	// SaveRefusal records why a command is withdrawn, for those who wait for it, and ForgetRefusal
	// that another restore has made the record obsolete.
	SaveRefusal   struct{ Refusal Refusal }
	ForgetRefusal struct{}

	// Run makes a peer run etcd as told.
	Run struct {
		Peer        string `json:"peer"`
		Token       string `json:"token"`
		Seat        string `json:"seat"`
		Version     string `json:"etcdVersion"`
		Quarantined bool   `json:"quarantined,omitempty"`
		// Fresh allows to begin new data: what a disk holds of another cluster or
		// another seat is put aside. Without it a peer that has not the data refuses.
		Fresh bool `json:"fresh,omitempty"`
		// Restart ends an etcd that is running, and starts it again.
		Restart bool `json:"restart,omitempty"`
		// Snapshot is how far etcd's log has to be in a snapshot of it before another
		// version begins there.
		Snapshot uint64 `json:"snapshot,omitempty"`
		// Initial are the members that fresh data begin with, the peer itself included.
		Initial []Node `json:"initial,omitempty"`
		// Backup is what a founder's fresh data are restored from; empty for none.
		Backup string `json:"backup,omitempty"`
		// Served is the highest revision that clients may have seen: fresh data from a
		// back-up begin above it.
		Served int64 `json:"served,omitempty"`
		// Restored says that the cluster replaced another: programs on the peer's machine that
		// have read the old one must restart.
		Restored bool `json:"restored,omitempty"`
	}
	// Stop makes a peer end its etcd, and keep the data.
	Stop struct {
		Peer string `json:"peer"`
	}

	// AddLearner gives a peer a seat in the cluster, without a vote.
	AddLearner struct {
		Peer string
		URLs []string
	}
	// Promote gives a learner its vote; etcd refuses until it has caught up.
	Promote struct{ Member, Peer string }
	// Remove takes a member out of the cluster.
	Remove struct{ Member, Peer, Why string }
	// SetURLs corrects where the other members reach one.
	SetURLs struct {
		Member, Peer string
		URLs         []string
	}
	// MoveLeader hands etcd's own leadership over, so that a restart costs no election.
	MoveLeader struct{ Member, Peer string }
	// AllowDowngrade tells etcd that its members will go back to a minor version, or
	// with none, that they will not after all.
	AllowDowngrade struct{ Version string }
	// TakeBackup puts a snapshot into the store, with what the cluster shall be.
	TakeBackup struct {
		Why  string
		Spec Spec
	}

	// DefragmentMember rewrites the database of a member, and adds that to the answer.
	// Compact first gives up all revisions but the last, because the API server cannot ask
	// for that while there is no space.
	DefragmentMember struct {
		Member, Peer string
		Compact      bool
		Answer       Answer
	}
	// Disarm ends all alarms, and says so in the answer, or why not. Compare first makes
	// sure that the members have the same data.
	Disarm struct {
		Compare bool
		Answer  Answer
	}
	// BeginDrill restores a back-up beside the cluster; what it found out is observed later.
	BeginDrill struct{ Request Request }
	// Conclude answers a request for the last time, and removes it.
	Conclude struct{ Answer Answer }
)

func (SaveRecord) action()     {}
func (MarkCreated) action()    {}
func (SaveSpec) action()       {}
func (FinishCommand) action()  {}
func (SaveRefusal) action()    {}
func (ForgetRefusal) action()  {}
func (Run) action()            {}
func (Stop) action()           {}
func (AddLearner) action()     {}
func (Promote) action()        {}
func (Remove) action()         {}
func (SetURLs) action()        {}
func (MoveLeader) action()     {}
func (AllowDowngrade) action() {}
func (TakeBackup) action()     {}

func (DefragmentMember) action() {}
func (Disarm) action()           {}
func (BeginDrill) action()       {}
func (Conclude) action()         {}

func (a SaveRecord) String() string {
	s := fmt.Sprintf("record cluster %s: %s", a.Record.Token, a.Record.Phase)
	if a.Record.Founder != "" {
		s += ", founded at " + a.Record.Founder
	}
	if a.Record.FounderMember != "" {
		s += " as member " + a.Record.FounderMember
	}
	if a.Record.Backup != "" {
		s += " from " + a.Record.Backup
	}
	if a.Record.Revision != 0 {
		s += fmt.Sprintf(", revision %d was served", a.Record.Revision)
	}
	return s
}
func (MarkCreated) String() string { return "mark the cluster as created" }
func (a SaveSpec) String() string {
	return fmt.Sprintf("save the spec: %d members, etcd %s", a.Spec.MemberCount, a.Spec.EtcdVersion)
}
func (a FinishCommand) String() string { return "remove the command " + a.Key }
func (a SaveRefusal) String() string {
	return fmt.Sprintf("refuse the command %s: %s", a.Refusal.Command, a.Refusal.Why)
}
func (ForgetRefusal) String() string { return "forget the command that was refused" }

func (a Run) String() string {
	s := fmt.Sprintf("%s: run etcd %s for seat %s of %s", a.Peer, a.Version, a.Seat, a.Token)
	if a.Restart {
		s += " again"
	}
	if a.Quarantined {
		s += ", quarantined"
	}
	if a.Fresh {
		var names []string
		for _, n := range a.Initial {
			names = append(names, n.Name)
		}
		s += ", with fresh data of " + strings.Join(names, "+")
	}
	if a.Backup != "" {
		s += " from " + a.Backup
	}
	if a.Served != 0 {
		s += fmt.Sprintf(", above revision %d", a.Served)
	}
	if a.Restored {
		s += ", and restart API servers"
	}
	if a.Snapshot > 0 {
		s += fmt.Sprintf(", once its log is in a snapshot as far as %d", a.Snapshot)
	}
	return s
}
func (a Stop) String() string       { return a.Peer + ": stop etcd" }
func (a AddLearner) String() string { return "add learner " + a.Peer }
func (a Promote) String() string    { return fmt.Sprintf("promote member %s of %s", a.Member, a.Peer) }
func (a Remove) String() string {
	return fmt.Sprintf("remove member %s of %s: %s", a.Member, cmp.Or(a.Peer, "nobody"), a.Why)
}
func (a SetURLs) String() string {
	return fmt.Sprintf("member %s of %s is at %s", a.Member, a.Peer, strings.Join(a.URLs, ","))
}
func (a MoveLeader) String() string {
	return fmt.Sprintf("move etcd's leadership to member %s of %s", a.Member, a.Peer)
}
func (a AllowDowngrade) String() string {
	if a.Version == "" {
		return "call off the way back"
	}
	return "allow etcd to go back to " + a.Version
}
func (a TakeBackup) String() string { return "take a backup: " + a.Why }
