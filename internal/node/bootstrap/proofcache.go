package bootstrap

import (
	"sync"
	"time"
)

// ProofCache remembers proofs until they would be too old to be accepted anyway. Only proofs signed
// by known machines are recorded, so its size is proportional to the number of machines that
// join within the allowed clock skew. The zero value is empty and ready to use.
type ProofCache struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time
}

// IsFirst reports whether the proof is new, and remembers it until the given time.
func (s *ProofCache) IsFirst(proof [32]byte, until, now time.Time) bool {
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
