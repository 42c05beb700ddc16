package etcd

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// adopt writes the record of a cluster that runs without one: the store was
// emptied, or it is a different store.
func (s *situation) adopt() Decision {
	if _, asked := s.command(); s.Record != nil || asked {
		return Decision{}
	}
	token, founder := "", ""
	for _, p := range s.Peers {
		if p.State.Token == "" {
			continue
		}
		if token != "" && token != p.State.Token {
			return Decision{Note: fmt.Sprintf("the store has no record of the cluster, and machines have data of two clusters, %s and %s; empty the disks of the wrong one, or restore a backup", token, p.State.Token)}
		}
		token = p.State.Token
		if p.State.Seat == FounderSeat {
			founder = p.ID
		}
	}
	if token == "" {
		return Decision{}
	}
	if len(s.Members) == 0 {
		return Decision{Note: "the store has no record of the cluster, and etcd does not respond with the machines' data", Actions: s.restart(token), Soon: true}
	}
	if why := s.refusalReason(); why != "" && slices.ContainsFunc(s.Peers, func(p Peer) bool { return p.State.Quarantined }) {
		return Decision{Note: "the store has no record of the cluster, and the cluster is closed to clients until it is restored; " + why + "; restore another"}
	}
	r := Record{Token: token, Phase: Running, Founder: founder, Version: s.Spec.EtcdVersion, Revision: s.servedRevision()}
	for _, m := range s.Members {
		if _, here := s.peerOf(m); !here { // which may have been the founder
			return Decision{Note: "the store has no record of the cluster; waiting for the machine of member " + m.Name, Soon: true}
		}
		if m.Name == founder && founder != "" {
			r.FounderMember = m.ID
		}
	}
	return Decision{Actions: []Action{SaveRecord{r}}}
}

// command returns the command to carry out: the youngest, because each would undo
// the one before. If that is unusable there is none: an older one became obsolete
// when the younger was written.
func (s *situation) command() (Command, bool) {
	if len(s.Commands) == 0 {
		return Command{}, false
	}
	c := s.Commands[len(s.Commands)-1]
	return c, c.Unusable == ""
}

// refuse withdraws a command that cannot be carried out, and with it the older commands that it
// superseded: if those remained, the cluster would lose newer writes as soon as the backup is
// repaired or removed. The reason is recorded first, and the youngest command is removed last:
// otherwise the last of the others would be carried out. The command of the record is not
// withdrawn.
func (s *situation) refuse() Decision {
	c, usable := s.command()
	if usable || len(s.Commands) == 0 || s.Record != nil && s.Record.Command == c.Key {
		return Decision{}
	}
	out := []Action{SaveRefusal{Refusal{Command: c.Key, Backup: c.Backup, Why: c.Unusable, At: s.Now.UTC()}}}
	first := slices.IndexFunc(s.Commands, func(c Command) bool { return s.Record != nil && s.Record.Command == c.Key })
	for _, c := range s.Commands[first+1:] {
		out = append(out, FinishCommand{c.Key})
	}
	return Decision{Actions: out}
}

// refusalReason returns why the last request was refused; empty if none was.
func (s *situation) refusalReason() string {
	if s.Refused == nil {
		return ""
	}
	return fmt.Sprintf("backup %s was not restored: %s", s.Refused.Backup, s.Refused.Why)
}

// restore restarts a cluster from a backup if a command requests it.
func (s *situation) restore() Decision {
	c, asked := s.command()
	if !asked || s.Record != nil && s.Record.Command == c.Key {
		return Decision{}
	}
	return s.begin(Record{Version: cmp.Or(c.BackupVersion, c.Spec.EtcdVersion), Backup: c.Backup, Command: c.Key, Revision: s.servedRevision()}, "")
}

// foundCluster begins the first cluster.
func (s *situation) foundCluster() Decision {
	switch {
	case s.Record != nil:
		return Decision{}
	case s.Refused != nil: // a user who wants a backup does not want an empty cluster
		return Decision{Note: s.refusalReason() + "; restore another, or for an empty cluster remove " + refusedKey}
	case s.Created:
		return Decision{Note: "the cluster was created once, but no machine has its data; restore a backup"}
	}
	return s.begin(Record{Version: s.Spec.EtcdVersion}, "")
}

// begin records a new cluster at the first peer that can run it, or at the next one after a
// peer that could not found it: if several cannot, none of them keeps the others from
// trying.
func (s *situation) begin(r Record, after string) Decision {
	i := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.ID == after })
	for _, p := range slices.Concat(s.Peers[i+1:], s.Peers[:max(i, 0)]) {
		if _, ok := Pick(p.Versions, r.Version); ok {
			r.Token, r.Phase, r.Founder, r.Founded = s.Token, Forming, p.ID, s.Now.Unix()
			return Decision{Actions: []Action{SaveRecord{r}}}
		}
	}
	return Decision{Note: "no machine can run etcd " + r.Version}
}

// formCluster starts etcd at the founder, and declares the cluster valid once it answers. Until
// then no client could write, so a founder that is lost, or cannot begin, is replaced.
func (s *situation) formCluster() Decision {
	r := s.Record
	if r.Phase != Forming {
		return Decision{}
	}
	if why := s.supersededReason(); why != "" {
		return Decision{Note: fmt.Sprintf("the creation of cluster %s was not completed, and %s; %s", r.Token, why, OtherClusterRemedy)}
	}
	if d := s.stopOthers(); len(d.Actions) > 0 {
		return d
	}
	founder, here := s.peer(r.Founder)
	switch {
	case !here && s.isLost("founder "+r.Token, s.policy.Replace):
		return s.begin(*r, r.Founder)
	case !here:
		return Decision{Note: "the first member, " + r.Founder + ", is missing", Soon: true}
	}
	version, ok := Pick(founder.Versions, r.Version)
	if !ok {
		return s.begin(*r, r.Founder)
	}
	if st := founder.State; st.Token != r.Token || st.Seat != FounderSeat || st.Stopped || !st.Quarantined {
		if s.Failing && s.Now.Sub(time.Unix(r.Founded, 0)) >= s.policy.Replace { // its disk may be full
			if d := s.begin(*r, r.Founder); len(d.Actions) > 0 {
				return d
			}
		}
		return Decision{Soon: true, Actions: []Action{Run{Peer: founder.ID, Token: r.Token, Seat: FounderSeat, Version: version, Quarantined: true,
			Fresh: true, Initial: []Node{{founder.ID, founder.PeerURLs}}, Backup: r.Backup, Served: r.Revision, Restored: r.Backup != ""}}}
	}
	if len(s.Members) != 1 || !s.Members[0].Healthy {
		return Decision{Note: "waiting for the etcd of the first member", Soon: true}
	}
	formed := *r
	formed.Phase, formed.FounderMember, formed.Revision = Running, s.Members[0].ID, s.servedRevision()
	return Decision{Actions: []Action{SaveRecord{formed}}}
}

// supersededReason returns why a cluster that is being founded is no longer valid. Before
// it runs, its managers neither remove the command nor mark it as created: if that
// has happened, another manager has used the store since, and continuing would
// destroy that manager's cluster.
func (s *situation) supersededReason() string {
	r := s.Record
	asked := slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Key == r.Command })
	switch {
	case r.Backup == "" && s.Created:
		return "a cluster was created in the meantime"
	case r.Backup != "" && !asked:
		return "the request to restore " + r.Backup + " is gone"
	}
	return ""
}

// stopOthers stops all members of other clusters than the record's.
func (s *situation) stopOthers() Decision {
	var out []Action
	for _, p := range s.Peers {
		if p.State.Token != "" && p.State.Token != s.Record.Token && !p.State.Stopped {
			out = append(out, Stop{p.ID})
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// updateControl updates the other control objects after the record's cluster runs.
func (s *situation) updateControl() Decision {
	var out []Action
	if !s.Created {
		out = append(out, MarkCreated{})
	}
	last := slices.IndexFunc(s.Commands, func(c Command) bool { return c.Key == s.Record.Command })
	if _, usable := s.command(); usable {
		last = len(s.Commands) - 1
	}
	for _, c := range s.Commands[:last+1] { // all of them are done, or superseded by the last one
		if c.Key == s.Record.Command && c.Spec != *s.Spec && c.Spec.MemberCount > 0 && c.Spec.EtcdVersion != "" {
			out = append(out, SaveSpec{c.Spec})
		}
		out = append(out, FinishCommand{c.Key})
	}
	if s.Refused != nil && last >= 0 {
		out = append(out, ForgetRefusal{})
	}
	return Decision{Actions: out}
}

// stop stops etcd where it runs with data that no longer belong to any member.
func (s *situation) stop() Decision {
	var out []Action
	seated := s.seatedPeers()
	for _, p := range s.Peers {
		if p.State.Token == "" || p.State.Stopped {
			continue
		}
		if !containsPeer(seated, p) {
			out = append(out, Stop{p.ID})
		}
	}
	return Decision{Actions: out, Together: true}
}

// run starts what a less informed leader has stopped.
func (s *situation) run() Decision {
	var out []Action
	for _, p := range s.seatedPeers() {
		if p.State.Stopped {
			out = append(out, runAgain(p))
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// restart starts the etcd of a cluster where it was stopped.
func (s *situation) restart(token string) []Action {
	var out []Action
	for _, p := range s.Peers {
		if p.State.Token == token && p.State.Stopped {
			out = append(out, runAgain(p))
		}
	}
	return out
}

// runAgain returns the order to run again what a peer ran before.
func runAgain(p Peer) Run {
	st := p.State
	return Run{Peer: p.ID, Token: st.Token, Seat: st.Seat, Version: st.Version, Quarantined: st.Quarantined}
}

// address corrects the URLs of members whose machines have new addresses. etcd does
// not allow two members with the same URL: if another machine had the address, its
// member is changed or removed first.
func (s *situation) address() Decision {
	for _, m := range s.Members {
		p, ok := s.peerOf(m)
		taken := slices.ContainsFunc(s.Members, func(o Member) bool {
			return o.ID != m.ID && slices.ContainsFunc(o.PeerURLs, func(u string) bool { return slices.Contains(p.PeerURLs, u) })
		})
		if ok && s.hasData(p, m) && len(p.PeerURLs) > 0 && !sameURLs(p.PeerURLs, m.PeerURLs) && !taken {
			return Decision{Actions: []Action{SetURLs{Member: m.ID, Peer: p.ID, URLs: p.PeerURLs}}}
		}
	}
	return Decision{}
}

// open lets clients in once most of the wanted members have joined, and no other
// peer is about to.
func (s *situation) open() Decision {
	if len(healthyMembers(s.voters())) < quorum(s.Spec.MemberCount) || s.isGathering() {
		return Decision{}
	}
	var out []Action
	for _, p := range s.seatedPeers() {
		if p.State.Quarantined {
			open := runAgain(p)
			open.Quarantined = false
			out = append(out, open)
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// isGathering reports whether peers are about to join a cluster that was just founded.
// It does not wait if the cluster began from a backup: then a new member must first
// receive the data, and may take seconds to answer (see nudge).
func (s *situation) isGathering() bool {
	age := s.Now.Sub(time.Unix(s.Record.Founded, 0))
	young := s.Record.Backup == "" && age >= 0 && age < s.policy.Gather // by another clock, the time may be in the future
	return young && len(s.voters()) < s.Spec.MemberCount && len(s.learners())+len(s.idlePeers()) > 0
}
