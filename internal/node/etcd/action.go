package etcd

import (
	"cmp"
	"fmt"
	"strings"
)

// Action is a single operation of the leader. All are idempotent.
type Action interface {
	fmt.Stringer
	action()
}

// Node is a member's name and URLs, as passed to etcd when it starts.
type Node struct {
	Name string   `json:"name"`
	URLs []string `json:"urls"`
}

type (
	// SaveRecord replaces the record that was observed; it fails if it was replaced meanwhile.
	SaveRecord struct{ Record Record }
	// MarkCreated writes the mark that forbids creating an empty cluster.
	MarkCreated struct{}
	// SaveSpec writes the cluster's spec.
	SaveSpec struct{ Spec Spec }
	// FinishCommand removes a command that was carried out, or that will not be.
	FinishCommand struct{ Key string }
	// SaveRefusal records why a command is withdrawn, for clients that wait for it; ForgetRefusal
	// removes that refusal once another restore has made it obsolete.
	SaveRefusal   struct{ Refusal Refusal }
	ForgetRefusal struct{}

	// Run makes a peer run etcd with the given settings.
	Run struct {
		Peer        string `json:"peer"`
		Token       string `json:"token"`
		Seat        string `json:"seat"`
		Version     string `json:"etcdVersion"`
		Quarantined bool   `json:"quarantined,omitempty"`
		// Fresh allows beginning new data: data of another cluster or another seat on the
		// disk are moved aside. Without it a peer that does not have the data refuses.
		Fresh bool `json:"fresh,omitempty"`
		// Restart stops a running etcd, and starts it again.
		Restart bool `json:"restart,omitempty"`
		// Snapshot is the index in etcd's log up to which a snapshot must exist before
		// another version starts.
		Snapshot uint64 `json:"snapshot,omitempty"`
		// Initial are the members with which fresh data begin, including the peer itself.
		Initial []Node `json:"initial,omitempty"`
		// Backup is the backup from which a founder's fresh data are restored; empty for none.
		Backup string `json:"backup,omitempty"`
		// Served is the highest revision that clients may have seen: fresh data from a
		// backup begin above it.
		Served int64 `json:"served,omitempty"`
		// Restored is set if the cluster replaced another one: programs on the peer's machine
		// that have read the old one must restart.
		Restored bool `json:"restored,omitempty"`
	}
	// Stop makes a peer stop its etcd, and keep the data.
	Stop struct {
		Peer string `json:"peer"`
	}

	// AddLearner adds a peer to the cluster as a learner, without a vote.
	AddLearner struct {
		Peer string
		URLs []string
	}
	// Promote makes a learner a voter; etcd refuses until it has caught up.
	Promote struct{ Member, Peer string }
	// Remove removes a member from the cluster.
	Remove struct{ Member, Peer, Why string }
	// SetURLs corrects the URLs at which the other members reach one.
	SetURLs struct {
		Member, Peer string
		URLs         []string
	}
	// MoveLeader transfers etcd's own leadership, so that a restart does not cause an election.
	MoveLeader struct{ Member, Peer string }
	// AllowDowngrade tells etcd that its members will downgrade to a minor version,
	// or, if it is empty, cancels that.
	AllowDowngrade struct{ Version string }
	// TakeBackup stores a snapshot together with the cluster's spec.
	TakeBackup struct {
		Why  string
		Spec Spec
	}

	// DefragmentMember defragments the database of a member, and adds the result to the
	// answer. Compact first removes all revisions but the last, because the API server
	// cannot do so while there is no space.
	DefragmentMember struct {
		Member, Peer string
		Compact      bool
		Answer       Answer
	}
	// Disarm clears all alarms, and adds that, or the reason why it could not, to the
	// answer. Compare first makes sure that the members have the same data.
	Disarm struct {
		Compare bool
		Answer  Answer
	}
	// BeginDrill restores a backup separately from the cluster; its result is observed later.
	BeginDrill struct{ Request Request }
	// Conclude writes the final answer to a request, and removes the request.
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
func (ForgetRefusal) String() string { return "forget the refused command" }

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
		return "cancel the downgrade"
	}
	return "allow etcd to downgrade to " + a.Version
}
func (a TakeBackup) String() string { return "take a backup: " + a.Why }
