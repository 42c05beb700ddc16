package etcd

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// adopt writes the record of a cluster that runs without one: the store was
// emptied, or is another one than before.
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
			return Decision{Note: fmt.Sprintf("no record in the store, and peers have data of two clusters, %s and %s; empty the disks of the wrong one, or restore a backup", token, p.State.Token)}
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
		return Decision{Note: "no record in the store, and the cluster of the peers' data does not answer", Actions: s.wake(token), Soon: true}
	}
	if why := s.refused(); why != "" && slices.ContainsFunc(s.Peers, func(p Peer) bool { return p.State.Quarantined }) {
		return Decision{Note: "no record in the store, and the cluster is closed to clients until it is restored; " + why + "; ask for another"}
	}
	r := Record{Token: token, Phase: Running, Founder: founder, Version: s.Spec.EtcdVersion, Revision: s.served()}
	for _, m := range s.Members {
		if _, here := s.peerOf(m); !here { // which may have been the founder
			return Decision{Note: "no record in the store; waiting for the peer of member " + m.Name, Soon: true}
		}
		if m.Name == founder && founder != "" {
			r.FounderMember = m.ID
		}
	}
	return Decision{Actions: []Action{SaveRecord{r}}}
}

// command returns the command that counts. Of several that is the youngest, as each
// would undo the one before. Where that is unusable none counts: an older one was
// given up when the younger was written.
func (s *situation) command() (Command, bool) {
	if len(s.Commands) == 0 {
		return Command{}, false
	}
	c := s.Commands[len(s.Commands)-1]
	return c, c.Unusable == ""
}

// refuse withdraws a command that cannot be carried out, and with it the older commands that it
// superseded: if those remained, the cluster would lose newer writes as soon as somebody mends or
// removes the backup. The reason is recorded first, and the youngest command goes last: without
// it, the last of the others would count. The command of the record is not withdrawn.
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

// refused says what became of the last request; empty where none was refused.
func (s *situation) refused() string {
	if s.Refused == nil {
		return ""
	}
	return fmt.Sprintf("backup %s was not restored: %s", s.Refused.Backup, s.Refused.Why)
}

// restore restarts a cluster from a backup when a command asks for it.
func (s *situation) restore() Decision {
	c, asked := s.command()
	if !asked || s.Record != nil && s.Record.Command == c.Key {
		return Decision{}
	}
	return s.begin(Record{Version: cmp.Or(c.BackupVersion, c.Spec.EtcdVersion), Backup: c.Backup, Command: c.Key, Revision: s.served()}, "")
}

// found begins the first cluster.
func (s *situation) found() Decision {
	switch {
	case s.Record != nil:
		return Decision{}
	case s.Refused != nil: // a user who wants a backup does not want an empty cluster
		return Decision{Note: s.refused() + "; ask for another, or for an empty cluster remove " + refusedKey}
	case s.Created:
		return Decision{Note: "the cluster was created once, but no peer has its data; restore a backup"}
	}
	return s.begin(Record{Version: s.Spec.EtcdVersion}, "")
}

// begin records a new cluster at the first peer that can run it, or at the next one
// after a peer that could not found it: of several such, none keeps the others from trying.
func (s *situation) begin(r Record, after string) Decision {
	i := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.ID == after })
	for _, p := range slices.Concat(s.Peers[i+1:], s.Peers[:max(i, 0)]) {
		if _, ok := Pick(p.Versions, r.Version); ok {
			r.Token, r.Phase, r.Founder, r.Founded = s.Token, Forming, p.ID, s.Now.Unix()
			return Decision{Actions: []Action{SaveRecord{r}}}
		}
	}
	return Decision{Note: "no peer can run etcd " + r.Version}
}

// form starts etcd at the founder, and makes it the cluster once it answers.
// Until then no client could write, so a founder that is lost, or cannot begin, is replaced.
func (s *situation) form() Decision {
	r := s.Record
	if r.Phase != Forming {
		return Decision{}
	}
	if why := s.overtaken(); why != "" {
		return Decision{Note: fmt.Sprintf("the founding of cluster %s did not come to its end, and %s; %s", r.Token, why, OtherClusterRemedy)}
	}
	if d := s.stopOthers(); len(d.Actions) > 0 {
		return d
	}
	founder, here := s.peer(r.Founder)
	switch {
	case !here && s.lost("founder "+r.Token, s.policy.Replace):
		return s.begin(*r, r.Founder)
	case !here:
		return Decision{Note: "the founder " + r.Founder + " is not there", Soon: true}
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
		return Decision{Note: "waiting for the founder's etcd", Soon: true}
	}
	formed := *r
	formed.Phase, formed.FounderMember, formed.Revision = Running, s.Members[0].ID, s.served()
	return Decision{Actions: []Action{SaveRecord{formed}}}
}

// overtaken says why a cluster that is being founded is not the one any more. Its
// managers leave the command, and do not mark it as created, before it runs: so
// another manager has used the store since, and going on would cost its cluster.
func (s *situation) overtaken() string {
	r := s.Record
	asked := slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Key == r.Command })
	switch {
	case r.Backup == "" && s.Created:
		return "a cluster was created since"
	case r.Backup != "" && !asked:
		return "the command to restore " + r.Backup + " is gone"
	}
	return ""
}

// stopOthers ends all members of other clusters than the record's.
func (s *situation) stopOthers() Decision {
	var out []Action
	for _, p := range s.Peers {
		if p.State.Token != "" && p.State.Token != s.Record.Token && !p.State.Stopped {
			out = append(out, Stop{p.ID})
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// settle brings the rest of the control objects up to a record that is running.
func (s *situation) settle() Decision {
	var out []Action
	if !s.Created {
		out = append(out, MarkCreated{})
	}
	last := slices.IndexFunc(s.Commands, func(c Command) bool { return c.Key == s.Record.Command })
	if _, usable := s.command(); usable {
		last = len(s.Commands) - 1
	}
	for _, c := range s.Commands[:last+1] { // all of them are done, or undone by the last
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

// stop ends etcd where it runs with data that belong to no member any more.
func (s *situation) stop() Decision {
	var out []Action
	seated := s.seated()
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

// run starts what a leader that knew less has stopped.
func (s *situation) run() Decision {
	var out []Action
	for _, p := range s.seated() {
		if p.State.Stopped {
			out = append(out, rerun(p))
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// wake runs the etcd of a cluster where it was stopped.
func (s *situation) wake(token string) []Action {
	var out []Action
	for _, p := range s.Peers {
		if p.State.Token == token && p.State.Stopped {
			out = append(out, rerun(p))
		}
	}
	return out
}

// rerun makes a peer run what it has run before.
func rerun(p Peer) Run {
	st := p.State
	return Run{Peer: p.ID, Token: st.Token, Seat: st.Seat, Version: st.Version, Quarantined: st.Quarantined}
}

// address corrects the URLs of members whose machines have others now. etcd lets no
// two have the same: where another machine had the address, its member goes first.
func (s *situation) address() Decision {
	for _, m := range s.Members {
		p, ok := s.peerOf(m)
		taken := slices.ContainsFunc(s.Members, func(o Member) bool {
			return o.ID != m.ID && slices.ContainsFunc(o.PeerURLs, func(u string) bool { return slices.Contains(p.PeerURLs, u) })
		})
		if ok && s.holds(p, m) && len(p.PeerURLs) > 0 && !sameURLs(p.PeerURLs, m.PeerURLs) && !taken {
			return Decision{Actions: []Action{SetURLs{Member: m.ID, Peer: p.ID, URLs: p.PeerURLs}}}
		}
	}
	return Decision{}
}

// open lets clients in once most of the wanted members are there, and nobody is
// about to become a further one.
func (s *situation) open() Decision {
	if len(healthy(s.voters())) < quorum(s.Spec.MemberCount) || s.gathering() {
		return Decision{}
	}
	var out []Action
	for _, p := range s.seated() {
		if p.State.Quarantined {
			open := rerun(p)
			open.Quarantined = false
			out = append(out, open)
		}
	}
	return Decision{Actions: out, Together: true, Soon: true}
}

// gathering reports whether peers are about to join a cluster that was just founded.
// One that began from a back-up is not awaited: there a new member has to be sent
// the data first, and may take seconds to answer (see nudge).
func (s *situation) gathering() bool {
	age := s.Now.Sub(time.Unix(s.Record.Founded, 0))
	young := s.Record.Backup == "" && age >= 0 && age < s.policy.Gather // by another clock it may lie ahead
	return young && len(s.voters()) < s.Spec.MemberCount && len(s.learners())+len(s.idle()) > 0
}
