package bootstrap

import (
	"sync"
	"time"
)

// Seen remembers proofs until they are too old to be good anyway. Only what was
// signed by a known machine gets here, so that its size follows the number of
// machines that join within the allowed difference of clocks. The zero value has seen nothing.
type Seen struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time
}

// First reports whether the proof is new, and remembers it until a time.
func (s *Seen) First(proof [32]byte, until, now time.Time) bool {
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
	if s.until == nil {
		s.until = map[[32]byte]time.Time{}
	}
	s.until[proof] = until
	return true
}
