package etcd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Decision is what the leader does now.
type Decision struct {
	// Rule is the name of the rule that decided; empty if everything is as wanted.
	Rule string
	// Actions are carried out in this order, up to the first that fails.
	Actions []Action
	// Together is set if they are orders to several peers that may be given in parallel.
	Together bool
	// Note describes, for people, what the leader waits for or what prevents it from acting.
	Note string
	// Soon is set if something is in progress, so that the leader should look again soon.
	Soon bool
}

// rule makes a decision, or returns a Decision without actions or note if it does not apply.
type rule struct {
	name   string
	decide func(*situation) Decision
}

// rules returns the rules in order; the first one that applies decides.
func rules() []rule {
	return []rule{
		{"spec", (*situation).awaitSpec},
		{"majority", (*situation).awaitMajority},
		{"refuse", (*situation).refuse},
		{"adopt", (*situation).adopt},
		{"restore", (*situation).restore},
		{"found", (*situation).foundCluster},
		{"form", (*situation).formCluster},
		{"settle", (*situation).updateControl},
		{"quorum", (*situation).awaitQuorum},
		{"stop", (*situation).stop},
		{"run", (*situation).run},
		{"address", (*situation).address},
		{"open", (*situation).open},
		{"learner", (*situation).learner},
		{"care", (*situation).care},
		{"replace", (*situation).replace},
		{"seats", (*situation).awaitSeats},
		{"grow", (*situation).grow},
		{"shrink", (*situation).shrink},
		{"version", (*situation).version},
		{"unwell", (*situation).reportUnhealthy},
	}
}

// Step decides what the leader of the managers does next. It depends only on its
// arguments, and is right whichever actions of an earlier decision were carried
// out.
//
// It guarantees: a cluster is created only if the record could be replaced; the
// data of a running cluster are given up only for a requested backup; and no
// member is removed or restarted voluntarily unless a majority of healthy voters
// remains (except that a cluster of one member may be restarted).
func Step(p Policy, m Memory, o Observed) (Memory, Decision) {
	s := newSituation(p, m, o)
	d := Decision{}
	for _, r := range rules() {
		if d = r.decide(s); len(d.Actions) > 0 || d.Note != "" {
			d.Rule = r.name
			break
		}
	}
	switch due := s.backupDue(); {
	case due && len(d.Actions) == 0: // even if something else waits
		d.Rule, d.Actions = cmp.Or(d.Rule, "backup"), []Action{s.takeBackup(s.backupReason())}
	case s.revisionDue() && len(d.Actions) == 0:
		r := *s.Record
		r.Revision = s.servedRevision()
		d.Rule, d.Actions = cmp.Or(d.Rule, "revision"), []Action{SaveRecord{r}}
	case due && s.Failing: // repeated failures must not prevent backups
		d = Decision{Rule: "backup", Actions: []Action{s.takeBackup(s.backupReason())}}
	}
	return s.memory, d
}

// situation is what was observed, with the questions that rules have about it.
type situation struct {
	Observed
	policy Policy
	memory Memory
}

func newSituation(p Policy, m Memory, o Observed) *situation {
	s := &situation{Observed: o, policy: p, memory: Memory{Missing: map[string]time.Time{}, Nudged: map[string]bool{}}}
	s.Peers = sorted(o.Peers)
	s.Members = slices.Clone(o.Members)
	slices.SortFunc(s.Members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	if o.Members == nil { // the members are unknown, so nothing is forgotten
		maps.Copy(s.memory.Missing, m.Missing)
		maps.Copy(s.memory.Nudged, m.Nudged)
	}
	for _, member := range s.Members {
		if !member.Healthy {
			s.recordMissing(m, "member "+member.ID)
		}
		if m.Nudged[member.ID] {
			s.memory.Nudged[member.ID] = true
		}
	}
	if r := o.Record; r != nil && o.LastBackup.Unix() < r.Founded {
		s.LastBackup = time.Time{} // of the previous cluster
	}
	if r := o.Record; r != nil && r.Phase == Forming {
		if _, here := s.peer(r.Founder); !here {
			s.recordMissing(m, "founder "+r.Token)
		}
	}
	return s
}

// recordMissing records that something is missing, since now unless it was missing before.
func (s *situation) recordMissing(before Memory, what string) {
	since, ok := before.Missing[what]
	if !ok {
		since = s.Now
	}
	s.memory.Missing[what] = since
}

// isLost reports whether something has been missing for so long that it is given up.
func (s *situation) isLost(what string, after time.Duration) bool {
	since, ok := s.memory.Missing[what]
	return ok && s.Now.Sub(since) >= after
}

func (s *situation) peer(id string) (Peer, bool) {
	i := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.ID == id })
	if i < 0 {
		return Peer{}, false
	}
	return s.Peers[i], true
}

// peerOf returns the peer whose member this is, whether or not it has the member's data.
func (s *situation) peerOf(m Member) (Peer, bool) {
	if m.Name != "" {
		return s.peer(m.Name)
	}
	i := slices.IndexFunc(s.Peers, func(p Peer) bool { return sameURLs(p.PeerURLs, m.PeerURLs) })
	if i < 0 {
		return Peer{}, false
	}
	return s.Peers[i], true
}

// hasData reports whether a peer's disk has the data of a member.
func (s *situation) hasData(p Peer, m Member) bool {
	if p.State.Token == "" || p.State.Token != s.Record.Token {
		return false
	}
	return p.State.Seat == m.ID || p.State.Seat == FounderSeat && m.ID == s.Record.FounderMember
}

// seatedPeers returns the peers that have the data of a member.
func (s *situation) seatedPeers() []Peer {
	var out []Peer
	for _, p := range s.Peers {
		if slices.ContainsFunc(s.Members, func(m Member) bool { return s.hasData(p, m) }) {
			out = append(out, p)
		}
	}
	return out
}

// idlePeers returns the peers that could become members: they have no seat, and can run the
// cluster's version.
func (s *situation) idlePeers() []Peer {
	var out []Peer
	for _, p := range s.Peers {
		taken := slices.ContainsFunc(s.Members, func(m Member) bool {
			owner, ok := s.peerOf(m)
			return ok && owner.ID == p.ID || m.Name == p.ID || s.hasData(p, m)
		})
		if _, ok := Pick(p.Versions, s.joinVersion()); ok && !taken && s.isListed(p.ID) {
			out = append(out, p)
		}
	}
	return out
}

func (s *situation) voters() []Member {
	return filter(s.Members, func(m Member) bool { return !m.Learner })
}

func (s *situation) learners() []Member {
	return filter(s.Members, func(m Member) bool { return m.Learner })
}

func healthyMembers(members []Member) []Member {
	return filter(members, func(m Member) bool { return m.Healthy })
}

// canSpare reports whether the voters other than gone are a majority both before and after its
// removal.
func (s *situation) canSpare(gone Member) bool {
	voters := s.voters()
	left := len(healthyMembers(voters))
	if gone.Healthy {
		left--
	}
	return left >= quorum(len(voters)-1) && len(healthyMembers(voters)) >= quorum(len(voters)) && len(voters) > 1
}

// isQuarantined reports whether the cluster is closed to clients.
func (s *situation) isQuarantined() bool {
	return slices.ContainsFunc(s.seatedPeers(), func(p Peer) bool { return p.State.Quarantined })
}

// joinVersion returns the version that a new member runs: the oldest version in use.
func (s *situation) joinVersion() string {
	oldest := ""
	for _, p := range s.seatedPeers() {
		if oldest == "" || compareVersions(p.State.Version, oldest) < 0 {
			oldest = p.State.Version
		}
	}
	return cmp.Or(oldest, s.Record.Version)
}

// backupDue reports whether a backup is due and can be taken.
func (s *situation) backupDue() bool {
	return s.backupReason() != "" && s.Record != nil && s.Record.Phase == Running && len(s.Members) > 0 && !s.isQuarantined()
}

// backupReason returns why a backup must be taken now; empty for no reason.
func (s *situation) backupReason() string {
	switch {
	case s.BackupAfter != nil && !s.LastBackup.After(*s.BackupAfter):
		return "it was requested"
	case s.isNew():
		return ""
	case s.BackupEmpty && s.hasWrites() && s.backupAge() >= s.policy.Early:
		return "the last one contains no keys, but etcd does"
	case s.backupAge() >= s.policy.Backup:
		return "it is due"
	}
	return ""
}

// isNew reports whether a cluster that began empty is so young that a backup of it
// would contain next to nothing. A clock that is ahead or behind does not prolong
// that.
func (s *situation) isNew() bool {
	r := s.Record
	if r == nil || r.Backup != "" || r.Founded == 0 || !s.LastBackup.IsZero() {
		return false
	}
	age := s.Now.Sub(time.Unix(r.Founded, 0))
	return age >= 0 && age < min(s.policy.Early, s.policy.Backup)
}

// hasWrites reports whether etcd has served a revision after its first, which is 1.
func (s *situation) hasWrites() bool {
	return slices.ContainsFunc(s.Members, func(m Member) bool { return m.Revision > 1 })
}

// backupAge returns the age of the latest backup, by its own time or by when the
// leader first saw it, whichever is greater: its time may be in the future, and the
// leader's clock may have been set back since.
func (s *situation) backupAge() time.Duration {
	return max(s.Now.Sub(s.LastBackup), s.Now.Sub(s.BackupSeen))
}

// ensureBackup returns the action that takes a backup before a risky change, or nothing if
// there is a recent one.
func (s *situation) ensureBackup(why string) []Action {
	if s.isQuarantined() || s.backupAge() < s.policy.Fresh {
		return nil
	}
	return []Action{s.takeBackup(why)}
}

// takeBackup returns the action that takes a backup. Without a spec it describes the cluster as it is.
func (s *situation) takeBackup(why string) TakeBackup {
	if s.Spec != nil {
		return TakeBackup{Why: why, Spec: *s.Spec}
	}
	return TakeBackup{Why: why, Spec: Spec{MemberCount: len(s.voters()), EtcdVersion: s.joinVersion()}}
}

func (s *situation) awaitSpec() Decision {
	switch {
	case s.Spec == nil:
		return Decision{Note: "the store contains no etcd-cluster-spec"}
	case s.Spec.MemberCount < 1:
		return Decision{Note: fmt.Sprintf("the spec asks for %d members; at least 1 is needed", s.Spec.MemberCount)}
	}
	if _, err := parseVersion(s.Spec.EtcdVersion); err != nil {
		return Decision{Note: "the spec's etcd version is unusable: " + err.Error()}
	}
	return Decision{}
}

// awaitMajority prevents a leader from acting that is not followed by most of the
// wanted peers: of two parts of a partitioned network at most one may change the
// cluster.
func (s *situation) awaitMajority() Decision {
	if need := quorum(s.Spec.MemberCount); len(s.Peers) < need {
		return Decision{Note: fmt.Sprintf("%d of at least %d machines are available", len(s.Peers), need), Soon: true}
	}
	return Decision{}
}

// awaitQuorum waits until a majority of etcd's members answers and the machine of one of them is
// available: the members' machines determine which version they run, and which data are the cluster's.
func (s *situation) awaitQuorum() Decision {
	switch {
	case len(s.Members) > 0 && len(s.seatedPeers()) > 0:
		return Decision{}
	case len(s.Members) > 0:
		return Decision{Note: "no machine has the data of a member of the cluster", Soon: true}
	}
	d := Decision{Note: "no machine has the cluster's data; restore a backup", Actions: s.restart(s.Record.Token)}
	for _, p := range s.Peers {
		switch p.State.Token {
		case s.Record.Token:
			d.Note, d.Soon = "a majority of etcd's members does not respond", true
			return d
		case "":
		default:
			d.Note = fmt.Sprintf("no machine has the data of cluster %s, and %s has the data of %s; %s", s.Record.Token, p.ID, p.State.Token, OtherClusterRemedy)
		}
	}
	return d
}

// filter returns the elements for which want returns true.
func filter[T any](all []T, want func(T) bool) []T {
	var out []T
	for _, x := range all {
		if want(x) {
			out = append(out, x)
		}
	}
	return out
}

func compare(a, b string) int { return strings.Compare(a, b) }

// sameURLs compares URLs without regard to order.
func sameURLs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
