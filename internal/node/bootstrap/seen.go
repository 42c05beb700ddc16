package bootstrap

import (
	"sync"
	"time"
)

// seen remembers proofs until they are too old to be good anyway. Only what was
// signed by a known machine gets here, so that its size follows the number of
// machines that join within the allowed difference of clocks.
type seen struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time
}

func newSeen() *seen { return &seen{until: map[[32]byte]time.Time{}} }

// first reports whether the proof is new, and remembers it until a time.
func (s *seen) first(proof [32]byte, until, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, t := range s.until {
		if t.Before(now) {
			delete(s.until, k)
		}
	}
	if _, ok := s.until[proof]; ok {
		return false
	}
	s.until[proof] = until
	return true
}
