package etcd

import (
	"fmt"
	"slices"
)

// The user lists the peers that should be members, because their number alone does
// not determine which ones stay when it is reduced, nor that one must be replaced by
// another.

// seats returns the peers that should be members; nil if any may be, or if none of the
// listed ones exists yet.
func (s *situation) seats() []string {
	here := func(id string) bool { _, ok := s.peer(id); return ok }
	if !slices.ContainsFunc(s.Seats, here) {
		return nil
	}
	return s.Seats
}

// isListed reports whether a peer may be a member.
func (s *situation) isListed(peer string) bool {
	seats := s.seats()
	return seats == nil || slices.Contains(seats, peer)
}

// needsMove reports whether there are enough members, and one of them must make room for
// another, which becomes a member first.
func (s *situation) needsMove() bool {
	voters := s.voters()
	return len(s.Seats) == s.Spec.MemberCount && len(voters) == s.Spec.MemberCount &&
		slices.ContainsFunc(voters, func(m Member) bool { return !s.isListed(m.Name) })
}

// awaitSeats waits while the number of seats in the store differs from its member
// count: the two objects are not written at once, and only together do they determine
// which member must go.
func (s *situation) awaitSeats() Decision {
	if s.Seats == nil || len(s.Seats) == s.Spec.MemberCount || len(s.voters()) == s.Spec.MemberCount {
		return Decision{}
	}
	return Decision{Note: fmt.Sprintf("the store asks for %d members, but lists %d: %v; update the cluster", s.Spec.MemberCount, len(s.Seats), s.Seats)}
}
