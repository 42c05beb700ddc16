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
	// Rule names the rule that decided; empty when everything is as it shall be.
	Rule string
	// Actions are done in this order, up to the first that fails.
	Actions []Action
	// Together says that they are orders to several peers, which may be given at once.
	Together bool
	// Note says, for people, what is awaited or what stands in the way.
	Note string
	// Soon says that something is on its way, and worth another look in a moment.
	Soon bool
}

// rule decides, or returns a Decision without a name when it has nothing to say.
type rule struct {
	name   string
	decide func(*situation) Decision
}

// rules are asked in this order; the first that has something to say decides.
func rules() []rule {
	return []rule{
		{"spec", (*situation).needSpec},
		{"majority", (*situation).needMajority},
		{"refuse", (*situation).refuse},
		{"adopt", (*situation).adopt},
		{"restore", (*situation).restore},
		{"found", (*situation).found},
		{"form", (*situation).form},
		{"settle", (*situation).settle},
		{"quorum", (*situation).needQuorum},
		{"stop", (*situation).stop},
		{"run", (*situation).run},
		{"address", (*situation).address},
		{"open", (*situation).open},
		{"learner", (*situation).learner},
		{"care", (*situation).care},
		{"replace", (*situation).replace},
		{"seats", (*situation).needSeats},
		{"grow", (*situation).grow},
		{"shrink", (*situation).shrink},
		{"version", (*situation).version},
		{"unwell", (*situation).unwell},
	}
}

// Step decides what the leader of the managers does next. It depends on its
// arguments alone, and is right whatever of an earlier decision was carried out.
//
// Its promises: a cluster is created only when the record could be replaced; the
// data of a running cluster are given up only for a back-up that was asked for;
// and no member is removed or restarted at will unless a majority of healthy
// voters stays (the restart of a cluster of one member excepted).
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
	case due && len(d.Actions) == 0: // whatever else is in the way
		d.Rule, d.Actions = cmp.Or(d.Rule, "backup"), []Action{s.takeBackup(s.backupReason())}
	case s.revisionDue() && len(d.Actions) == 0:
		r := *s.Record
		r.Revision = s.served()
		d.Rule, d.Actions = cmp.Or(d.Rule, "revision"), []Action{SaveRecord{r}}
	case due && s.Failing: // what fails time and again must not cost the back-ups
		d = Decision{Rule: "backup", Actions: []Action{s.takeBackup(s.backupReason())}}
	}
	return s.memory, d
}

// situation is what was observed, and the questions that rules have about it.
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
	if o.Members == nil { // nothing is known of them, so nothing is forgotten
		maps.Copy(s.memory.Missing, m.Missing)
		maps.Copy(s.memory.Nudged, m.Nudged)
	}
	for _, member := range s.Members {
		if !member.Healthy {
			s.miss(m, "member "+member.ID)
		}
		if m.Nudged[member.ID] {
			s.memory.Nudged[member.ID] = true
		}
	}
	if r := o.Record; r != nil && o.LastBackup.Unix() < r.Founded {
		s.LastBackup = time.Time{} // of the cluster before
	}
	if r := o.Record; r != nil && r.Phase == Forming {
		if _, here := s.peer(r.Founder); !here {
			s.miss(m, "founder "+r.Token)
		}
	}
	return s
}

// miss notes that something is missing, since now unless it was missing before.
func (s *situation) miss(before Memory, what string) {
	since, ok := before.Missing[what]
	if !ok {
		since = s.Now
	}
	s.memory.Missing[what] = since
}

// lost reports whether something has been missing for so long that it is given up.
func (s *situation) lost(what string, after time.Duration) bool {
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

// peerOf returns the peer whose member this is, whether or not it has its data.
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

// holds reports whether a peer's disk has the data of a member.
func (s *situation) holds(p Peer, m Member) bool {
	if p.State.Token == "" || p.State.Token != s.Record.Token {
		return false
	}
	return p.State.Seat == m.ID || p.State.Seat == FounderSeat && m.ID == s.Record.FounderMember
}

// seated returns the peers that hold the data of a member.
func (s *situation) seated() []Peer {
	var out []Peer
	for _, p := range s.Peers {
		if slices.ContainsFunc(s.Members, func(m Member) bool { return s.holds(p, m) }) {
			out = append(out, p)
		}
	}
	return out
}

// idle returns the peers that could take a seat: they have none, and can run the cluster's
// version.
func (s *situation) idle() []Peer {
	var out []Peer
	for _, p := range s.Peers {
		taken := slices.ContainsFunc(s.Members, func(m Member) bool {
			owner, ok := s.peerOf(m)
			return ok && owner.ID == p.ID || m.Name == p.ID || s.holds(p, m)
		})
		if _, ok := Pick(p.Versions, s.joinVersion()); ok && !taken && s.listed(p.ID) {
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

func healthy(members []Member) []Member {
	return filter(members, func(m Member) bool { return m.Healthy })
}

// spared reports whether the voters other than one are a majority both before and after its removal.
func (s *situation) spared(gone Member) bool {
	voters := s.voters()
	left := len(healthy(voters))
	if gone.Healthy {
		left--
	}
	return left >= quorum(len(voters)-1) && len(healthy(voters)) >= quorum(len(voters)) && len(voters) > 1
}

// quarantined reports whether the cluster is closed to clients.
func (s *situation) quarantined() bool {
	return slices.ContainsFunc(s.seated(), func(p Peer) bool { return p.State.Quarantined })
}

// joinVersion is what a new member runs: the oldest version in use.
func (s *situation) joinVersion() string {
	oldest := ""
	for _, p := range s.seated() {
		if oldest == "" || compareVersions(p.State.Version, oldest) < 0 {
			oldest = p.State.Version
		}
	}
	return cmp.Or(oldest, s.Record.Version)
}

// backupDue reports whether it is time for a back-up, and one can be taken.
func (s *situation) backupDue() bool {
	return s.backupReason() != "" && s.Record != nil && s.Record.Phase == Running && len(s.Members) > 0 && !s.quarantined()
}

// backupReason says why to take a backup now; empty for no reason.
func (s *situation) backupReason() string {
	switch {
	case s.BackupAfter != nil && !s.LastBackup.After(*s.BackupAfter):
		return "somebody asks for it"
	case s.newborn():
		return ""
	case s.BackupEmpty && s.written() && s.backupAge() >= s.policy.Early:
		return "the last one holds no keys, and etcd does"
	case s.backupAge() >= s.policy.Backup:
		return "it is time"
	}
	return ""
}

// newborn reports whether a cluster that began empty is so young that a back-up of it
// would hold next to nothing. A clock that is ahead, or behind, does not prolong that.
func (s *situation) newborn() bool {
	r := s.Record
	if r == nil || r.Backup != "" || r.Founded == 0 || !s.LastBackup.IsZero() {
		return false
	}
	age := s.Now.Sub(time.Unix(r.Founded, 0))
	return age >= 0 && age < min(s.policy.Early, s.policy.Backup)
}

// written reports whether etcd has served a revision after its first, which is 1.
func (s *situation) written() bool {
	return slices.ContainsFunc(s.Members, func(m Member) bool { return m.Revision > 1 })
}

// backupAge is the age of the youngest back-up, by its own word or by when the leader
// saw it, whichever is more: its time may lie ahead, and the leader's clock may have
// been put back since.
func (s *situation) backupAge() time.Duration {
	return max(s.Now.Sub(s.LastBackup), s.Now.Sub(s.BackupSeen))
}

// ensureBackup returns the back-up that has to come before a risky change, or nothing.
func (s *situation) ensureBackup(why string) []Action {
	if s.quarantined() || s.backupAge() < s.policy.Fresh {
		return nil
	}
	return []Action{s.takeBackup(why)}
}

// takeBackup describes the cluster by what it is where nobody says what it shall be.
func (s *situation) takeBackup(why string) TakeBackup {
	if s.Spec != nil {
		return TakeBackup{Why: why, Spec: *s.Spec}
	}
	return TakeBackup{Why: why, Spec: Spec{MemberCount: len(s.voters()), EtcdVersion: s.joinVersion()}}
}

func (s *situation) needSpec() Decision {
	switch {
	case s.Spec == nil:
		return Decision{Note: "the store holds no etcd-cluster-spec"}
	case s.Spec.MemberCount < 1:
		return Decision{Note: fmt.Sprintf("the spec asks for %d members; at least 1 is needed", s.Spec.MemberCount)}
	}
	if _, err := parseVersion(s.Spec.EtcdVersion); err != nil {
		return Decision{Note: "the spec's etcd version is unusable: " + err.Error()}
	}
	return Decision{}
}

// needMajority lets nobody act who is not followed by most of the wanted peers:
// of two parts of a broken network at most one may change the cluster.
func (s *situation) needMajority() Decision {
	if need := quorum(s.Spec.MemberCount); len(s.Peers) < need {
		return Decision{Note: fmt.Sprintf("%d of at least %d peers are there", len(s.Peers), need), Soon: true}
	}
	return Decision{}
}

// needQuorum waits until etcd has a majority of members that answer, and a machine of one is there: the machines
// of the members tell which version they run, and which data are those of the cluster.
func (s *situation) needQuorum() Decision {
	switch {
	case len(s.Members) > 0 && len(s.seated()) > 0:
		return Decision{}
	case len(s.Members) > 0:
		return Decision{Note: "no peer has the data of a member of the cluster", Soon: true}
	}
	d := Decision{Note: "no peer has the cluster's data; restore a backup", Actions: s.wake(s.Record.Token)}
	for _, p := range s.Peers {
		switch p.State.Token {
		case s.Record.Token:
			d.Note, d.Soon = "etcd has no majority of members that answer", true
			return d
		case "":
		default:
			d.Note = fmt.Sprintf("no peer has the data of cluster %s, and %s has those of %s; %s", s.Record.Token, p.ID, p.State.Token, OtherClusterRemedy)
		}
	}
	return d
}

// filter returns the elements that are wanted.
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

// sameURLs compares without regard to order.
func sameURLs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
