package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Claim is a peer's word that it leads, for the others to agree with.
type Claim struct {
	Leader string `json:"leader"`
	// Token is random; peers that agree carry out orders with this token, and no others.
	Token string `json:"token"`
	// Peers are those that the leader knows to be well, itself included.
	Peers []string `json:"peers"`
}

// Check says why a peer that knows these healthy peers does not agree with a
// claim; nil when it does. The leader is the lowest name of all who are well.
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

// Roster is what a manager knows of its peers. The zero value knows nobody.
type Roster struct{ seen map[string]Sighting }

// Sighting is the last that was heard of a peer.
type Sighting struct {
	ID       string    `json:"id"`
	Endpoint string    `json:"endpoint"` // host:port of its manager
	At       time.Time `json:"-"`
}

// Heard notes that a peer answered or called, and returns when it was heard before.
func (r *Roster) Heard(id, endpoint string, at time.Time) (before time.Time) {
	if r.seen == nil {
		r.seen = map[string]Sighting{}
	}
	before = r.seen[id].At
	r.seen[id] = Sighting{id, endpoint, at}
	return before
}

// Mention notes a peer that another has heard of, for whom to greet next. It is
// not heard thereby.
func (r *Roster) Mention(s Sighting) {
	if _, ok := r.seen[s.ID]; !ok && s.Endpoint != "" {
		r.Heard(s.ID, s.Endpoint, time.Time{})
	}
}

// Forget drops the peers that were not heard since a time, those only mentioned included.
func (r *Roster) Forget(t time.Time) {
	maps.DeleteFunc(r.seen, func(_ string, s Sighting) bool { return s.At.Before(t) })
}

// Since returns who was heard since a time, ordered by name.
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
