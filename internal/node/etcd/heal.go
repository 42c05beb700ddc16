package etcd

import (
	"fmt"
	"slices"
	"strings"
)

// learner brings the learner to the point where it is promoted, or removes it
// again. There is at most one: etcd 3.5 allows no more, and the limit must never
// change, because every start applies it to the log again.
func (s *situation) learner() Decision {
	for _, m := range s.learners() {
		p, here := s.peerOf(m)
		holds := here && s.hasData(p, m)
		version, able := Pick(p.Versions, s.joinVersion())
		switch {
		case !here && s.isLost("member "+m.ID, s.policy.Replace):
			return s.remove(m, "its machine is lost")
		case !here:
			continue
		case !holds && m.Name != "":
			return s.remove(m, "its disk is empty")
		case holds && !m.Healthy && s.isLost("member "+m.ID, s.policy.CatchUp):
			return s.remove(m, "it does not start")
		case len(s.voters()) >= s.Spec.MemberCount && !(here && s.needsMove() && s.isListed(p.ID)):
			return s.remove(m, "there are enough members")
		case !holds && !able:
			return s.remove(m, "it cannot run etcd "+s.joinVersion())
		case !holds:
			return Decision{Actions: []Action{s.join(p, m, version)}, Soon: true}
		case m.Healthy:
			return Decision{Actions: []Action{Promote{m.ID, p.ID}}, Soon: true}
		case !s.memory.Nudged[m.ID] && s.isLost("member "+m.ID, s.policy.Nudge):
			return s.nudge(m, p)
		}
		return Decision{Note: "waiting for the new member " + p.ID, Soon: true}
	}
	return Decision{}
}

// nudge restarts the etcd of a new member. One that must receive the data first may
// not notice that its first proposal, in which it publishes its name, is among
// them; it would answer clients only after waiting 7 seconds for it.
func (s *situation) nudge(m Member, p Peer) Decision {
	s.memory.Nudged[m.ID] = true
	again := runAgain(p)
	again.Restart = true
	return Decision{Actions: []Action{again}, Soon: true}
}

// join returns the order to begin as the member that was added for a peer.
func (s *situation) join(p Peer, m Member, version string) Run {
	r := Run{Peer: p.ID, Token: s.Record.Token, Seat: m.ID, Version: version, Quarantined: s.isQuarantined(), Fresh: true, Initial: []Node{{p.ID, m.PeerURLs}},
		Restored: s.Record.Backup != ""}
	for _, other := range s.Members {
		if other.ID != m.ID {
			r.Initial = append(r.Initial, Node{other.Name, other.PeerURLs})
		}
	}
	return r
}

// replace removes a lost voter if another peer, or the same one with an empty
// disk, is waiting to take its place and the remaining voters are a majority.
func (s *situation) replace() Decision {
	for _, m := range s.voters() {
		if m.Healthy {
			continue
		}
		p, here := s.peerOf(m)
		why := ""
		switch {
		case here && !s.hasData(p, m):
			why = "its disk is empty"
		case !here && s.isLost("member "+m.ID, s.policy.Replace) && len(s.idlePeers()) > 0:
			why = "its machine is lost"
		default:
			continue
		}
		if !s.canSpare(m) {
			return Decision{Note: fmt.Sprintf("member %s of %s is lost, but without it there is no majority; restore a backup", m.ID, m.Name)}
		}
		if first := s.ensureBackup("before member " + m.ID + " is removed"); first != nil {
			return Decision{Actions: first}
		}
		return s.remove(m, why)
	}
	return Decision{}
}

// grow adds a learner if a member is missing or must be replaced by another. etcd accepts
// it only after every voter has been healthy for some seconds.
func (s *situation) grow() Decision {
	voters, idle := s.voters(), s.idlePeers()
	why := fmt.Sprintf("%d of %d members: ", len(voters), s.Spec.MemberCount)
	switch {
	case len(voters) >= s.Spec.MemberCount && !(s.needsMove() && len(idle) > 0):
		return Decision{}
	case len(s.learners()) > 0:
		return Decision{Note: why + "the new member's machine does not respond"}
	case len(idle) == 0:
		return Decision{Note: why + "no other machine is available"}
	case len(healthyMembers(voters)) < len(voters):
		return Decision{Note: why + "a further one must wait until all are healthy"}
	}
	if first := s.ensureBackup("before " + idle[0].ID + " becomes a member"); first != nil && !s.isNew() {
		return Decision{Actions: first}
	}
	return Decision{Actions: []Action{AddLearner{Peer: idle[0].ID, URLs: idle[0].PeerURLs}}, Soon: true}
}

// shrink removes a voter if there are too many: first one that should not be a member,
// among those an unhealthy one, and etcd's leader last, after it has transferred its
// leadership.
func (s *situation) shrink() Decision {
	voters := s.voters()
	if len(voters) <= s.Spec.MemberCount {
		return Decision{}
	}
	rank := func(m Member) int {
		r := 0
		if s.isListed(m.Name) {
			r = 3
		}
		switch {
		case !m.Healthy:
			return r
		case !m.Leader:
			return r + 1
		}
		return r + 2
	}
	slices.Reverse(voters) // of two equals, the one with the later name is removed
	slices.SortStableFunc(voters, func(a, b Member) int { return rank(a) - rank(b) })
	gone, heir := voters[0], voters[len(voters)-1]
	if !s.canSpare(gone) {
		return Decision{Note: fmt.Sprintf("%d members instead of %d, but too few are healthy to remove one", len(voters), s.Spec.MemberCount)}
	}
	if first := s.ensureBackup("before member " + gone.ID + " is removed"); first != nil {
		return Decision{Actions: first}
	}
	if gone.Leader && heir.Healthy {
		return Decision{Actions: []Action{MoveLeader{heir.ID, heir.Name}}, Soon: true}
	}
	return s.remove(gone, fmt.Sprintf("%d members are wanted", s.Spec.MemberCount))
}

// reportUnhealthy names the unhealthy members if nothing can be done about them.
func (s *situation) reportUnhealthy() Decision {
	var names, notes []string
	for _, m := range s.voters() {
		if !m.Healthy {
			names = append(names, m.Name)
		}
		for _, e := range m.Errors { // each reports all
			if note := "etcd reports " + strings.TrimSpace(e); !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	if len(names) > 0 {
		notes = append(notes, "not well: "+strings.Join(names, ", "))
	}
	return Decision{Note: strings.Join(notes, "; ")}
}

func (s *situation) remove(m Member, why string) Decision {
	name := m.Name
	if p, ok := s.peerOf(m); ok {
		name = p.ID
	}
	return Decision{Actions: []Action{Remove{Member: m.ID, Peer: name, Why: why}}}
}

func containsPeer(peers []Peer, p Peer) bool {
	return slices.ContainsFunc(peers, func(q Peer) bool { return q.ID == p.ID })
}
