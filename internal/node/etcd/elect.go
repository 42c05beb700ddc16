package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Claim is a peer's claim to lead, which the others accept or reject.
type Claim struct {
	Leader string `json:"leader"`
	// Token is random; peers that accept the claim carry out orders with this token, and no others.
	Token string `json:"token"`
	// Peers are those that the leader knows to be healthy, including itself.
	Peers []string `json:"peers"`
}

// Check returns why a peer that knows these healthy peers rejects a claim, or nil
// if it accepts it. The leader is the healthy peer with the lowest name.
func (c Claim) Check(healthy []string) error {
	if len(c.Peers) == 0 || !slices.Contains(c.Peers, c.Leader) {
		return fmt.Errorf("the claim of %s does not name itself", c.Leader)
	}
	if first := slices.Min(c.Peers); first != c.Leader {
		return fmt.Errorf("%s leads, not %s", first, c.Leader)
	}
	for _, id := range healthy {
		if !slices.Contains(c.Peers, id) {
			return fmt.Errorf("%s does not know of %s", c.Leader, id)
		}
	}
	return nil
}

// Roster is what a manager knows about its peers. The zero value is an empty roster.
type Roster struct{ seen map[string]Sighting }

// Sighting is the last contact with a peer.
type Sighting struct {
	ID       string    `json:"id"`
	Endpoint string    `json:"endpoint"` // host:port of its manager
	At       time.Time `json:"-"`
}

// RecordContact records that a peer answered or called, and returns when that last happened before.
func (r *Roster) RecordContact(id, endpoint string, at time.Time) (before time.Time) {
	if r.seen == nil {
		r.seen = map[string]Sighting{}
	}
	before = r.seen[id].At
	r.seen[id] = Sighting{id, endpoint, at}
	return before
}

// RecordMention records a peer that another one has heard of, so that it is greeted.
// That does not count as hearing it.
func (r *Roster) RecordMention(s Sighting) {
	if _, ok := r.seen[s.ID]; !ok && s.Endpoint != "" {
		r.RecordContact(s.ID, s.Endpoint, time.Time{})
	}
}

// Forget drops the peers that have not been heard from since a time, including those only mentioned.
func (r *Roster) Forget(t time.Time) {
	maps.DeleteFunc(r.seen, func(_ string, s Sighting) bool { return s.At.Before(t) })
}

// Since returns the peers heard from since a time, ordered by name.
func (r *Roster) Since(t time.Time) []Sighting {
	var out []Sighting
	for _, s := range r.seen {
		if !s.At.Before(t) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Sighting) int { return strings.Compare(a.ID, b.ID) })
	return out
}
