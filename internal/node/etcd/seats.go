package etcd

import (
	"fmt"
	"slices"
)

// The user names the peers that shall be members, because their number alone does not
// say who stays when it falls, nor that one is to take the place of another.

// seats are the peers that shall be members; nil where any may be, or where none of those
// that are named is there yet.
func (s *situation) seats() []string {
	here := func(id string) bool { _, ok := s.peer(id); return ok }
	if !slices.ContainsFunc(s.Seats, here) {
		return nil
	}
	return s.Seats
}

// listed reports whether a peer may be a member.
func (s *situation) listed(peer string) bool {
	seats := s.seats()
	return seats == nil || slices.Contains(seats, peer)
}

// moves reports whether there are members enough, and one of them is to make room for
// another, which becomes a member first.
func (s *situation) moves() bool {
	voters := s.voters()
	return len(s.Seats) == s.Spec.MemberCount && len(voters) == s.Spec.MemberCount &&
		slices.ContainsFunc(voters, func(m Member) bool { return !s.listed(m.Name) })
}

// needSeats waits while the store names more or fewer members than it counts: its two
// objects are not written at once, and who must go is known by both.
func (s *situation) needSeats() Decision {
	if s.Seats == nil || len(s.Seats) == s.Spec.MemberCount || len(s.voters()) == s.Spec.MemberCount {
		return Decision{}
	}
	return Decision{Note: fmt.Sprintf("the store asks for %d members, and names %d: %v; update the cluster", s.Spec.MemberCount, len(s.Seats), s.Seats)}
}
